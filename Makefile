# `make run` and `make test` need Python 3.11 or newer, make and a network; everything else they get themselves.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup run check test soak fuzz bench growth compiled lock clean

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
PYTHON ?= $(shell tests/choose-python)
PYTEST := $(BIN)/python -m pytest
FAST := not slow and not kernel and not torture

help: ## this text
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' Makefile | expand -t 10

setup: $(STAMP) ## .venv with the package and its tools in it
$(STAMP): requirements.lock pyproject.toml
	@PYTHON="$(PYTHON)" tests/make-venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --editable .
	@touch $(STAMP)

run: setup ## serve /export from the user's data directory, in the foreground
	@exec $(BIN)/dittofs serve

check: setup ## format, lint, types, import rule, fast tests; under a minute
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(PYTEST) -q -p no:cacheprovider -m "$(FAST)" tests

test: setup ## everything, the kernel's client and the torture tests included
	tests/run-all $(BIN)/python

soak: setup ## 1,000 kills of the server; hours
	DITTOFS_TEST_KILLS=1000 $(PYTEST) -q -x --timeout=0 -m torture tests

fuzz: setup ## feed decoders and a whole server with coverage-guided rubbish for FUZZ_SECONDS (600)
	-@$(BIN)/python -m pip install --quiet --require-hashes --requirement tests/fuzz/requirements.lock
	$(BIN)/python tests/fuzz/run.py --seconds $${FUZZ_SECONDS:-600}

bench: setup compiled ## measure, beside NFS-Ganesha where it is installed; QUICK=1: minutes instead of half an hour
	$(BIN)/python bench/run.py $(if $(QUICK),--quick)

growth: setup ## how cost grows with files, locks and connections; minutes
	$(BIN)/python bench/growth.py

COMPILED := build/compiled
compiled: $(COMPILED)/.stamp ## the package with its hot modules compiled by mypyc, in build/compiled; needs a C compiler
$(COMPILED)/.stamp: $(STAMP) hatch_build.py $(shell find src -name '*.py')
	rm -rf $(COMPILED) build/wheel
	DITTOFS_COMPILE=1 $(BIN)/python -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir build/wheel .
	$(BIN)/python -m zipfile -e build/wheel/*.whl $(COMPILED)
	@touch $@

lock: setup ## choose the newest allowed versions again and write requirements.lock
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --upgrade --extra dev pyproject.toml --output-file requirements.lock
	@! grep -nE '://|--(index|find-links)' requirements.lock || { echo "make: requirements.lock names a registry" >&2; exit 1; }

clean: ## everything that can be made again
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
