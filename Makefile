# Everything below sets itself up in .venv; only Python 3.10+ and make are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Twice the cores: many tests wait for processes rather than compute.
JOBS ?= $(shell $(PYTHON) -c 'import os; print(min(8, 2 * len(os.sched_getaffinity(0))))')
PYTEST = $(BIN)/python -m pytest -q -n $(JOBS) --dist loadgroup

PIP = $(BIN)/python tools/patience.py

.PHONY: demo test test-all check clean docs bench

demo: $(VENV)/.trainer  ## train MNIST on local processes, with live progress
	$(BIN)/tfcluster up examples/mnist.yaml

test: $(VENV)/.dev  ## every test that needs neither Docker nor a cluster, nor takes long
	$(PYTEST) -m "not slow" tests

test-all: $(VENV)/.dev  ## the same, and the tests that take long
	$(PYTEST) tests

check: $(VENV)/.dev  ## format, lint, types, architecture
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.dev  ## write the generated pages of docs/ anew
	$(BIN)/python -m tfcluster.spec.docs
	$(BIN)/python -m tfcluster.cli_docs > docs/commands.md

bench: $(VENV)/.dev  ## measure start-up, planning, the control plane, logs and training, as ratios
	$(BIN)/python benchmarks/cli.py
	$(BIN)/python benchmarks/control.py
	$(BIN)/python benchmarks/logs.py
	$(BIN)/python benchmarks/trainer.py

clean:  ## remove what the targets above made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "error: tfcluster needs Python 3.10 or later; name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "error: this Python cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

$(VENV)/.trainer: $(VENV)/bin/python pyproject.toml
	@$(PIP) "Installing tfcluster and TensorFlow into $(VENV) (once, a few minutes)" -e ".[trainer]"
	@touch $@

$(VENV)/.dev: $(VENV)/.trainer
	@$(PIP) "Installing test tools into $(VENV)" -e ".[trainer,dev]"
	@touch $@
