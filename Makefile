# Every target works on a fresh clone with CPython 3.11 or later and pip: it makes .venv and installs what it needs.
PYTHON ?= python3
BIN := .venv/bin
JOBS ?= 2

.PHONY: demo test soak bench format clean

demo: .venv/installed
	$(BIN)/pastmaster demo

test: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n $(JOBS) --dist loadgroup

soak: .venv/installed-dev
	PASTMASTER_SOAK=1 $(BIN)/pytest -n $(JOBS) -s tests/repository/test_repository_faults.py tests/continual/test_agent_faults.py

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

# Stable-Baselines3 would bring the largest build of torch there is: its CPU build is asked for first, on its own.
.venv/torch: | .venv/bin/python
	$(BIN)/pip install --quiet torch==2.13.0
	touch $@

.venv/installed-dev: pyproject.toml .venv/torch
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@ .venv/installed

.venv/installed-bench: pyproject.toml .venv/torch
	$(BIN)/pip install --quiet --editable '.[dev,bench]'
	touch $@ .venv/installed .venv/installed-dev
