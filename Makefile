# Every target works on a fresh clone with CPython 3.11 or later and pip: it makes .venv and installs what it needs.
PYTHON ?= python3
BIN := .venv/bin
JOBS ?= 2

VERSIONS ?= newest
WITHOUT ?=

.PHONY: demo reproduce test soak versions docs bench format clean

demo: .venv/installed
	$(BIN)/pastmaster demo

# The paper's experiments, or some of them by name: make reproduce ARGS='--quick'; python -m pastmaster_paper has more.
reproduce: .venv/installed-paper
	$(BIN)/python -m pastmaster_paper reproduce $(ARGS)

test soak: export PYTHONDONTWRITEBYTECODE :=  # or each of the tests' processes would compile the sources anew

# Everything but what is marked soak, of the library and of the paper's package, in some 8 minutes on two quiet cores.
test: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/compile_kernels.py exact clustering estimation & \
		$(BIN)/python tests/compile_kernels.py reuse; $(BIN)/mypy; found=$$?; wait; exit $$found
	$(BIN)/pytest -n $(JOBS)

# Everything marked soak or repeated, in full, before a release: what was tried, survived and failed, as one table.
soak: .venv/installed-dev
	PASTMASTER_SOAK=1 $(BIN)/pytest -n $(JOBS) -o timeout=7200

# The tests on another Python, with the newest or the least versions of everything that pyproject.toml allows:
# make versions PYTHON=python3.13 VERSIONS=minimum WITHOUT=sb3
versions:
	$(PYTHON) tests/versions.py $(VERSIONS) --without "$(WITHOUT)" -n $(JOBS)

# The documentation as a site that needs no network: open site/index.html.
docs: .venv/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: .venv/installed-bench
	$(BIN)/python -m benchmarks

format: .venv/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml | .venv/bin/python
	$(BIN)/pip install --quiet --editable .
	touch $@

.venv/installed-paper: pyproject.toml paper/pyproject.toml | .venv/bin/python
	$(BIN)/pip install --quiet --editable . --editable ./paper
	touch $@ .venv/installed

# Stable-Baselines3 would bring the largest build of torch there is: its CPU build is asked for first, on its own.
.venv/torch: | .venv/bin/python
	$(BIN)/pip install --quiet torch==2.13.0
	touch $@

.venv/installed-dev: pyproject.toml paper/pyproject.toml .venv/torch
	$(BIN)/pip install --quiet --editable '.[dev]' --editable './paper[games]'
	touch $@ .venv/installed .venv/installed-paper

.venv/installed-docs: pyproject.toml | .venv/bin/python
	$(BIN)/pip install --quiet --editable '.[docs]'
	touch $@ .venv/installed

.venv/installed-bench: pyproject.toml paper/pyproject.toml .venv/torch
	$(BIN)/pip install --quiet --editable '.[dev,bench]' --editable './paper[games]'
	touch $@ .venv/installed .venv/installed-dev .venv/installed-paper
