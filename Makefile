# `make` lists the targets. Every target makes the environment it needs in .venv; nothing else is touched.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install -qq --disable-pip-version-check
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest

RUNTIME := $(VENV)/.runtime
DEV     := $(VENV)/.dev

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-fast test-s3 docs lint types layers format reference memory clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

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

venv: $(DEV) ## make the environment for development

demo: $(RUNTIME) ## a lake on local disk: one commit over several tables, a join, a rollback, a conflict
	@$(BIN)/python examples/demo.py

test: lint types layers ## everything: lint, types, layers, tests, docs
	$(PYTEST) -n $(WORKERS)

test-fast: $(DEV) ## the tests that take no server and little time
	$(PYTEST) -n $(WORKERS) -m "not slow and not s3"

test-s3: $(DEV) ## the tests against an S3-compatible server
	$(PYTEST) -n $(WORKERS) -m s3

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

clean: ## remove builds and caches; the environment stays
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
