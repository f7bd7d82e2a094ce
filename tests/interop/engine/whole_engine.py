# pyright: basic, reportMissingImports=false
"""A whole `sglang.Engine` that does what it is told, line by line: the process of one run.

    python -m tests.interop.engine.whole_engine FOLDER SETTING...

Runs in `.interop-venv`. sglang is imported once; each setting then has a fork of its own, with its
engine, tokenizer manager and scheduler; `heads+faults` is `heads` with the faults of `faults.py`.
A line on standard input is a JSON object `{"do": WORDS}`, and its answer one on standard output:
the first word is one of `COMMANDS`, others are names of scenarios; `stop` ends the engine. What
sglang says goes to standard error.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.interop import rounding
from tests.interop.engine import faults, observe, scenarios, torch_native
from tests.interop.engine.models import make_model
from tests.interop.engine.settings import SETTINGS, Setting

VERSIONS = ("sglang", "torch", "transformers", "triton")
NEVER_ENDS = {"2": -100.0}
"""No request ends early, and the scheduler cannot know: with `ignore_eos` it would leave room."""


def main() -> None:
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    _imports()
    torch_native.mend()
    with rounding.as_compiled():
        for name in names:
            child = os.fork()
            if child == 0:
                os._exit(_serve(name, folder, answers))
            os.waitpid(child, 0)


def _imports() -> None:
    """What every engine imports, before the forks."""
    import sglang.srt.entrypoints.engine
    import sglang.srt.models.registry  # noqa: F401


class Served:
    """An engine that serves one model, and what its scheduler did so far."""

    def __init__(self, name: str, folder: Path) -> None:
        setting, _, at_fault = name.partition("+")
        self.setting = SETTINGS[setting]
        self._events = folder / f"{name}-{os.getpid()}.events"
        self._events.touch()
        observe.observe(self._events)
        if at_fault:
            faults.make_faulty()
        self.engine = _engine(self.setting, folder)

    def generate(self, prompts: list[list[int]], new_tokens: list[int]) -> list[dict[str, Any]]:
        """Greedy tokens of each prompt, asked together, and what sglang says of each request."""
        params = [
            {"temperature": 0, "max_new_tokens": n, "logit_bias": NEVER_ENDS} for n in new_tokens
        ]
        told = self.engine.generate(input_ids=prompts, sampling_params=params)
        return [
            {
                "tokens": one["output_ids"],
                "cached": one["meta_info"]["cached_tokens"],
                "retracted": one["meta_info"]["num_retractions"],
            }
            for one in told
        ]

    def flush(self) -> bool:
        """Empty the radix cache and every pool, once the scheduler sees that nothing runs.

        It refuses for a moment after the last token was sent.
        """
        until = time.monotonic() + 30
        while not self.engine.flush_cache().success:
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True

    def events(self) -> list[dict[str, Any]]:
        """What the scheduler did, oldest first."""
        return [json.loads(line) for line in self._events.read_text().splitlines()]


def _engine(setting: Setting, folder: Path) -> Any:
    from sglang.srt.entrypoints.engine import Engine

    class ForkedEngine(Engine):  # type: ignore[misc]
        """Its processes are forks of this one, which has imported sglang and watches it."""

        @classmethod
        def _launch_scheduler_processes(cls, *arguments: Any, **named: Any) -> Any:
            multiprocessing.set_start_method("fork", force=True)
            return super()._launch_scheduler_processes(*arguments, **named)

    return ForkedEngine(
        model_path=str(make_model(setting.model, folder)),
        attention_backend="torch_native",
        chunked_prefill_size=scenarios.CHUNK,
        device="cpu",
        disable_cuda_graph=True,
        dtype="float32",
        kv_cache_dtype=setting.kv_cache_dtype,
        log_level="info",
        max_mamba_cache_size=64,
        max_running_requests=8,
        max_total_tokens=scenarios.TOKENS,
        mem_fraction_static=0.1,
        page_size=setting.page_size,
        random_seed=0,
        sampling_backend="pytorch",
        schedule_conservativeness=0.01,
        skip_tokenizer_init=True,
        sleep_on_idle=True,
    )


def _serve(name: str, folder: Path, answers: Any) -> int:
    try:
        served = Served(name, folder)
        for line in sys.stdin:
            asked = json.loads(line)
            if asked["do"] == "stop":
                break
            command, *arguments = asked["do"].split()
            told = COMMANDS[command](served, *arguments)
            print(json.dumps(told), file=answers)
        served.engine.shutdown()
        print(json.dumps({"stopped": name}), file=answers)
    except Exception:
        print(json.dumps({"error": traceback.format_exc()}), file=answers)
        return 1
    return 0


def _started(served: Served) -> dict[str, Any]:
    ready = next(event for event in served.events() if event["event"] == "ready")
    return ready | {"versions": {name: version(name) for name in VERSIONS}}


def _measured(served: Served) -> dict[str, Any]:
    served.flush()
    began, spent = time.perf_counter(), _spent(served)
    told = served.generate(scenarios.PLAIN, [scenarios.NEW_TOKENS] * 4)
    return {
        "seconds": time.perf_counter() - began,
        "processor": _spent(served) - spent,
        "tokens": [one["tokens"] for one in told],
    }


def _spent(served: Served) -> float:
    """Processor time of the engine's scheduler, and of what else it started."""
    import psutil  # type: ignore[import-untyped]

    times = [psutil.Process(pid).cpu_times() for pid in served.engine.get_all_child_pids()]
    return float(sum(each.user + each.system for each in times))


COMMANDS: dict[str, Callable[..., dict[str, Any]]] = {
    "start": _started,
    "scenarios": scenarios.play,
    "measure": _measured,
}


if __name__ == "__main__":
    main()
