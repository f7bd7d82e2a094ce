"""A stand-in for torch_npu on an emulated device: the vendor's schemas, as strict as its manual.

Operators have the schemas that torch_npu 2.14.0 registers (`schemas.txt`), under its namespaces and
as functions of this module. What the vendor documents for Atlas A2 and A3 is enforced: dtypes,
ranks, shapes, ranges, default modes; an error names the operator, the argument and what is
documented. Sources: torch_npu/_op_plugin_docs.py in the wheel, and the manuals of the aclnn and ATB
operations. Nothing is known here of speed, streams or private formats, and nothing was compared
with hardware.
"""

from __future__ import annotations

from typing import Any

import torch

if torch._C._get_privateuse1_backend_name() != "npu":
    raise ImportError("this torch_npu is a stand-in for an emulated npu: tests/devices/emulate.py")

from . import formats, paged_cache, quantize, scatter_nd
from .register import operators

__version__ = "2.14.0"

npu: Any = torch.get_device_module("npu")

_OPERATORS = operators(
    npu_scatter_nd_update_=scatter_nd.npu_scatter_nd_update_,
    npu_scatter_pa_kv_cache=paged_cache.npu_scatter_pa_kv_cache,
    npu_gather_pa_kv_cache=paged_cache.npu_gather_pa_kv_cache,
    _npu_reshape_and_cache=paged_cache._npu_reshape_and_cache,
    npu_format_cast=formats.npu_format_cast,
    get_npu_format=formats.get_npu_format,
    npu_dynamic_quant=quantize.npu_dynamic_quant,
)


def __getattr__(name: str) -> Any:
    if name in _OPERATORS:
        return _OPERATORS[name]
    raise AttributeError(f"the stand-in for torch_npu has no {name!r}")
