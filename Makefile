# `make` alone prints this help.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
COMPOSE := $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose)

.PHONY: help
help: ## Print what can be made
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  \033[1m%-18s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: bootstrap
bootstrap: .venv/ready ## Build .venv from the lock file (installs uv from PyPI if it is missing)

.venv/ready: requirements.lock tools/bootstrap.py $(wildcard libs/*/pyproject.toml services/*/pyproject.toml)
	@$(PYTHON) tools/bootstrap.py

.PHONY: lock
lock: bootstrap ## Resolve the dependencies anew into requirements.lock (hashes, no addresses)
	$(BIN)/uv lock --quiet --upgrade
	$(BIN)/uv export --quiet --format requirements-txt --no-emit-workspace --all-packages --all-groups --no-header --output-file requirements.lock

.PHONY: test
test: bootstrap ## Run every test that needs no Docker
	$(BIN)/pytest -m "not docker and not crash" -n 2

.PHONY: fmt
fmt: bootstrap ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --quiet . || true

.PHONY: lint
lint: bootstrap ## Check format, lint rules and spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell libs services tests docs tools deploy README.md ARCHITECTURE.md CONTRIBUTING.md

.PHONY: types
types: bootstrap ## Check types
	$(BIN)/basedpyright

.PHONY: arch
arch: bootstrap ## Check import rules and declared dependencies
	$(BIN)/lint-imports
