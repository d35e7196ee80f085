# `make` lists the targets. Every target makes the environment it needs in .venv; nothing else is touched.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile -c constraints.txt
WORKERS ?= 2
HISTORIES ?= 10000
SEED ?= 1
PYTEST := $(BIN)/python -m pytest

# Packages are built (this one is) with the versions of the constraints too: the first is for pip before 25.3.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt

RUNTIME := $(VENV)/.runtime
DEV     := $(VENV)/.dev
BENCH   := $(VENV)/.bench
DUCKLAKE := $(VENV)/.ducklake
# What `make bench` measures beside today's code: before two hops and offers. OLD= leaves it out.
OLD     ?= 6ba6ff78c00f

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-all durations test-fast test-s3 soak docs lint types layers format reference histories memory clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
		echo "Quire needs Python 3.11 or newer, and '$(PYTHON)' was not found. Try: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Quire needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12" >&2; exit 1; }
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade pip

# The stamps are older than pyproject.toml or constraints.txt when the dependencies may have changed.
$(RUNTIME): pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing quire"
	@$(PIP) -e .
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing quire and what its tests need"
	@$(PIP) -e '.[dev]'
	@touch $(RUNTIME) $@

$(BENCH): pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing quire and what it is compared with"
	@$(PIP) -e '.[bench]'
	@touch $(RUNTIME) $@

