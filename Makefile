# Everything happens in .venv, made from requirements.lock. Nothing but Python 3.11+ and make need be there before.
#   make demo      a sound and a flawed implementation, side by side
#   make test      all tests; ARGS='-k ledger' passes arguments on to pytest
#   make check     lint, types and tests
#   make lint | format | types | lock | clean
# PYTHON=python3.12 chooses the interpreter.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test check lint format types lock clean FORCE

UV_VERSION := 0.13.9
STAMP := .venv/.stamp

export PYTHON
export PATH := $(CURDIR)/.venv/bin:$(PATH)

# Most of a test's time is waiting for real processes, so there are more workers than cores.
WORKERS ?= $(shell echo $$(( $$(nproc 2>/dev/null || echo 2) + 4 )))

# The stamp holds the place it was made for: a checkout that was copied or moved gets a new .venv.
PLACE := $(shell cat $(STAMP) 2>/dev/null)
ifneq ($(PLACE),$(CURDIR))
$(STAMP): FORCE
endif
# And one for another Python than asked for.
ifneq ($(PYTHON),)
ifneq ($(shell $(PYTHON) -V 2>/dev/null),$(shell .venv/bin/python -V 2>/dev/null))
$(STAMP): FORCE
endif
endif

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | head -6

$(STAMP): requirements.lock pyproject.toml .ci/venv
	@.ci/venv

demo: $(STAMP)
	@.venv/bin/sendtwice demo

test: $(STAMP)
	@.venv/bin/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

check: lint types test

lint: $(STAMP)
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .

format: $(STAMP)
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

types: $(STAMP)
	@.venv/bin/mypy

# Ratios against others, measured in one run; ARGS=--quick sees whether it runs. What is missing is left out of the table.
.PHONY: bench
bench: $(STAMP)
	@benchmarks/install.sh || echo "not all that is compared with could be installed" >&2
	@.venv/bin/python benchmarks/run.py $(ARGS)

# In a virtual environment that is thrown away: uv is needed for nothing else. UPGRADE=--upgrade takes newer releases.
lock: $(STAMP)
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	.venv/bin/python -m venv "$$tmp" && "$$tmp/bin/python" -m pip install -qq uv==$(UV_VERSION) && \
	"$$tmp/bin/uv" pip compile pyproject.toml --extra dev --python-version 3.11 --universal --generate-hashes \
		--no-emit-index-url --custom-compile-command 'make lock' --quiet $(UPGRADE) --output-file requirements.lock

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find fake_provider harness scenarios sendtwice tests -name __pycache__ -type d -prune -exec rm -rf {} +

FORCE:
