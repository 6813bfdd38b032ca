# Two commands do everything from a bare clone: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
BENCH := $(VENV)/installed-bench

.PHONY: help demo test lint format defaults bench bench-gpu clean

help:
	@echo "make demo      set up, train S-VNNs and baselines on built-in data, write runs/demo/"
	@echo "make test      set up, then lint, type-check, check import layers and run the tests"
	@echo "make defaults  how well the default estimators predict (SVNN_DATA adds the real data sets)"
	@echo "make bench     speed against PyG, torch and scipy in one run (ten minutes or so); writes runs/bench/"
	@echo "make bench-gpu the GPU part: a covariance of 100,000 features, a training step on 20,000 nodes"
	@echo "make format    format the code"
	@echo "make clean     remove the environment and caches"

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(STAMP)
	$(BIN)/svnn demo --out runs/demo

test: lint
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

defaults: $(STAMP)
	$(BIN)/python benchmarks/defaults.py

$(BENCH): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bench]"
	@touch $@

bench: $(BENCH)
	$(BIN)/python benchmarks/run.py --out runs/bench

bench-gpu: $(STAMP)
	$(BIN)/python benchmarks/gpu.py --out runs/bench

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
