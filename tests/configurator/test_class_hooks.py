"""Plugins that name classes build the same models, with a warning."""

from __future__ import annotations

from typing import Any

import pytest

from kvproto.configurator import BuildError, ClassHookPlatform, build
from kvproto.protocols import Platform
from kvproto.reference import CORE, DSALeaf, MHALeaf, MLALeaf, PageAllocator
from tests.configurator.test_build import CPU, small


class PerKind:
    """The hooks of plugins up to now."""

    def get_mha_kv_pool_cls(self) -> type:
        return MHALeaf

    def get_mla_kv_pool_cls(self) -> type:
        return MLALeaf

    def get_dsa_kv_pool_cls(self) -> type | None:
        return None

    def get_paged_allocator_cls(self) -> type:
        return PageAllocator


class ByKind:
    """The one hook that replaced them."""

    def get_kv_pool_cls(self, *, kind: str) -> type | None:
        return {"mha": MHALeaf, "mla": MLALeaf, "dsa": DSALeaf}.get(kind)


def over(hooks: object) -> Any:
    with pytest.warns(DeprecationWarning, match="names pool classes through .*build_leaf"):
        return ClassHookPlatform("old", hooks, CPU)


@pytest.mark.parametrize("hooks", [PerKind(), ByKind()])
@pytest.mark.parametrize("name", ["llama", "gpt_oss", "deepseek_v3", "qwen3_next"])
def test_models_are_built_from_classes(hooks: object, name: str) -> None:
    platform = over(hooks)
    assert isinstance(platform, Platform)
    made = build(small(name), platform, CORE)
    assert made.pool is not None
    by_the_core = isinstance(hooks, ByKind)
    assert bool(made.notes) == by_the_core


def test_a_kind_without_a_class_is_declined_by_name() -> None:
    with pytest.raises(BuildError, match="PerKind names no pool class of kind 'dsa'"):
        build(small("deepseek_v32"), over(PerKind()), CORE)
