# pyright: basic, reportMissingImports=false
"""What a scheduler of sglang's does, told as it happens: one line of JSON an event.

Runs inside the scheduler's process and changes nothing: each method that is watched is called as it
was, before or after a line is written. An event is `{"event": NAME, ...}`; the names are

- `ready`: the classes of the pools, the allocator and the radix cache, and if sglang is rewritten;
- `batch`: one forward pass: `mode`, and for each request its tokens and those found in the cache;
- `freed`: window slots of positions `first` to `end` given back by a request that runs;
- `retracted`: requests put back into the queue because no slot was left, and those given up;
- `checked`: sglang's own accounts of every slot were compared, and agreed;
- `flushed`: what was free before and after `flush_cache`.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from kvproto.debug import is_validated

__all__ = ["observe"]


def observe(file: Path) -> None:
    """Watch the schedulers of this process, which has none yet."""
    from sglang.srt.managers.schedule_batch import ScheduleBatch
    from sglang.srt.managers.scheduler import Scheduler
    from sglang.srt.managers.scheduler_components.invariant_checker import (
        SchedulerInvariantChecker,
    )

    out = file.open("a", buffering=1)

    def tell(event: str, **facts: Any) -> None:
        out.write(json.dumps({"event": event} | facts) + "\n")

    _watch_scheduler(Scheduler, tell)
    _watch_retraction(ScheduleBatch, tell)
    _watch_checks(SchedulerInvariantChecker, tell)
    _watch_window(ScheduleBatch, tell)


def _watch_scheduler(scheduler: Any, tell: Any) -> None:
    init, run_batch, flush = scheduler.__init__, scheduler.run_batch, scheduler.flush_cache

    def watched_init(self: Any, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **named)
        tell("ready", **_classes(self), stats=_stats(self))

    def watched_run(self: Any, batch: Any, *arguments: Any, **named: Any) -> Any:
        extend = batch.forward_mode.is_extend()
        tell(
            "batch",
            mode="extend" if extend else "decode",
            requests=len(batch.reqs),
            tokens=list(batch.extend_lens) if extend else [1] * len(batch.reqs),
            cached=list(batch.prefix_lens) if extend else [],
            stats=_stats(self),
        )
        return run_batch(self, batch, *arguments, **named)

    def watched_flush(self: Any, *arguments: Any, **named: Any) -> Any:
        before = _stats(self)
        done = flush(self, *arguments, **named)
        tell("flushed", done=done, before=before, after=_stats(self))
        return done

    scheduler.__init__, scheduler.run_batch = watched_init, watched_run
    scheduler.flush_cache = watched_flush


def _watch_retraction(batch: Any, tell: Any) -> None:
    retract = batch.retract_decode

    def watched(self: Any, *arguments: Any, **named: Any) -> Any:
        running = len(self.reqs)
        done = retract(self, *arguments, **named)
        of = [
            {"prompt": list(req.origin_input_ids), "generated": len(req.output_ids)}
            for req in done[0]
        ]
        tell("retracted", running=running, requests=len(of), given_up=len(done[2]), of=of)
        return done

    batch.retract_decode = watched


def _watch_checks(checker: Any, tell: Any) -> None:
    busy, pools = checker.self_check_during_busy, checker._check_all_pools

    def watched_busy(self: Any) -> None:
        busy(self)
        if self.get_last_batch() is not None:
            tell("checked", when="busy", leak=False)

    def watched_pools(self: Any, *arguments: Any, **named: Any) -> Any:
        leak, messages = pools(self, *arguments, **named)
        tell("checked", when="idle", leak=leak, said=messages)
        return leak, messages

    checker.self_check_during_busy, checker._check_all_pools = watched_busy, watched_pools


def _watch_window(batch: Any, tell: Any) -> None:
    from sglang.srt.mem_cache.unified_cache.component_type import ComponentType

    evict = batch._evict_swa

    def watched(self: Any, req: Any, *arguments: Any, **named: Any) -> None:
        before = req.kv.get_evicted_seqlen(ComponentType.SWA)
        evict(self, req, *arguments, **named)
        after = req.kv.get_evicted_seqlen(ComponentType.SWA)
        if after != before:
            tell("freed", first=before, end=after)

    batch._evict_swa = watched


def _classes(scheduler: Any) -> dict[str, Any]:
    from sglang.srt.mem_cache import swa_memory_pool

    allocator, requests = scheduler.token_to_kv_pool_allocator, scheduler.req_to_token_pool
    pool = allocator.get_kvcache()
    parts = {"pool": pool, "allocator": allocator, "requests": requests}
    for whole in (pool, allocator, requests):
        parts |= {name: vars(whole)[at] for name, at in _PARTS.items() if at in vars(whole)}
    return {
        "rewritten": "kvproto" in Path(swa_memory_pool.__file__).read_text(),
        "parts": {name: _path(part) for name, part in parts.items()},
        "validated": [name for name, part in parts.items() if is_validated(part)],
        "radix cache": _path(scheduler.tree_cache),
        "overlap": scheduler.enable_overlap,
    }


_PARTS = {
    "full leaf": "full_kv_pool",
    "window leaf": "swa_kv_pool",
    "states": "mamba_pool",
    "full slots": "full_attn_allocator",
    "window slots": "swa_attn_allocator",
    "state slots": "mamba_allocator",
}


def _path(value: object) -> str:
    """Where the class is; what a class made for its parts adds in brackets is left out."""
    return f"{type(value).__module__}.{type(value).__qualname__.partition('[')[0]}"


def _stats(scheduler: Any) -> dict[str, int]:
    """sglang's own numbers; token slots, and slots of recurrent state."""
    stats = dataclasses.asdict(scheduler.pool_stats_observer.get_pool_stats())
    return {k: int(v) for k, v in stats.items() if v is not None and _is_count(k)}


def _is_count(name: str) -> bool:
    return name.endswith(("_size", "_capacity", "_num_used"))
