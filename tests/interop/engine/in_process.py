# pyright: basic, reportMissingImports=false
"""Generates with sglang's real model runner, configuration after configuration, in one process.

Runs in `.interop-venv`, on the sglang that is on the path, with the pools of the platform that the
environment names (`trees.start`). Its argument is a folder for models, then names of
configurations; it prints one JSON object. `--drop-writes` has every seventh write dropped.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from array import array
from pathlib import Path
from typing import Any

import torch

from tests.interop import rounding
from tests.interop.engine import models, torch_native
from tests.interop.engine.configurations import MATRIX, Configuration

CAPACITY = 512
"""Token slots of a pool, and the longest request."""


def main() -> None:
    arguments = [argument for argument in sys.argv[1:] if argument != "--drop-writes"]
    folder, wanted = Path(arguments[0]), arguments[1:]
    chosen = [each for each in MATRIX if each.name in wanted]
    from sglang.srt.mem_cache import memory_pool
    from sglang.srt.plugins import load_plugins

    load_plugins()
    torch_native.mend()
    torch.set_num_threads(1)
    with rounding.as_compiled():
        results = {each.name: _run(each, folder) for each in chosen}
    told = {
        "sglang": memory_pool.__file__,
        "results": results,
        "kvproto": sorted(name for name in sys.modules if name.startswith("kvproto.")),
    }
    print(json.dumps(told))


def _run(configuration: Configuration, folder: Path) -> dict[str, Any]:
    """Load the model, generate, and leave sglang as it was."""
    from sglang.benchmark import one_batch
    from sglang.srt.distributed.parallel_state import (
        destroy_distributed_environment,
        destroy_model_parallel,
    )
    from sglang.srt.runtime_context import SpawnRanks, publish, reset_context
    from sglang.srt.server_args import PortArgs, ServerArgs

    path = models.make_model(configuration.model, folder)
    cached = configuration.kv_cache_dtype
    arguments = ServerArgs(
        model_path=str(path),
        device="cpu",
        dtype=configuration.dtype,
        attention_backend=configuration.backend,
        # `auto` is the model's: sglang has no name for float32 here.
        kv_cache_dtype="auto" if cached == "float32" else cached,
        page_size=configuration.page_size,
        sampling_backend="pytorch",
        disable_cuda_graph=True,
        disable_radix_cache=True,
        max_total_tokens=CAPACITY,
        max_running_requests=8,
        mem_fraction_static=0.1,
        triton_attention_num_kv_splits=1,
        random_seed=0,
    )
    arguments.resolve_once()
    publish(arguments, role="scheduler", ranks=SpawnRanks(world_rank=0, gpu_id=0))
    one_batch._init_process_global_configs()
    runner, _ = one_batch.load_model(arguments, PortArgs.init_new(arguments), 0, 0)
    pool = runner.torch_runner.token_to_kv_pool
    if "--drop-writes" in sys.argv:
        _drop_writes(pool)
    began = time.perf_counter()
    tokens = _generate(runner, configuration)
    seconds = time.perf_counter() - began
    told = {"tokens": tokens, "seconds": seconds, "pools": _told_of(pool, runner.torch_runner)}
    del runner, pool
    destroy_model_parallel()
    destroy_distributed_environment()
    reset_context()
    gc.collect()
    return told


def _generate(runner: Any, configuration: Configuration) -> list[list[int]]:
    requests = [_request(n, length) for n, length in enumerate(configuration.prompt_lens)]
    runner.clear()
    newest, _, batch = runner.extend(requests)
    steps = [newest.tolist()]
    for _ in range(configuration.new_tokens - 1):
        newest, _ = runner.decode(newest, batch)
        steps.append(newest.tolist())
    return [list(tokens) for tokens in zip(*steps, strict=True)]


def _request(number: int, length: int) -> Any:
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.sampling.sampling_params import SamplingParams

    drawn = torch.Generator().manual_seed(length)
    prompt = torch.randint(3, models.VOCABULARY, (length,), generator=drawn).tolist()
    greedy = SamplingParams(temperature=0, max_new_tokens=64)
    made = Req(
        rid=number,
        origin_input_text="",
        origin_input_ids=array("q", prompt),
        sampling_params=greedy,
    )
    made.full_untruncated_fill_ids = made.origin_input_ids
    made.logprob_start_len = -1
    made.extend_end = length
    return made


def _told_of(pool: Any, runner: Any) -> dict[str, list[str]]:
    """The classes of the pool, of its leaves and of the allocator, each with its bases."""
    places = {"pool": pool, "allocator": runner.token_to_kv_pool_allocator}
    for name in ("full_kv_pool", "swa_kv_pool"):
        leaf = vars(pool).get(name)
        if leaf is not None:
            places[name] = leaf
    return {
        place: [f"{cls.__module__}.{cls.__qualname__}" for cls in type(each).__mro__]
        for place, each in places.items()
    }


def _drop_writes(pool: Any) -> None:
    """A pool at fault: every seventh write is not made."""
    write, calls = pool.set_kv_buffer, [0]

    def forgetful(*arguments: Any, **named: Any) -> None:
        calls[0] += 1
        if calls[0] % 7:
            write(*arguments, **named)

    pool.set_kv_buffer = forgetful


if __name__ == "__main__":
    main()
