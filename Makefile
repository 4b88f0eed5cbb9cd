# `make` explains itself. Everything that a target needs it installs: into .venv, and for the tests
# also Debian packages when it runs as root.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test lint types unit integration e2e bench system clean

help: ## show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(VENV)/.demo: pyproject.toml
	@sh tests/make-venv.sh "$(PYTHON)" $(VENV)
	$(BIN)/pip install --quiet --editable '.[local]'
	@touch $@

$(VENV)/.test: $(VENV)/.demo
	$(BIN)/pip install --quiet --editable '.[local,test]'
	@touch $@

demo: $(VENV)/.demo ## run an MPI program over 2 workers x 2 slots on this machine
	$(BIN)/mpi-agent local --workers 2 --slots 2 -- $(BIN)/python examples/local/pi.py

test: system lint types unit integration e2e ## install what the tests need and run them all

system: ## install the Debian packages that integration and e2e tests use (as root)
	@sh tests/install-system-packages.sh

lint: $(VENV)/.test ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test ## mypy --strict
	$(BIN)/mypy

unit: $(VENV)/.test ## rules of the layout and unit tests
	$(BIN)/pytest tests/architecture tests/unit tests/docs

integration: $(VENV)/.test ## real sshd, real mpirun, real name servers on loopback
	@sh tests/make-stacks.sh $(BIN)/python .venv-stacks
	$(BIN)/pytest tests/contract tests/integration

e2e: $(VENV)/.test ## images and jobs in real containers
	$(BIN)/pytest -rP tests/e2e

bench: $(VENV)/.demo ## figures as ratios, about 45 minutes (as root); see benchmarks/README.md
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.passthrough
	$(BIN)/python -m benchmarks.worker
	$(BIN)/python -m benchmarks.waiting
	$(BIN)/python -m benchmarks.late_worker
	$(BIN)/python -m benchmarks.launching
	$(BIN)/python -m benchmarks.images

clean: ## remove what the targets above made in this directory
	rm -rf $(VENV) .venv-stacks .mypy_cache .pytest_cache .ruff_cache .hypothesis
