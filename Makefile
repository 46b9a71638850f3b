# Every target works from a fresh clone: what it needs is set up by the stamp files it depends on.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# What the tests need besides the base: the part that runs real Spark comes with its own lock when it exists.
LOCK_EXTRAS := --extra test --extra arrow --extra grpc --extra zookeeper --extra etcd --extra fdb --extra s3 --extra hdfs --extra otel
UV_COMPILE := UV_CUSTOM_COMPILE_COMMAND='make lock' $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links pyproject.toml --group build

VENV_MADE := $(VENV)/.made
BASE := $(VENV)/.base
SELF := $(VENV)/.self
FULL := $(VENV)/.full

.DEFAULT_GOAL := help
.PHONY: help setup setup-test lock packages

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(SELF) ## make .venv with what the product needs
setup-test: $(FULL) $(SELF) ## add what the tests need, and every optional part

$(VENV_MADE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(BASE): requirements.lock | $(VENV_MADE)
	$(PIP) install --require-hashes -r requirements.lock
	@touch $@

$(SELF): pyproject.toml $(BASE)
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(FULL): requirements-test.lock $(BASE)
	$(PIP) install --require-hashes -r requirements-test.lock
	@touch $@

lock: | $(VENV_MADE) ## resolve the dependencies again and write both lock files
	$(PIP) install uv
	$(UV_COMPILE) $(LOCK_EXTRAS) --upgrade --output-file requirements-test.lock
	$(UV_COMPILE) --constraint requirements-test.lock --upgrade --output-file requirements.lock

packages: ## write the list of packages in pyproject.toml
	$(PYTHON) .ci/packages.py --write
