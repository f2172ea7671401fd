# Every target sets itself up on a fresh machine with Python >= 3.11 and either Docker or Java + Maven.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
CORPUS ?= ../shared/corpus/dev.jsonl

.DEFAULT_GOAL := help
.PHONY: help setup demo test check up down bench bless evaluate lock

help: ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## Make .venv with the locked packages
$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .
	$(BIN)/exitsign train --ready
	@touch $@

demo: setup ## The main job: real failures in, labels in Postgres, advice out; ends by itself
	$(BIN)/python -m load_tests.demo

test: setup ## Every test, the real-stack ones included
	$(BIN)/python -m pytest

check: setup ## ruff, mypy, signatures, architecture and docs
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/exitsign signatures check
	$(BIN)/python -m pytest -q tests/test_architecture.py tests/test_docs.py

up: setup ## Stack and agents stay running; prints addresses
	$(BIN)/exitsign stack up --agents

down: ## Stop what `make up` started
	$(BIN)/exitsign stack down

bench: setup ## Measure; writes load_tests/results/
	$(BIN)/python -m load_tests.bench_stream

bless: setup ## Write the markers of signatures/cases anew; read the diff
	$(BIN)/exitsign signatures bless

evaluate: setup ## Accuracy on a labelled corpus: make evaluate CORPUS=FILE
	$(BIN)/exitsign evaluate $(CORPUS)

lock: ## Resolve requirements.lock anew (needs uv)
	uv pip compile pyproject.toml --all-extras --group dev --python-version 3.11 --no-emit-index-url --no-header -o requirements.lock
