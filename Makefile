# `make` lists the targets. Every target makes the environment it needs in .venv; nothing else is touched.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install -qq --disable-pip-version-check
WORKERS ?= 2
HISTORIES ?= 10000
SEED ?= 1
PYTEST := $(BIN)/python -m pytest

RUNTIME := $(VENV)/.runtime
DEV     := $(VENV)/.dev
BENCH   := $(VENV)/.bench

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-fast test-s3 soak docs lint types layers format reference histories memory clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
		echo "Quire needs Python 3.11 or newer, and '$(PYTHON)' was not found. Try: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Quire needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12" >&2; exit 1; }
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# The stamps are older than pyproject.toml when the dependencies may have changed.
$(RUNTIME): pyproject.toml | $(BIN)/python
	@echo "installing quire"
	@$(PIP) -e .
	@touch $@

$(DEV): pyproject.toml | $(BIN)/python
	@echo "installing quire and what its tests need"
	@$(PIP) -e '.[dev]'
	@touch $(RUNTIME) $@

$(BENCH): pyproject.toml | $(BIN)/python
	@echo "installing quire and what it is compared with"
	@$(PIP) -e '.[bench]'
	@touch $(RUNTIME) $@

venv: $(DEV) ## make the environment for development

demo: $(RUNTIME) ## a lake on local disk: one commit over several tables, a join, a rollback, a conflict
	@$(BIN)/python examples/demo.py

test: lint types layers ## everything: lint, types, layers, tests, docs
	$(PYTEST) -n $(WORKERS)

test-fast: $(DEV) ## the tests that take no server and little time
	$(PYTEST) -n $(WORKERS) -m "not slow and not s3"

.PHONY: every-request
every-request: $(DEV) ## end a client at every request of every operation that writes (half an hour)
	QUIRE_EVERY_REQUEST=1 $(PYTEST) -n $(WORKERS) --timeout 1800 tests/system/test_every_request.py

.PHONY: machine
machine: $(DEV) ## a lake under everything at once against a model (MACHINE=histories, default 400: ten minutes)
	QUIRE_MACHINE=$(or $(MACHINE),400) $(PYTEST) tests/lake/test_machine.py -o timeout=7200 -s

.PHONY: fuzz
fuzz: $(DEV) ## thousands of damaged and forged lakes (FUZZ=cases per test, default 100: half an hour)
	QUIRE_FUZZ=$(or $(FUZZ),100) $(PYTEST) tests/hostile --timeout 7200 -n $(WORKERS)

test-s3: $(DEV) ## the tests against an S3-compatible server
	$(PYTEST) -n $(WORKERS) -m s3

soak: $(DEV) ## two minutes each of kills under load, and of upkeep beside writers and long readers
	QUIRE_SOAK_SECONDS=120 $(PYTEST) tests/soak -s

.PHONY: spec
spec: $(DEV) ## check the specification of the protocol with TLC, with all rules and without each (minutes; needs Java)
	@$(PIP) -e '.[spec]'
	$(BIN)/python spec/check.py --workers $(WORKERS)

docs: $(DEV) ## run every code block of the documentation
	$(PYTEST) tests/docs

lint: $(DEV) ## style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV) ## strict type checks
	$(BIN)/mypy

layers: $(DEV) ## imports point downwards only
	$(BIN)/lint-imports

format: $(DEV) ## put the code in house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

reference: $(DEV) ## write the generated part of the documentation
	@mkdir -p docs/reference
	$(BIN)/python -m quire.cli.reference > docs/reference/cli.md.new && mv docs/reference/cli.md.new docs/reference/cli.md

memory: $(RUNTIME) ## append 10 GB from an iterator and report peak memory (minutes; needs 12 GB of disk)
	$(BIN)/python benchmarks/memory_append.py

.PHONY: costs
costs: $(DEV) ## what every verb costs, against the golden file (WRITE=1 writes it, HOPS=1, ONLY=text; ten minutes)
	$(BIN)/python -m quire.testing.costs $(if $(WRITE),--write) $(if $(HOPS),--hops) $(if $(ONLY),--only "$(ONLY)")

.PHONY: bench
bench: $(BENCH) ## Quire beside pylance, Lance namespaces, deltalake and icechunk (15 minutes; QUICK=1: 2 minutes)
	$(BIN)/python -m benchmarks.commits $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY)) $(if $(JSON),--json $(JSON))

.PHONY: bench-graph
bench-graph: $(BENCH) ## a graph of 1M nodes and 5M edges, loaded and asked, beside DuckDB and Ladybug (10 minutes; QUICK=1: 2 minutes)
	$(BIN)/python -m benchmarks.graph $(if $(QUICK),--quick) $(if $(JSON),--json $(JSON))

.PHONY: spark-cluster
spark-cluster: $(DEV) ## Spark on a cluster, killed workers, stragglers; a load completed after every death of its driver (ten minutes)
	QUIRE_SPARK_CLUSTER=1 $(PYTEST) tests/spark/test_cluster.py tests/spark/test_kills.py

.PHONY: bench-spark
bench-spark: $(DEV) ## loads on Spark beside df.write.parquet, code by hand, this process, one table at a time (15 minutes; ROWS=, VECTORS=, GRAPH=quick)
	$(BIN)/python -m benchmarks.spark $(if $(ROWS),--rows $(ROWS)) $(if $(VECTORS),--vectors $(VECTORS)) $(if $(GRAPH),--graph $(GRAPH)) $(if $(JSON),--json $(JSON))

.PHONY: differential
differential: $(DEV) ## random graphs, queries and mutations against plain loops (GRAPHS=600: ten minutes)
	QUIRE_DIFFERENTIAL=$(or $(GRAPHS),600) $(PYTEST) tests/graph/differential -o timeout=7200

histories: $(RUNTIME) ## ten thousand simulated histories with faults (SEED=1, HISTORIES=10000; minutes)
	$(BIN)/python -m quire.testing.simulation --histories $(HISTORIES) --seed $(SEED) --processes $(WORKERS)

clean: ## remove builds and caches; the environment stays
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
