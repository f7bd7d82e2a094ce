# pyright: basic, reportMissingImports=false
"""What sglang is when nobody asked for kvproto: its platform, its hooks, and its entry points.

Runs in `.interop-venv`, with kvproto installed or not, and prints one JSON object.
"""

from __future__ import annotations

import json
from importlib.metadata import entry_points


def main() -> None:
    from sglang.srt.platforms import current_platform
    from sglang.srt.plugins import load_plugins
    from sglang.srt.plugins.hook_registry import HookRegistry

    load_plugins()
    groups = ("sglang.srt.platforms", "sglang.srt.plugins")
    told = {
        "points": sorted(point.name for group in groups for point in entry_points(group=group)),
        "platform": current_platform.device_name,
        "pool": [str(cls) for cls in [current_platform.get_kv_pool_cls(kind="mha")] if cls],
        "hooks": sorted([*HookRegistry._hooks, *HookRegistry._patched]),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
