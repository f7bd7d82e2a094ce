"""From a model's `config.json` to what its caches must hold, without a tensor or a device."""

from __future__ import annotations

from .budget import MemoryBudget
from .build import build
from .build_error import BuildError
from .built import BuiltPools, RowlessPool, Views
from .capabilities import find_capabilities
from .class_hooks import ClassHookPlatform
from .core import Core
from .examples import example_config, example_names
from .fields import ShapeError
from .geometry import (
    AttentionGeometry,
    CompressedGeometry,
    HeadGeometry,
    IndexGeometry,
    IndexKind,
    LatentGeometry,
    Mixer,
    StateGeometry,
)
from .in_tree import CPU, CUDA
from .layer_kinds import LayerKind
from .options import ServingOptions, SpeculativeOptions, StateOptions
from .parallel import ParallelLayout
from .plan import plan
from .plan_error import PlanError
from .plan_json import plan_from_json, plan_to_json
from .platforms import find_platform
from .pool_plan import PoolPlan
from .shape import ModelShape

__all__ = [
    "CPU",
    "CUDA",
    "AttentionGeometry",
    "BuildError",
    "BuiltPools",
    "ClassHookPlatform",
    "CompressedGeometry",
    "Core",
    "HeadGeometry",
    "IndexGeometry",
    "IndexKind",
    "LatentGeometry",
    "LayerKind",
    "MemoryBudget",
    "Mixer",
    "ModelShape",
    "ParallelLayout",
    "PlanError",
    "PoolPlan",
    "RowlessPool",
    "ServingOptions",
    "ShapeError",
    "SpeculativeOptions",
    "StateGeometry",
    "StateOptions",
    "Views",
    "build",
    "example_config",
    "example_names",
    "find_capabilities",
    "find_platform",
    "plan",
    "plan_from_json",
    "plan_to_json",
]
