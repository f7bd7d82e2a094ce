# pyright: basic, reportMissingImports=false
"""Generates with sglang's real model runner, configuration after configuration, in one process.

Runs in `.interop-venv`, on the sglang that is on the path, with the pools of the platform that the
environment names (`trees.start`). Its argument is one JSON object: `folder` for models, `names` of
configurations, and `repeats`. With `ours` there are more forks of the process: `debug`, which is
run d; with `beside` two more, over these configurations: `leaves`, where composites are sglang's
own, and `at_fault`, whose pool drops writes. It prints one JSON object, with a result by fork.
With `progress`, a file descriptor and what this process is called, it writes there what it begins.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from sglang.benchmark import one_batch

from tests.interop import rounding
from tests.interop.engine import models, torch_native
from tests.interop.engine.configurations import MATRIX, Configuration

CAPACITY = 512
"""Token slots of a pool, and the longest request."""


def main() -> None:
    asked = json.loads(sys.argv[1])
    told = {"run": _apart(asked, {})}
    if asked.get("ours"):
        told["debug"] = _apart(_called(asked, "d"), {"KVPROTO_DEBUG": "1"})
    if asked.get("beside"):
        beside = asked | {"names": asked["beside"], "repeats": 1}
        told["leaves"] = _apart(_called(beside, "leaves"), {"SGLANG_PLUGINS": "kvproto"})
        told["at_fault"] = _apart(_called(beside, "at_fault") | {"drop_writes": True}, {})
    print(json.dumps(told))


def _called(asked: dict[str, Any], run: str) -> dict[str, Any]:
    """The same for a fork, whose progress goes under a name of its own."""
    return asked | {"run": run}


def _apart(asked: dict[str, Any], environment: dict[str, str]) -> Any:
    """What a fork of this process tells: sglang is imported, kvproto's pools are not yet."""
    assert not {"kvproto.debug", "kvproto.reference"} & set(sys.modules)
    file = Path(asked["folder"]) / f"told-{os.getpid()}"
    child = os.fork()
    if not child:
        os.environ.update(environment)
        file.write_text(json.dumps(_results(asked)))
        sys.stdout.flush()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"the process with {environment} ended with status {status}")
    return json.loads(file.read_text())


def _results(asked: dict[str, Any]) -> dict[str, Any]:
    from sglang.srt.mem_cache import memory_pool
    from sglang.srt.plugins import load_plugins

    load_plugins()
    torch_native.mend()
    torch.set_num_threads(1)
    chosen = [each for each in MATRIX if each.name in asked["names"]]
    with rounding.as_compiled():
        results = dict(_each(chosen, asked))
    return {
        "sglang": memory_pool.__file__,
        "kvproto": sorted(name for name in sys.modules if name.startswith("kvproto.")),
        "results": results,
    }


def _each(
    chosen: list[Configuration], asked: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, configuration in enumerate(chosen, start=1):
        if "progress" in asked:
            descriptor, where = asked["progress"]
            at = f"{where}run {asked['run']}, {number} of {len(chosen)}: {configuration.name}\n"
            os.write(descriptor, at.encode())
        yield configuration.name, _run(configuration, asked)


def _run(configuration: Configuration, asked: dict[str, Any]) -> dict[str, Any]:
    """Load the model, generate, and leave sglang as it was."""
    from sglang.srt.distributed.parallel_state import (
        destroy_distributed_environment,
        destroy_model_parallel,
    )
    from sglang.srt.runtime_context import reset_context

    runner = _loaded(configuration, Path(asked["folder"]))
    pool = runner.torch_runner.token_to_kv_pool
    if asked.get("drop_writes"):
        _drop_writes(pool)
    repeats = asked.get("repeats", 1)
    if repeats > 1:
        _generate(runner, configuration)  # what a process does once only is not timed
    rounds = [_generate(runner, configuration) for _ in range(repeats)]
    assert all(tokens == rounds[0][0] for tokens, _ in rounds), rounds
    told = {
        "tokens": rounds[0][0],
        "seconds": [seconds for _, seconds in rounds],
        "pools": _told_of(pool, runner.torch_runner),
        "seen": _seen(pool) if "kvproto" in sys.modules else None,
    }
    del runner, pool
    destroy_model_parallel()
    destroy_distributed_environment()
    reset_context()
    gc.collect()
    return told


def _loaded(configuration: Configuration, folder: Path) -> Any:
    from sglang.srt.runtime_context import SpawnRanks, publish
    from sglang.srt.server_args import PortArgs, ServerArgs

    cached = configuration.kv_cache_dtype
    arguments = ServerArgs(
        model_path=str(models.make_model(configuration.model, folder)),
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
    return runner


def _generate(runner: Any, configuration: Configuration) -> tuple[list[list[int]], float]:
    """Tokens by prompt, and seconds that this process computed for them."""
    requests = [_request(n, length) for n, length in enumerate(configuration.prompt_lens)]
    runner.clear()
    began = time.process_time()
    newest, _, batch = runner.extend(requests)
    steps = [newest.tolist()]
    for _ in range(configuration.new_tokens - 1):
        newest, _ = runner.decode(newest, batch)
        steps.append(newest.tolist())
    seconds = time.process_time() - began
    return [list(tokens) for tokens in zip(*steps, strict=True)], seconds


def _request(number: int, length: int) -> Any:
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.sampling.sampling_params import SamplingParams

    drawn = torch.Generator().manual_seed(length)
    prompt = torch.randint(3, models.VOCABULARY, (length,), generator=drawn).tolist()
    made = Req(
        rid=number,
        origin_input_text="",
        origin_input_ids=array("q", prompt),
        sampling_params=SamplingParams(temperature=0, max_new_tokens=64),
    )
    made.full_untruncated_fill_ids = made.origin_input_ids
    made.logprob_start_len = -1
    made.extend_end = length
    return made


_PARTS = (
    "full_kv_pool",
    "swa_kv_pool",
    "mamba_pool",
    "full_attn_allocator",
    "swa_attn_allocator",
    "mamba_allocator",
)


def _told_of(pool: Any, runner: Any) -> dict[str, list[str]]:
    """The classes of the pool, its leaves, the allocator and so on, each with its bases."""
    allocator, requests = runner.token_to_kv_pool_allocator, runner.req_to_token_pool
    places = {"pool": pool, "allocator": allocator, "requests": requests}
    for whole in (pool, allocator, requests):
        places |= {name: vars(whole)[name] for name in _PARTS if name in vars(whole)}
    return {
        place: [f"{cls.__module__}.{cls.__qualname__}" for cls in type(each).__mro__]
        for place, each in places.items()
    }


def _seen(pool: Any) -> dict[str, Any]:
    """Through the contract, before and after sglang's classes were adopted."""
    from kvproto.adapters.sglang import adopt_pools, see

    before = see(pool)
    if type(pool).__module__.startswith("sglang."):
        adopt_pools(pool)
        assert see(pool) == before
    parts = {"pool": before} | dict(before.leaves)
    return {
        name: [part.traits and part.traits.kind, sorted(part.capabilities)]
        for name, part in parts.items()
    }


def _drop_writes(pool: Any) -> None:
    """A pool at fault: every second write is not made."""
    calls = 0
    for name in ("set_kv_buffer", "set_mla_kv_buffer"):
        write = getattr(pool, name, None)
        if write is None:
            continue

        def forgetful(*arguments: Any, write: Any = write, **named: Any) -> None:
            nonlocal calls
            calls += 1
            if calls % 2:
                write(*arguments, **named)

        setattr(pool, name, forgetful)


if __name__ == "__main__":
    main()
