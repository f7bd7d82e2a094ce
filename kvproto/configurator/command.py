"""`kvproto plan`: what a model's caches would be on a device, worked out on any laptop."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from kvproto._bad_input import BadInput

from .budget import MemoryBudget
from .build_error import BuildError
from .capabilities import find_capabilities
from .examples import example_config, example_names
from .fields import ShapeError, is_object
from .options import ServingOptions, SpeculativeOptions, StateOptions
from .parallel import ParallelLayout
from .plan import plan
from .plan_error import PlanError
from .plan_json import plan_to_json
from .pool_plan import PoolPlan
from .shape import ModelShape
from .sizes_text import read_bytes

__all__ = ["run"]

_FLAGS = {
    "cache_bytes": "--memory",
    "chunked_prefill_size": "--chunked-prefill",
    "chunked_prefill_size=None": "--chunked-prefill 0",
    "context_len": "--context-len",
    "dcp_size": "--dcp",
    "dp_attention_size": "--dp-attention",
    "draft_attn_tp_size": "--draft-tp",
    "draft_kv_cache_dtype": "--draft-dtype",
    "draft_layers": "--draft-layers",
    "draft_rows": "--draft-rows",
    "draft_shape": "--draft-config",
    "draft_tokens": "--draft-tokens",
    "full_memory_ratio": "--state-ratio",
    "host_to_device_ratio": "--host-ratio",
    "kv_cache_dtype": "--kv-dtype",
    "kv_sharding": "--kv-sharding",
    "max_running_requests": "--max-running",
    "max_total_tokens": "--max-tokens",
    "page_size": "--page-size",
    "prefix_cache=False": "--no-prefix-cache",
    "pool_memory": "--pool-memory",
    "pp_rank": "--pp-rank",
    "pp_size": "--pp",
    "rows": "--rows",
    "slots": "--state-slots",
    "static_fraction": "--static-fraction",
    "swa_full_tokens_ratio": "--window-ratio",
    "tp_size": "--tp",
    "window_pools=False": "--no-window-pools",
}
"""What an option of a plan is called here, for messages."""


def run(arguments: argparse.Namespace) -> int:
    """Print the plan, or several side by side; exit status 0.

    :raises BadInput: for a config that cannot be read, and for a plan that cannot be made.
    """
    try:
        shape = ModelShape.from_hf_config(_config(arguments.config))
        plans = [("as given", _plan(shape, arguments))]
        for change in arguments.compare or ():
            plans.append((change, _plan(shape, _changed(arguments, change))))
    except PlanError as error:
        raise BadInput(_in_flags(error, arguments.memory)) from error
    except (ShapeError, BuildError) as error:
        raise BadInput(str(error)) from error
    if arguments.json:
        for _, made in plans:
            print(plan_to_json(made))
        return 0
    _print(plans)
    return 0


def _in_flags(error: PlanError, memory: str) -> str:
    """What a plan says of its options, said of the command's; of bytes, as they were typed."""
    option = _FLAGS.get(error.option, error.option)
    value = memory if error.option == "cache_bytes" else error.value
    names = "|".join(sorted((n for n in _FLAGS if "_" in n), key=len, reverse=True))
    text = re.sub(rf"\b({names})\b", lambda name: _FLAGS[name[0]], f"{error.why}; {error.change}")
    return f"{option}={value!r}: {text}"


def _print(plans: list[tuple[str, PoolPlan]]) -> None:
    from rich.console import Console

    from .render import print_comparison, print_plan

    console = Console(highlight=False)
    if len(plans) == 1:
        print_plan(plans[0][1], console)
    else:
        print_comparison(plans, console)


def _config(where: str) -> dict[str, Any]:
    path = Path(where)
    if not path.is_file():
        if where in example_names():
            return example_config(where)
        names = ", ".join(example_names())
        raise BadInput(f"no file '{where}', and no example of that name; there are {names}")
    try:
        found: Any = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise BadInput(f"{where} cannot be read as JSON: {error}") from error
    if not is_object(found):
        raise BadInput(f"{where} holds no JSON object; give a model's config.json")
    return found


def _changed(arguments: argparse.Namespace, change: str) -> argparse.Namespace:
    """The arguments with some replaced: `kv-dtype=fp8_e4m3,tp=8`."""
    changed = argparse.Namespace(**vars(arguments))
    for part in change.split(","):
        name, _, value = part.partition("=")
        key = name.strip().lstrip("-").replace("-", "_")
        if key not in arguments.readers:
            raise BadInput(
                f"--compare {change}: no option '{name}'; there are "
                f"{', '.join(sorted(n.replace('_', '-') for n in arguments.readers))}"
            )
        try:
            setattr(changed, key, arguments.readers[key](value))
        except ValueError as error:
            raise BadInput(f"--compare {change}: '{value}' is no value of '{name}'") from error
    return changed


def _plan(shape: ModelShape, arguments: argparse.Namespace) -> PoolPlan:
    memory = read_bytes(arguments.memory, "--memory")
    weights = read_bytes(arguments.weights, "--weights")
    budget = MemoryBudget(
        free_bytes=max(memory - weights, 0),
        total_bytes=memory,
        static_fraction=arguments.static_fraction,
        reserved_bytes=read_bytes(arguments.reserved, "--reserved"),
    )
    ranks = ParallelLayout(
        tp_size=arguments.tp,
        pp_size=arguments.pp,
        dp_attention_size=arguments.dp_attention,
        dcp_size=arguments.dcp,
    )
    return plan(
        shape,
        _options(arguments),
        ranks,
        budget,
        platform=find_capabilities(arguments.platform),
        pp_rank=arguments.pp_rank,
        draft_shape=_draft(arguments),
    )


def _draft(arguments: argparse.Namespace) -> ModelShape | None:
    where: str | None = arguments.draft_config
    if where is None:
        return None
    if arguments.draft_tokens is None:
        raise BadInput(f"--draft-config {where} drafts nothing without --draft-tokens N")
    return ModelShape.from_hf_config(_config(where))


def _options(arguments: argparse.Namespace) -> ServingOptions:
    speculative = None
    if arguments.draft_tokens is not None:
        speculative = SpeculativeOptions(
            kind=arguments.draft_kind,
            draft_tokens=arguments.draft_tokens,
            draft_layers=arguments.draft_layers,
            draft_kv_cache_dtype=arguments.draft_dtype,
            draft_attn_tp_size=arguments.draft_tp,
            draft_rows=arguments.draft_rows,
        )
    return ServingOptions(
        page_size=arguments.page_size,
        pool_memory=arguments.pool_memory,
        kv_cache_dtype=arguments.kv_dtype,
        model_dtype=arguments.model_dtype,
        layout=arguments.layout,
        dsa_rows=arguments.dsa_rows,
        index_rows=arguments.index_rows,
        role=arguments.role,
        allocator_fallback=arguments.allocator_fallback,
        prefix_cache=not arguments.no_prefix_cache,
        window_storage=arguments.window_storage,
        rows=arguments.rows,
        kv_sharding=arguments.kv_sharding,
        host_to_device_ratio=arguments.host_ratio,
        chunked_prefill_size=arguments.chunked_prefill or None,
        window_pools=not arguments.no_window_pools,
        swa_full_tokens_ratio=arguments.window_ratio,
        max_total_tokens=arguments.max_tokens,
        max_running_requests=arguments.max_running,
        context_len=arguments.context_len,
        state=StateOptions(
            full_memory_ratio=arguments.state_ratio,
            slots=arguments.state_slots,
            ssm_dtype=arguments.state_dtype,
        ),
        speculative=speculative,
    )
