"""Lets torchvision import where its compiled operators are not available.

Put this folder on PYTHONPATH: subprocesses inherit it. The wheel of torchvision is built for
CUDA, its extension cannot load beside a CPU torch, and its Python half then stops at operators
that nobody defined. sglang imports it for image models only, so declaring them is enough.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder

_SCHEMAS = {
    "torchvision::nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "torchvision::qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}


class _DeclareOperatorsFirst(MetaPathFinder):
    """Finds nothing; its turn comes just before torchvision is looked for."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            import torch

            for name, schema in _SCHEMAS.items():
                torch.library.define(name, schema)


sys.meta_path.insert(0, _DeclareOperatorsFirst())
