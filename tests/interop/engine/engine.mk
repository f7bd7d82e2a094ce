# Included by the Makefile of the repository.

.PHONY: engine

# What sglang generates with kvproto's pools, and what its scheduler does with them: takes minutes,
# and fails where a token is another or what was to happen did not. `make test` asks a part again.
engine: interop-venv
	@$(BIN)/python -m tests.interop.engine.record
	@$(BIN)/python -m tests.interop.engine.scenarios_page
