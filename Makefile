# Two commands do everything from a bare clone: `make demo` and `make test`.

PYTHON ?= python3
VENV ?= .venv
OLDEST ?= .venv-oldest
EMPTY ?= .venv-empty
GRAPH ?= .venv-graph
JOBS ?= 2
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
PYTEST = -m pytest -n auto --dist worksteal $(if $(SHUFFLE),--shuffle $(SHUFFLE))

# Where the kernels have a say: `make test-plain` runs these rooms, and with PLAIN= all tests.
PLAIN ?= tests/test_compiled.py tests/covariance tests/estimators tests/graphs tests/nn tests/operators \
  tests/paper/baselines
# What meets other packages: `make test-oldest` runs these rooms, and with ROOMS= all tests.
ROOMS ?= $(PLAIN) tests/comparison tests/datasets tests/functional tests/inspection tests/paper/bounds \
  tests/paper/data tests/plotting tests/reporting tests/sources tests/stability tests/test_metrics.py \
  tests/test_preprocessing.py tests/test_requirements.py src
# A seed: the files, and the tests of each file, in another order.
SHUFFLE ?=

.PHONY: help demo test test-plain test-oldest test-all test-slow lint format coverage mutants docs dist defaults rivals uncertainty inspection few-rows shifts bench bench-gpu bench-graph clean

help:
	@echo "make demo      set up, compare S-VNNs with other models on built-in spectra, write runs/demo/"
	@echo "make test      set up, then lint, type-check, check import layers and run the tests"
	@echo "make test-all  make test, then the rooms where it matters without the numba kernels (make test-plain)"
	@echo "               and with the oldest versions allowed (make test-oldest); SHUFFLE=1 in another order"
	@echo "make test-slow the tests that make test leaves out: whole scripts, long runs, full matrices"
	@echo "make coverage  which lines and branches the tests reach; writes runs/coverage/"
	@echo "make mutants   plant bugs one at a time in a copy and see whether the tests notice (ten minutes or so; ROOM=nn"
	@echo "               takes those of one room, or those with a word in their names; JOBS=4 at a time)"
	@echo "make docs      build the site with its gallery in docs/_build/html (SVNN_DATA adds pages with real data)"
	@echo "make dist      build wheel and sdist, check them, install the wheel in an empty environment and run the"
	@echo "               README's quickstart there"
	@echo "make defaults  how well the default estimators predict (SVNN_DATA adds the real data sets)"
	@echo "make rivals    the same beside the models that one would try, fit by fit into docs/results/rivals.csv"
	@echo "make uncertainty  whether standard deviations tell errors; writes docs/results/uncertainty.csv"
	@echo "make inspection  whether contributions find planted features; writes docs/results/inspection.csv"
	@echo "make few-rows  every covariance and shift with 5 to 3 N rows, beside ridge and a constant (an hour or two; resumes);"
	@echo "               writes docs/results/few_rows.csv"
	@echo "make shifts    every covariance on data made for it, beside hard thresholds; writes docs/results/shifts.csv"
	@echo "make bench     speed against PyG, torch and scipy in one run (ten minutes or so); writes runs/bench/"
	@echo "make bench-gpu the GPU part: graphs of 100,000 and of 1,575,538 features, a training step on 20,000 nodes"
	@echo "make bench-graph  correlation graphs beside numpy, Dask, deepgraph and CorALS, which get an environment of their"
	@echo "               own (half an hour or so); writes docs/results/graph.json"
	@echo "make format    format the code"
	@echo "make clean     remove the environments and caches"

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP_INSTALL) -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(STAMP)
	$(BIN)/svnn demo --out runs/demo

test: lint
	$(BIN)/python $(PYTEST)

test-plain: $(STAMP)
	SVNN_NUMBA=0 $(BIN)/python $(PYTEST) $(PLAIN)

test-slow: $(STAMP)
	$(BIN)/python $(PYTEST) -m slow

# PIP_CONSTRAINT, unlike -c, also holds for what builds the package.
$(OLDEST)/installed: pyproject.toml constraints.txt constraints-oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	PIP_CONSTRAINT=$(CURDIR)/constraints-oldest.txt $(OLDEST)/bin/python $(PIP_INSTALL) -e ".[test]"
	@touch $@

test-oldest: $(OLDEST)/installed
	$(OLDEST)/bin/python $(PYTEST) $(ROOMS)

test-all:
	$(MAKE) test
	$(MAKE) test-plain
	$(MAKE) test-oldest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Without the compiled kernels, whose lines no coverage tool can see.
coverage: $(STAMP)
	SVNN_NUMBA=0 $(BIN)/python $(PYTEST) --cov --cov-report=term --cov-report=html:runs/coverage

mutants: $(STAMP)
	$(BIN)/python tests/mutants.py $(ROOM) --jobs $(JOBS)

# Nothing is fetched; a warning is an error.
docs: $(STAMP)
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

dist: $(STAMP)
	rm -rf dist $(EMPTY)
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv $(EMPTY)
	$(EMPTY)/bin/python $(PIP_INSTALL) -c constraints.txt dist/*.whl
	awk '/^```/ { inside = /python/ && !seen++; next } inside' README.md > $(EMPTY)/quickstart.py
	cd $(EMPTY) && bin/python quickstart.py && bin/svnn --version

defaults: $(STAMP)
	$(BIN)/python benchmarks/defaults.py

rivals: $(STAMP)
	$(BIN)/python benchmarks/rivals.py

uncertainty: $(STAMP)
	$(BIN)/python benchmarks/uncertainty.py

inspection: $(STAMP)
	$(BIN)/python benchmarks/inspection.py

few-rows: $(STAMP)
	$(BIN)/python benchmarks/few_rows.py

shifts: $(STAMP)
	$(BIN)/python benchmarks/shifts.py

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py --out runs/bench

bench-gpu: $(STAMP)
	$(BIN)/python benchmarks/gpu.py --out runs/bench
	$(BIN)/python benchmarks/gpu_graph.py --out runs/bench

# CorALS needs a numpy below 2, so what it is compared with does not share the environment of everything else.
$(GRAPH)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(GRAPH)
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(GRAPH)/bin/python $(PIP_INSTALL) corals "dask[array]" deepgraph -e ".[plot]"
	@touch $@

bench-graph: $(GRAPH)/installed
	$(GRAPH)/bin/python benchmarks/graph.py --out docs/results

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(OLDEST) $(EMPTY) $(GRAPH) dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
