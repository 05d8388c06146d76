# `make` alone prints this help.
.DEFAULT_GOAL := help
PYTHON ?= python3
FOCUS_PYTHON ?= python3.12
BIN := .venv/bin
COMPOSE := $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose)

.PHONY: help
help: ## Print what can be made
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  \033[1m%-12s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: bootstrap
bootstrap: .venv/ready ## Build .venv from the lock file (takes uv from PyPI if it is missing)

.venv/ready: requirements.lock tools/bootstrap.py $(wildcard libs/*/pyproject.toml services/*/pyproject.toml)
	@$(PYTHON) tools/bootstrap.py

.PHONY: demo
demo: bootstrap ## Run the whole house on this machine for a minute and check that nothing was lost
	@$(BIN)/muster demo

.PHONY: up
up: bootstrap ## Run NATS, Valkey and every service on this machine until Ctrl-C
	@$(BIN)/muster up

.PHONY: test
test: bootstrap ## Run every test that needs no Docker and no long crash run
	$(BIN)/pytest -m "not docker and not crash" -n 2 --dist worksteal

.PHONY: crash
crash: bootstrap ## Kill every service and server while jobs flow, and check that nothing was lost
	$(BIN)/pytest -m crash tests/crash

.PHONY: docker-test
docker-test: bootstrap ## Build the image, run compose and crash its containers (needs a Docker engine)
	.ci/docker
	$(BIN)/pytest -m docker
	MUSTER_TEST_ENGINE=docker MUSTER_TEST_NATS_IMAGE=muster-local/nats:2.15 MUSTER_TEST_REDIS_IMAGE=muster-local/redis:7 \
		$(BIN)/pytest -m servers libs/ledger tests/integration --ignore tests/integration/test_service.py

.PHONY: focus-validator
focus-validator: bootstrap ## Install the FOCUS validator, which a test of the export then runs (Python 3.12)
	$(BIN)/uv venv --quiet --clear --python $(FOCUS_PYTHON) build/focus-validator
	$(BIN)/uv pip install --quiet --python build/focus-validator -r tools/focus-validator.txt

.PHONY: bench
bench: bootstrap ## Measure; ONLY=machines|core|gang|preemption|start|path|managed|kueue|cost for one part (FRACTION=0.1 of Kueue's loads, LIVE=baseline through the services), or packing with OPENB=DIR TRACE=default; writes build/bench.json
	$(BIN)/python -m tests.performance $(ONLY) $(if $(FRACTION),--fraction $(FRACTION)) $(foreach load,$(LIVE),--live $(load)) $(if $(OPENB),--openb $(OPENB)) $(if $(TRACE),--trace $(TRACE))

.PHONY: compose-up
compose-up: ## Start the containers (first: python tools/images.py, muster secrets)
	$(COMPOSE) up -d

.PHONY: lock
lock: bootstrap ## Resolve the dependencies anew into requirements.lock (hashes, no addresses)
	$(BIN)/uv lock --quiet
	$(BIN)/uv export --quiet --format requirements-txt --no-emit-workspace --all-packages --all-groups --no-header --output-file requirements.lock

.PHONY: fmt
fmt: bootstrap ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: lint
lint: bootstrap ## Check format, lint rules and spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell

.PHONY: types
types: bootstrap ## Check types
	$(BIN)/basedpyright

.PHONY: arch
arch: bootstrap ## Check import rules
	$(BIN)/lint-imports

.PHONY: generate
generate: bootstrap ## Write schemas and the protocol document anew from the contracts
	$(BIN)/python -m muster_contracts.generate
