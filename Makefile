# `make demo` and `make test` do everything on a machine with Python and make.
# A machine with a package mirror or a CPU-only torch index: set pip's own environment variables.

PYTHON ?= python3
BIN := .venv/bin
# Checkers side by side, and processes that share the tests, file by file.
JOBS ?= 2
STAMP := .venv/installed
# Never let pip choose a version: another torch is gigabytes. What is imported is compiled then.
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet install --no-compile -c constraints.txt

# A checker speaks when it has something to say: $(call step,name,command).
step = @output=$$($(2) 2>&1) && echo "$(1): ok" || { echo "$(1): FAILED"; echo "$$output"; exit 1; }

# Where it is set each of the many processes that the tests start compiles anew what it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test checks setup lint imports types mypy pyright unit bench kernels-results platforms constraints clean

help:
	@echo "make demo   what kvproto says about the built-in pools"
	@echo "make test   every test and every checker (parts: lint imports types unit)"
	@echo "make kernels-results  what kernels compile to for five GPUs, into docs/kernels.md"
	@echo "make platforms  what the kit finds on every platform, into docs/platforms.md"
	@echo "make mooncake  sessions over Mooncake, with its libraries unpacked here, into docs/transfer-sessions.md"
	@echo "make engine  what sglang generates on kvproto's pools, into docs/engine.md"
	@echo "make bench  what capabilities, allocators, pools, the host tier and plans cost, into docs/benchmarks.md"

demo: setup
	@$(BIN)/kvproto check
	@$(BIN)/kvproto check --platform cpu

test: setup
	@$(MAKE) --no-print-directory -j $(JOBS) --output-sync interop-venv checks
	@$(MAKE) --no-print-directory unit

checks: lint imports types

setup: $(STAMP)

# The second line brings the build backend, so that the third builds with pinned versions too.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kvproto needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	@echo "installing into .venv"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) hatchling editables
	@$(PIP) --no-build-isolation -e '.[dev]'
	@touch $@

lint: setup
	$(call step,ruff check,$(BIN)/ruff check)
	$(call step,ruff format,$(BIN)/ruff format --check)

imports: setup
	$(call step,import-linter,$(BIN)/lint-imports --no-logo)

types: mypy pyright

mypy: setup
	$(call step,mypy,$(BIN)/mypy)

pyright: setup
	$(call step,pyright,$(BIN)/basedpyright)

# `typecheck/` is run by these tests too, and tests/interop/ asks real pools in .interop-venv.
unit: setup interop-venv
	@$(BIN)/pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder

# Writes docs/benchmarks.md, in minutes; fails where a demanded ratio is missed.
bench: setup interop-venv
	@status=0; for each in capability_check allocators pools host_tier plan transfer; do \
		$(BIN)/python -m benchmarks.$$each --write || status=1; done; exit $$status

# Writes docs/kernels.md and the data behind it, in minutes: every kernel, shape and target.
kernels-results: setup
	@TRITON_CACHE_DIR=build/triton $(BIN)/python -W ignore -m tests.kernels.triton.compiled --write

# Writes docs/platforms.md and the data behind it, in minutes; fails where a law is broken.
platforms: setup
	@$(BIN)/python -m tests.conformance.platform_results --write

include tests/interop/interop.mk
include tests/interop/engine/engine.mk
include tests/transfer/mooncake/mooncake.mk

# After a version was changed on purpose: write down what is installed now.
constraints: setup
	@{ grep '^#' constraints.txt; $(BIN)/python -m pip freeze --all --exclude-editable \
		| grep -v '^pip==' | sed 's/+cpu$$//'; } > constraints.new && mv constraints.new constraints.txt

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
