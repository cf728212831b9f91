# Inquest. `make help` lists what there is. Everything runs from .venv, made from the lock on first use.
PYTHON ?= python3
VENV   := .venv
PORT   ?= 8000
HOST   ?= 127.0.0.1
export PYTHON VENV
unexport PORT HOST

RUN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-passwords test test-real test-browser check format lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' Makefile

setup: ## make .venv with the inquest command and the developers' tools
	@.ci/venv dev

demo: ## run the whole site here: database, broker, web, worker (Ctrl-C ends it)
	@.ci/venv runtime
	@exec $(RUN)/python -m attribution_site.demo --with-parent --host $(HOST) --port $(PORT)

demo-passwords: ## give the demo's accounts new passwords
	@.ci/venv runtime
	@exec $(RUN)/python -m attribution_site.demo --new-passwords

test: setup ## the tests that need nothing from outside
	@$(RUN)/python -m pytest $(ARGS)

test-real: setup ## the tests against real servers and processes (minutes)
	@$(RUN)/python -m pytest tests/real $(ARGS)

test-browser: setup ## the tests in a real browser (needs chromium)
	@$(RUN)/python -m pytest tests/browser $(ARGS)

check: setup ## lint, format, types, import directions, Django's checks, the rules' own checks
	@.ci/check

format: setup ## format the code and fix what can be fixed
	@$(RUN)/ruff check --fix .
	@$(RUN)/ruff format .

lock: ## resolve the dependencies anew, for every supported Python at once
	@.ci/lock

clean: ## remove what the tools wrote; the demo's data under var/ stays
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis var/test-database
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
