# pyright: basic, reportMissingImports=false
"""The entry points that sglang finds: kvproto's pools in place of its own, where asked for.

Installing kvproto changes nothing for sglang. With `KVPROTO_SGLANG=cpu` in its environment, sglang
gets an out-of-tree platform (entry point `kvproto` of `sglang.srt.platforms`) whose pools are
reference leaves, and hooks, of `sglang.srt.plugins`: `kvproto_composites` puts kvproto's window
pairs and hybrids over them, `kvproto_accounts` has kvproto's allocators, request tables and
recurrent states built. `SGLANG_PLUGINS=kvproto` leaves both out: what they replace is then sglang's
own, over the same leaves. sglang as it is refuses pools that are none of its classes;
`kvproto gates` rewrites those questions.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

__all__ = ["activate", "add_accounts", "add_composites"]

_PLATFORMS: dict[str, str] = {"cpu": "CpuPlatform"}
_BUILDS = "sglang.srt.mem_cache.kv_cache_configurator.KVCacheConfigurator._build_"


def activate() -> str | None:
    """Where sglang finds the platform's class; None unless `KVPROTO_SGLANG` names a device.

    :raises ValueError: for a device that there is no platform for.
    """
    device = _asked_for()
    return f"{__name__}:{_PLATFORMS[device]}" if device else None


def add_composites() -> None:
    """Have sglang's configurator hand out kvproto's composites; nothing unless asked for.

    :raises ValueError: as `activate`.
    """
    if _asked_for():
        from sglang.srt.plugins.hook_registry import HookRegistry, HookType

        from .composites import over_same_leaves

        def of_ours(pool: object, *_args: object, **_named: object) -> object:
            return over_same_leaves(pool)

        HookRegistry.register(f"{_BUILDS}token_to_kv_pool", of_ours, HookType.AFTER)


def add_accounts() -> None:
    """Have sglang's configurator hand out kvproto's allocators, request tables and states.

    Nothing unless asked for.

    :raises ValueError: as `activate`.
    """
    if _asked_for():
        from sglang.srt.plugins.hook_registry import HookRegistry, HookType

        from . import accounts

        def of_ours(allocator: object, *_args: object, **_named: object) -> object:
            return accounts.allocator_for(allocator)

        for built, instead, when in (
            ("token_to_kv_pool_allocator", of_ours, HookType.AFTER),
            ("default_req_pool", accounts.request_table, HookType.AROUND),
            ("hybrid_req_pool", accounts.state_request_table, HookType.AROUND),
        ):
            HookRegistry.register(f"{_BUILDS}{built}", instead, when)


def _asked_for() -> str:
    device = os.environ.get("KVPROTO_SGLANG", "")
    if device and device not in _PLATFORMS:
        known = ", ".join(_PLATFORMS)
        raise ValueError(f"KVPROTO_SGLANG={device}: there is a platform for {known}")
    return device


def __getattr__(name: str) -> Any:
    """The platform's class, which only sglang asks for: its base is sglang's."""
    if name == "CpuPlatform":
        return _cpu_platform()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _cpu_platform() -> type:
    from sglang.srt.platforms.cpu import CpuSRTPlatform
    from sglang.srt.platforms.device_mixin import PlatformEnum
    from sglang.srt.platforms.interface import PlatformCapabilities

    class CpuPlatform(CpuSRTPlatform):  # type: ignore[misc]  # sglang has no types for mypy
        """PyTorch on the CPU, with pools of `kvproto.reference`."""

        _enum = PlatformEnum.OOT
        capabilities = PlatformCapabilities()

        def get_default_attention_backend(self) -> str:
            """The one that is PyTorch."""
            return "torch_native"

        def get_kv_pool_cls(self, *, kind: str) -> type | None:
            """A leaf class, by sglang's kind; None for a kind that this release does not have."""
            from .leaves import SGLangDSALeaf, SGLangMHALeaf, SGLangMLALeaf

            classes = {"mha": SGLangMHALeaf, "mla": SGLangMLALeaf, "dsa": SGLangDSALeaf}
            return classes.get(kind)

        def get_paged_allocator_cls(self) -> type:
            """Pages of token slots, of one space or of a side of two."""
            from .page_allocator import SGLangPageAllocator

            return SGLangPageAllocator

    return CpuPlatform
