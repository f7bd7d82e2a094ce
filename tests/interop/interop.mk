# Included by the Makefile of the repository.

.PHONY: interop-venv interop-results engine-matrix gates-equivalence gates-types

# The environment of tests/interop/: sglang and what it imports. KVPROTO_INTEROP=skip does without.
interop-venv: setup
	@$(BIN)/python tests/interop/make_venv.py

# After a change that was meant: write down anew what the real pools answer, then review the diff.
# Every law on every pool: this takes minutes. `make test` asks a sample of it again.
interop-results: interop-venv
	@$(BIN)/python -m tests.interop.report

# What every rewritten gate of sglang answers, into docs/gates-equivalence.md: a minute.
gates-equivalence: interop-venv
	@$(BIN)/python -m tests.interop.gates.equivalence_page --write

# What sglang's model runner generates with its own pools and with kvproto's, for every kind of pool,
# page size and type of cache; writes docs/engine.md, in many minutes. `make test` asks a sample.
engine-matrix: interop-venv
	@$(BIN)/python -m tests.interop.engine.matrix --write

# What mypy says of sglang as it is and rewritten, into docs/gates-types.md: minutes.
gates-types: interop-venv
	@$(BIN)/python -m tests.interop.gates.type_checks --write
