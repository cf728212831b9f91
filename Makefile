# Inquest. `make help` lists what there is. Everything runs from .venv, made from the lock on first use.
PYTHON ?= python3
VENV   := .venv
export PYTHON VENV

.DEFAULT_GOAL := help
.PHONY: help setup lock

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' Makefile

setup: ## make .venv with the inquest command and the developers' tools
	@tools/venv dev

lock: ## resolve the dependencies anew, for every supported Python at once
	@tools/lock
