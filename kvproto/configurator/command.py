"""`kvproto plan`: what a model's caches would be on a device, worked out on any laptop."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from kvproto._bad_input import BadInput

from .budget import MemoryBudget
from .build_error import BuildError
from .capabilities import find_capabilities
from .element_field import stated_element_type
from .examples import example_config, example_names
from .fields import ShapeError, is_object
from .flag_names import in_flags
from .idle_options import idle_options
from .options import ServingOptions, SpeculativeOptions, StateOptions
from .parallel import ParallelLayout
from .plan import plan
from .plan_error import PlanError
from .plan_json import plan_to_json
from .pool_plan import PoolPlan
from .shape import ModelShape
from .sizes_text import read_bytes

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Print the plan, or several side by side; exit status 0.

    :raises BadInput: for a config that cannot be read, and for a plan that cannot be made.
    """
    try:
        config = _config(arguments.config)
        shape = ModelShape.from_hf_config(config)
        if arguments.model_dtype is None:
            arguments.model_dtype = stated_element_type(config) or "bfloat16"
        plans = [("as given", _planned(shape, arguments))]
        for change in arguments.compare or ():
            plans.append((change, _planned(shape, _changed(arguments, change))))
    except (ShapeError, BuildError) as error:
        raise BadInput(str(error)) from error
    if arguments.json:
        print(_as_json(plans))
    else:
        _print(plans, idle_options(shape, arguments))
    return 0


def _planned(shape: ModelShape, arguments: argparse.Namespace) -> PoolPlan:
    try:
        return _plan(shape, arguments)
    except PlanError as error:
        raise BadInput(in_flags(error, arguments.memory)) from error


def _as_json(plans: list[tuple[str, PoolPlan]]) -> str:
    """The plan; of several one object, each under what was changed for it."""
    if len(plans) == 1:
        return plan_to_json(plans[0][1])
    return json.dumps({name: json.loads(plan_to_json(made)) for name, made in plans}, indent=1)


def _print(plans: list[tuple[str, PoolPlan]], notes: list[str]) -> None:
    from rich.console import Console

    from .render import print_comparison, print_plan

    console = Console(highlight=False)
    if len(plans) == 1:
        print_plan(plans[0][1], console)
    else:
        print_comparison(plans, console)
    for note in notes:
        console.print(f"note: {note}", markup=False)


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
    _refuse_idle_draft_flags(arguments)
    if where is None:
        return None
    return ModelShape.from_hf_config(_config(where))


def _refuse_idle_draft_flags(arguments: argparse.Namespace) -> None:
    """Nothing, or options of a draft where nothing is drafted, or drafted without a cache."""
    given = {name: getattr(arguments, f"draft_{name}") for name in _OF_A_DRAFT}
    why = None
    if arguments.draft_tokens is None:
        why = "drafts nothing without --draft-tokens N"
        given["kind"] = arguments.draft_kind
    elif arguments.draft_kind == "ngram":
        why = "is of a draft's cache, and --draft-kind ngram has none: leave it out"
    for name, value in given.items():
        if why is not None and value is not None:
            raise BadInput(f"--draft-{name} {value} {why}")


_OF_A_DRAFT = ("config", "layers", "dtype", "tp", "rows")


def _options(arguments: argparse.Namespace) -> ServingOptions:
    speculative = None
    if arguments.draft_tokens is not None:
        speculative = SpeculativeOptions(
            kind=arguments.draft_kind or "eagle",
            draft_tokens=arguments.draft_tokens,
            draft_layers=arguments.draft_layers,
            draft_kv_cache_dtype=arguments.draft_dtype,
            draft_attn_tp_size=arguments.draft_tp,
            draft_rows=arguments.draft_rows or "own",
        )
    return ServingOptions(
        page_size=arguments.page_size,
        pool_memory=arguments.pool_memory,
        kv_cache_dtype=arguments.kv_dtype,
        model_dtype=arguments.model_dtype,
        layout=arguments.layout,
        latent_layout=arguments.latent_layout,
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
