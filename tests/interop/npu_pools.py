# pyright: basic, reportMissingImports=false
"""The same calls on sglang's NPU pools and on ours, on an emulated `npu`, as one JSON object.

    .interop-venv/bin/python -m tests.devices.emulate npu -m tests.interop.npu_pools

sglang's pools run unmodified on the stand-in for torch_npu, which refuses what the vendor does not
document; `test_npu_pools.py` runs this and compares. To compare another leaf: a `Scripts` of
sglang's class and of ours (both are made with the same keywords), scripts on it that use members of
both and return what can be observed as JSON (`npu_scripts.py` has rows, digests of planes and
places of descriptors), and its line in `FAMILIES`. Slots that scripts write are past the reserved
page: what pools do with padding is in docs/differences.md.
"""

from __future__ import annotations

import json
import sys

from tests.interop import npu_names  # noqa: F401  (before anything of sglang's)

import tests.interop.npu_host_tier  # noqa: F401  (adds scripts)  # isort: skip
from tests.interop.npu_indexed import DSA, DSA_PACKED  # isort: skip
from tests.interop.npu_latent import MLA, MLA_NZ  # isort: skip
from tests.interop.npu_mha import MHA, MHA_BY_SLOT, MHA_FIA  # isort: skip
from tests.interop.npu_sparse import KEY_ONLY, KEY_ONLY_FIA, SPARSE, SPARSE_FIA  # isort: skip

FAMILIES = {
    "mha": MHA,
    "mha by slot": MHA_BY_SLOT,
    "mha for fia": MHA_FIA,
    "mla": MLA,
    "mla in nz": MLA_NZ,
    "dsa": DSA,
    "dsa packed": DSA_PACKED,
    "sparse": SPARSE,
    "sparse for fia": SPARSE_FIA,
    "keys alone": KEY_ONLY,
    "keys alone for fia": KEY_ONLY_FIA,
}


def main() -> None:
    observed = {
        f"{family}: {name}": both
        for family, scripts in FAMILIES.items()
        for name, both in scripts.observed().items()
    }
    json.dump(observed, sys.stdout)


if __name__ == "__main__":
    main()
