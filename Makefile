# Every target makes its own virtual environment from nothing.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# An environment that uv has made is without pip.
INSTALL = @echo "Installing into $(VENV)" && { $(BIN)/python -c "import pip" 2> /dev/null || $(BIN)/python -m ensurepip > /dev/null; } && \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check
.DEFAULT_GOAL := help

.PHONY: fuzz mutants help demo test test-newest test-lowest test-matrix slow check format bench bench-scale reproduce docs clean

help:
	@echo "make demo    fit and draw p(y|x) of a real data set"
	@echo "make test    everything that has to pass"
	@echo "make test-newest   files, command line and distributions on the newest Python at hand"
	@echo "make test-lowest   the same with the lowest dependencies that are allowed"
	@echo "make test-matrix   both, on every Python at hand"
	@echo "make fuzz    model files, tables, requests and properties that may break it; SECONDS=60"
	@echo "make mutants  small changes of the code that no test notices; SECONDS=600"
	@echo "make check   format, lint and types"
	@echo "make slow    clusters, browser, JAX, networks and statistics that take minutes"
	@echo "make bench   speed, memory and recovery, into benchmarks/results"
	@echo "make bench-scale   the same for many rows, about 15 minutes"
	@echo "make reproduce   every table and figure of the paper, into reproduction"
	@echo "make docs    the documentation site, into site"

$(BIN)/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'Python 3.11 or later is needed; set PYTHON=')"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(INSTALL) -e ".[plot]"
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(INSTALL) -e ".[plot,test]"
	@touch $@ $(VENV)/.demo

$(VENV)/.reproduce: pyproject.toml | $(BIN)/python
	$(INSTALL) -e ".[plot,baselines]"
	@touch $@ $(VENV)/.demo

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(INSTALL) -e ".[docs,plot]"
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo
	$(BIN)/python examples/demo.py

# One BLAS thread for each of the processes; one that is done takes over half of what
# another has left, so that long files at the end leave no core idle.
test: $(VENV)/.test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

slow: $(VENV)/.test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m slow -n auto --dist worksteal

# What touches files and the edges of NumPy, on the newest Python and dependencies.
NEWEST = $(shell .ci/newest-python)
NEWEST_TESTS = tests/persistence tests/cli tests/distributions
test-newest: pyproject.toml
	@test -n "$(NEWEST)" || echo "test-newest: no Python newer than 3.11 here, so nothing was tested"
	test -z "$(NEWEST)" || { test -d $(VENV)-newest || "$(NEWEST)" -m venv $(VENV)-newest; }
	test -z "$(NEWEST)" || $(VENV)-newest/bin/python -m pip install --quiet \
		--disable-pip-version-check -e ".[plot,parquet]" hypothesis pandas polars pytest pytest-xdist
	test -z "$(NEWEST)" || OPENBLAS_NUM_THREADS=1 $(VENV)-newest/bin/python -m pytest -n auto --dist loadfile $(NEWEST_TESTS)

# The lowest versions that pyproject.toml allows, on the oldest Python; pytest and Polars, too: newer
# ones do not go with scikit-learn of that time.
LOWEST_TESTS = tests/persistence/test_round_trips.py tests/kernels/test_values.py tests/distributions/test_mixture.py tests/distributions/test_scipy_form.py tests/estimators/test_sklearn.py tests/tables tests/test_linalg.py
test-lowest: pyproject.toml
	test -d $(VENV)-lowest || $(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install --quiet --disable-pip-version-check \
		$$($(PYTHON) .ci/lowest-versions plot parquet) hypothesis pandas "polars==1.33.*" "pytest==8.2.*" pytest-xdist
	$(VENV)-lowest/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	OPENBLAS_NUM_THREADS=1 $(VENV)-lowest/bin/python -m pytest -n auto --dist worksteal $(LOWEST_TESTS)

# The same on every Python at hand, with the newest dependencies, and with the lowest.
test-matrix: test-lowest
	for python in $$(.ci/newest-python all); do $(MAKE) test-newest NEWEST=$$python VENV=$(VENV)-$$($$python -c "import sys; print(sys.version_info.minor)") || exit 1; done

# Random cases, of which the seed is printed; then properties, each with many random cases.
fuzz: SECONDS ?= 60
fuzz: $(VENV)/.test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --seconds $(SECONDS)
	OPENBLAS_NUM_THREADS=1 HYPOTHESIS_PROFILE=long timeout $(SECONDS) $(BIN)/python -m pytest -q -m "slow or not slow" \
		$(wildcard tests/*/test_properties.py) || test $$? = 124

# A part of all changes, drawn by a seed; those that no test notices are listed.
mutants: SECONDS ?= 600
mutants: $(VENV)/.test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.mutants --seconds $(SECONDS)

check: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.test
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/threads.py
	$(BIN)/python benchmarks/graphs.py --only draws
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/distributions.py
	$(BIN)/python benchmarks/gradient.py
	$(BIN)/python benchmarks/recovery.py

bench-scale: $(VENV)/.test
	$(BIN)/python benchmarks/scale.py

# Goes on where it was stopped; OPTIONS="--quick" and the like are passed on.
reproduce: $(VENV)/.reproduce
	$(BIN)/python -m reproduction run $(OPTIONS)

docs: $(VENV)/.docs
	$(BIN)/python docs/build_site.py

clean:
	rm -rf $(VENV) $(VENV)-* build dist site .pytest_cache .mypy_cache .ruff_cache
