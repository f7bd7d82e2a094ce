# Included by the Makefile of the repository.

MOONCAKE := .mooncake-venv
MOONCAKE_PIP = $(MOONCAKE)/bin/python -m pip --disable-pip-version-check --quiet --quiet install \
	-c constraints.txt -c tests/transfer/mooncake/constraints.txt

.PHONY: mooncake

# Mooncake's own tests, sessions over it and the demo, in an environment of its own; writes what came
# of it into docs/transfer-sessions.md, in minutes. The libraries that it needs of the system are
# unpacked under build/ and not installed: NIXL does not go with them.
mooncake:
	@$(PYTHON) tests/transfer/mooncake/libraries.py build/mooncake
	@$(MAKE) --no-print-directory $(MOONCAKE)/installed
	@LD_LIBRARY_PATH=$$(cat build/mooncake/library-path) $(MOONCAKE)/bin/python -m tests.transfer.mooncake.results --write

$(MOONCAKE)/installed: pyproject.toml constraints.txt tests/transfer/mooncake/constraints.txt
	@echo "installing into $(MOONCAKE)"
	@$(PYTHON) -m venv --clear $(MOONCAKE)
	@$(MOONCAKE_PIP) hatchling editables torch numpy msgspec pytest pytest-timeout mooncake-transfer-engine-non-cuda
	@$(MOONCAKE_PIP) --no-build-isolation --no-deps -e .
	@touch $@
