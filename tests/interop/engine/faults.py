# pyright: basic, reportMissingImports=false
"""Pools made faulty on purpose, inside a scheduler's process: what a proof has to notice.

Rows that a retracted request writes when it comes back are zero, and rows of a prefix are zero when
it is found in the cache; of a hybrid its states are, and its rows are not. Either changes tokens
only where they depend on these.
"""

from __future__ import annotations

from typing import Any

__all__ = ["AT_FAULT", "make_faulty"]

AT_FAULT = {
    "prefix": "tokens differ with rows from the cache",
    "pressure": "tokens differ without pressure",
}
"""The scenarios that meet the faults, and what each has to say then."""
_DECODED = 8
"""More rows than this, in one write, are a prompt's."""


def make_faulty() -> None:
    """Change sglang's scheduler in this process, which has none yet."""
    from sglang.srt.managers.schedule_batch import ScheduleBatch
    from sglang.srt.managers.scheduler import Scheduler

    retracted: list[bool] = []
    retract, init = ScheduleBatch.retract_decode, Scheduler.__init__
    run, flush = Scheduler.run_batch, Scheduler.flush_cache

    def noted(self: Any, *arguments: Any, **named: Any) -> Any:
        retracted.append(True)
        return retract(self, *arguments, **named)

    def with_faulty_pool(self: Any, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **named)
        _zero_rows_written(self.token_to_kv_pool_allocator.get_kvcache(), retracted)

    def without_prefix(self: Any, batch: Any, *arguments: Any, **named: Any) -> Any:
        if batch.forward_mode.is_extend() and len(batch.reqs) == 1 and not retracted:
            _zero_prefix(self, batch)
        return run(self, batch, *arguments, **named)

    def forgotten(self: Any, *arguments: Any, **named: Any) -> Any:
        retracted.clear()
        return flush(self, *arguments, **named)

    ScheduleBatch.retract_decode, Scheduler.__init__ = noted, with_faulty_pool
    Scheduler.run_batch, Scheduler.flush_cache = without_prefix, forgotten


def _zero_rows_written(pool: Any, retracted: list[bool]) -> None:
    for name in ("set_kv_buffer", "set_mla_kv_buffer"):
        write = getattr(pool, name, None)
        if write is None:
            continue

        def faulty(
            layer: Any, where: Any, k: Any, *rest: Any, write: Any = write, **named: Any
        ) -> None:
            if retracted and len(k) > _DECODED:
                rest = tuple(0 * one if hasattr(one, "new_zeros") else one for one in rest)
                k = 0 * k
            write(layer, where, k, *rest, **named)

        setattr(pool, name, faulty)


def _zero_prefix(scheduler: Any, batch: Any) -> None:
    """Every row of the pool, or state, where the only request found some: no other needs them."""
    if batch.prefix_lens[0] and batch.reqs[0].cached_tokens:
        pool = scheduler.token_to_kv_pool_allocator.get_kvcache()
        if "mamba_pool" in vars(pool):
            for state in (*pool.mamba_pool.mamba_cache.conv, pool.mamba_pool.mamba_cache.temporal):
                state.zero_()
            return
        for leaf in (pool, *(vars(pool).get(name) for name in ("full_kv_pool", "swa_kv_pool"))):
            for name in ("k_buffer", "v_buffer", "kv_buffer"):
                for rows in getattr(leaf, name, None) or ():
                    rows.zero_()