# Apart, because its DuckDB is another one than Quire's. Without constraints, for the same reason.
$(DUCKLAKE): benchmarks/commits/ducklake.txt | $(BENCH)
	@echo "installing DuckLake in $(VENV)/ducklake"
	@rm -rf $(VENV)/ducklake
	@env -u PIP_CONSTRAINT -u PIP_BUILD_CONSTRAINT $(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile --no-deps \
		--target $(VENV)/ducklake -r benchmarks/commits/ducklake.txt
	@touch $@

venv: $(DEV) ## make the environment for development

demo: $(RUNTIME) ## a lake on local disk: one commit over several tables, a join, a rollback, a conflict
	@$(BIN)/python examples/demo.py

test: $(DEV) ## everything a change must pass: lint, layers, types, docs, the default tier of the tests
	@$(BIN)/python tests/run.py --workers $(WORKERS)

test-all: $(DEV) ## the same with every test and longer searches (two hours)
	@$(BIN)/python tests/run.py --workers $(WORKERS) --full

durations: $(DEV) ## run the default tier and write down how long its tests take (tests/durations.toml)
	QUIRE_TESTS_DURATIONS=write $(PYTEST) -n $(WORKERS)

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

.PHONY: test-pythons
test-pythons: ## test-fast on other Pythons, on the path or of pyenv (PYTHONS="3.12 3.13"), each in build/pythons
	@$(PYTHON) tests/pythons.py $(or $(PYTHONS),3.12 3.13)

.PHONY: coverage
coverage: $(DEV) ## lines of src/quire that the default tier runs in its own processes (half as long again as the tests)
	$(PYTEST) -n $(WORKERS) --cov=quire --cov-report=term:skip-covered

# Each of these folders tests its package alone and takes seconds.
UNITS := store ledger

.PHONY: coverage-units
coverage-units: $(DEV) ## the same for the two lowest layers by their own tests, which .ci/run prints (half a minute)
	@$(PYTEST) -q -n $(WORKERS) -m "not slow and not s3" $(UNITS:%=tests/%) $(UNITS:%=--cov=quire.%) --cov-report=term:skip-covered

test-s3: $(DEV) ## the tests against an S3-compatible server
	$(PYTEST) -n $(WORKERS) -m s3

soak: $(DEV) ## kills under load, also of 64 processes on one table, and upkeep beside writers and long readers (ten minutes)
	QUIRE_TESTS=full QUIRE_SOAK_SECONDS=120 $(PYTEST) tests/soak -s

.PHONY: spec
spec: $(DEV) ## check the specification of the protocol with TLC, with all rules and without each (minutes; needs Java)
	@$(PIP) -e '.[spec]'
	$(BIN)/python spec/check.py --workers $(WORKERS)

docs: $(DEV) ## run every code block of the documentation
	$(PYTEST) tests/docs

.PHONY: site
site: $(DEV) ## the documentation as a web site in build/site, to be read without a network
	@$(BIN)/python -m website build/site

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

.PHONY: test-ui screenshots
test-ui: $(DEV) ## the pages in Debian's Chromium: every page in every state, keys, WCAG, ten million rows
	@$(BIN)/python -m tests.ui.browser
	QUIRE_TESTS=full $(PYTEST) tests/ui tests/server/test_ui.py

screenshots: $(DEV) ## make the pictures of docs/guides/ui.md again, from the running pages
	@$(BIN)/python -m tests.ui.browser
	$(BIN)/python -m website.screenshots

.PHONY: openapi
openapi: $(DEV) ## write the description of the server again
	$(BIN)/python -m quire.server.openapi

.PHONY: constraints
constraints: $(BIN)/python ## write constraints.txt again, with the newest versions that pyproject.toml allows
	@scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT && \
	unset PIP_CONSTRAINT PIP_BUILD_CONSTRAINT && \
	$(BIN)/python -m venv "$$scratch/env" && \
	"$$scratch/env/bin/python" -m pip install -qq --disable-pip-version-check --upgrade pip && \
	"$$scratch/env/bin/python" -m pip install -qq --disable-pip-version-check '.[dev]' editables \
	  "$$(sed -n 's/^requires = \["\(.*\)"\]$$/\1/p' pyproject.toml)" && \
	{ sed -n '/^#/p' constraints.txt; \
	  "$$scratch/env/bin/python" -m pip list --format=freeze --exclude quire --exclude setuptools; \
	} > "$$scratch/new" && cat "$$scratch/new" > constraints.txt

memory: $(RUNTIME) ## append 10 GB from an iterator and report peak memory (minutes; needs 12 GB of disk)
	$(BIN)/python benchmarks/memory_append.py

.PHONY: bench-server
bench-server: $(DEV) ## commits per second through one server, and by processes that race (a minute)
	$(BIN)/python benchmarks/server.py $(if $(SECONDS_EACH),--seconds $(SECONDS_EACH))

.PHONY: costs
costs: $(DEV) ## what every verb costs, against the golden file (WRITE=1 writes it, HOPS=1, ONLY=text; ten minutes)
	$(BIN)/python -m tests.laboratory.costs $(if $(WRITE),--write) $(if $(HOPS),--hops) $(if $(ONLY),--only "$(ONLY)")

.PHONY: bench
bench: $(BENCH) $(DUCKLAKE) ## Quire beside an older revision (OLD=), pylance, Lance namespaces, deltalake, icechunk, DuckLake (40 minutes; QUICK=1: 2 minutes)
	$(BIN)/python -m benchmarks.commits $(if $(QUICK),--quick) $(ONLY:%=--only %) $(if $(OLD),--old $(OLD)) $(if $(JSON),--json $(JSON)) $(if $(FIGURE),--figure $(FIGURE))

.PHONY: bench-graph
bench-graph: $(BENCH) ## 1M nodes and 5M edges, and a social network with search, beside DuckDB, Ladybug and Lance (15 minutes; QUICK=1: 4 minutes; GRAPH=social)
	$(BIN)/python -m benchmarks.graph $(if $(QUICK),--quick) $(if $(GRAPH),--graph $(GRAPH)) $(if $(JSON),--json $(JSON))

.PHONY: spark-cluster
spark-cluster: $(DEV) ## Spark on a cluster, killed workers, stragglers; a load completed after every death of its driver (ten minutes)
	QUIRE_SPARK_CLUSTER=1 $(PYTEST) tests/spark/test_cluster.py tests/spark/test_kills.py

.PHONY: test-lance-clients
test-lance-clients: $(DEV) ## pylance 7, 10, 14, LanceDB, Node and DuckDB in environments of their own, kept below build/ (five minutes)
	$(BIN)/python -m tests.lance_clients.environments build/lance-clients
	QUIRE_LANCE_CLIENTS=build/lance-clients $(PYTEST) tests/lance_clients --ignore tests/lance_clients/test_lance_spark.py

.PHONY: test-lance-spark
test-lance-spark: $(DEV) ## lance-spark on a real Spark, in an environment of its own below build/ (five minutes; needs Java and Maven)
	$(BIN)/python -m tests.lance_clients.environments build/lance-clients spark
	QUIRE_LANCE_CLIENTS=build/lance-clients $(PYTEST) tests/lance_clients/test_lance_spark.py -n 0

.PHONY: test-delta-spark
test-delta-spark: $(DEV) ## Delta Spark, from Maven, with the Spark it supports, kept below build/, writes through a server (ten minutes; needs Java and Maven)
	$(BIN)/python -m tests.delta_spark.environments build/delta-spark
	QUIRE_DELTA_SPARK=build/delta-spark $(PYTEST) tests/delta_spark

.PHONY: test-recipes
test-recipes: $(DEV) ## the recipes for dbt and Airflow in environments of their own, kept below build/ (five minutes)
	$(BIN)/python -m tests.pipeline.recipe_environments build/recipes
	QUIRE_RECIPES=$(CURDIR)/build/recipes $(PYTEST) tests/pipeline/test_recipes.py

.PHONY: bench-spark
bench-spark: $(DEV) ## loads on Spark beside df.write.parquet, code by hand, this process, one table at a time (15 minutes; ROWS=, VECTORS=, GRAPH=quick)
	$(BIN)/python -m benchmarks.spark $(if $(ROWS),--rows $(ROWS)) $(if $(VECTORS),--vectors $(VECTORS)) $(if $(GRAPH),--graph $(GRAPH)) $(if $(JSON),--json $(JSON))

.PHONY: differential
differential: $(DEV) ## random graphs, queries and mutations against plain loops (GRAPHS=600: ten minutes)
	QUIRE_DIFFERENTIAL=$(or $(GRAPHS),600) $(PYTEST) tests/graph/differential -o timeout=7200

.PHONY: differential-filters
differential-filters: $(DEV) ## random filters through every face against DuckDB (FILTERS=10000: half an hour; SEED=1)
	QUIRE_TESTS=full QUIRE_FILTERS=$(or $(FILTERS),10000) QUIRE_SEED=$(SEED) $(PYTEST) tests/filters/test_differential.py -o timeout=14400 -n $(WORKERS)

.PHONY: merges
merges: $(DEV) ## random histories of branches against the laws of merging and a merge by plain loops (CASES=10000: half an hour; SEED=1)
	$(BIN)/python -m tests.laboratory.merges --cases $(or $(CASES),10000) --seed $(SEED) --failures 5

histories: $(RUNTIME) ## ten thousand simulated histories with faults (SEED=1, HISTORIES=10000; minutes)
	$(BIN)/python -m quire.testing.simulation --histories $(HISTORIES) --seed $(SEED) --processes $(WORKERS)

clean: ## remove builds and caches; the environment stays
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
