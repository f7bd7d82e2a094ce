"""What annotations cannot say: shapes, dtypes, devices and ranges, per member of a protocol.

A rule is asked only when every argument already fits its annotation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ._describe import describe
from ._geometry import Geometry
from ._tensors import Fault, too_small

__all__ = ["ARGUMENT_RULES", "RESULT_RULES", "ArgumentRule", "ResultRule"]

ArgumentRule = Callable[[Any, Mapping[str, Any]], Iterator[Fault | None]]
ResultRule = Callable[[Any, Mapping[str, Any], Any], Iterator[Fault | None]]

_RESULT = "return value"


def _set_kv_buffer(pool: Any, values: Mapping[str, Any]) -> Iterator[Fault | None]:
    geometry = Geometry.of(pool)
    loc = values["loc_info"] if isinstance(values["loc_info"], Tensor) else values["loc_info"].loc
    if not isinstance(loc, Tensor):
        yield Fault("loc_info", "a tensor, or one as .loc", describe(loc))
    yield geometry.token_locations("loc_info", loc)
    yield geometry.rows("cache_k", values["cache_k"], len(loc), geometry.head_dim)
    if not geometry.is_latent:
        yield geometry.rows("cache_v", values["cache_v"], len(loc), geometry.v_head_dim)


def _overridden(_: Any, values: Mapping[str, Any]) -> Iterator[Fault | None]:
    if values["layer"] is None and values.get("layer_id_override") is None:
        yield Fault("layer", "AttentionLayer, as there is no layer_id_override", "None")


def _dcp_mask(_: Any, values: Mapping[str, Any]) -> Iterator[Fault | None]:
    mask, n = values.get("dcp_kv_mask"), len(values["cache_k"])
    if mask is not None and (mask.dtype is not torch.bool or list(mask.shape) != [n]):
        yield Fault("dcp_kv_mask", f"bool[{n}], as many as rows", describe(mask))


def _move_kv_cache(pool: Any, values: Mapping[str, Any]) -> Iterator[Fault | None]:
    geometry = Geometry.of(pool)
    target, source = values["tgt_loc"], values["src_loc"]
    yield geometry.token_locations("tgt_loc", target)
    yield geometry.token_locations("src_loc", source)
    if target.shape != source.shape:
        yield Fault("src_loc", f"as many locations as tgt_loc, {len(target)}", describe(source))


def _host_copy(pool: Any, values: Mapping[str, Any]) -> Iterator[Fault | None]:
    yield Geometry.of(pool).token_locations("indices", values["indices"])


def _register_mapping(pool: Any, values: Mapping[str, Any]) -> Iterator[Fault | None]:
    name = "full_to_swa_index_mapping"
    table = values[name]
    if table.dim() != 1:
        yield Fault(name, "a table of rank 1", describe(table))
    yield Geometry.of(pool).integers(name, table, None)


def _translate(pool: Any, values: Mapping[str, Any]) -> Iterator[Fault | None]:
    table = pool.full_to_swa_index_mapping
    stop = None if table is None else len(table) - 1
    yield Geometry.of(pool).integers("kv_indices", values["kv_indices"], stop)


def _translated(pool: Any, values: Mapping[str, Any], result: Any) -> Iterator[Fault | None]:
    asked = values["kv_indices"]
    if result.shape != asked.shape:
        yield Fault(_RESULT, f"shape {list(asked.shape)}, as asked", describe(result))
    yield Geometry.of(pool).integers(_RESULT, result, None)
    yield too_small(_RESULT, result, -1)


def _key_buffer(pool: Any, _: Mapping[str, Any], result: Any) -> Iterator[Fault | None]:
    geometry = Geometry.of(pool)
    yield geometry.buffer(_RESULT, result, geometry.head_dim)


def _value_buffer(pool: Any, _: Mapping[str, Any], result: Any) -> Iterator[Fault | None]:
    geometry = Geometry.of(pool)
    yield geometry.buffer(_RESULT, result, geometry.v_head_dim)


def _kv_buffer(pool: Any, _: Mapping[str, Any], result: Any) -> Iterator[Fault | None]:
    geometry = Geometry.of(pool)
    yield geometry.buffer(f"{_RESULT}[0]", result[0], geometry.head_dim)
    yield geometry.buffer(f"{_RESULT}[1]", result[1], geometry.v_head_dim)


def _regions(
    _: Any, __: Mapping[str, Any], result: Any, *, places: bool = False
) -> Iterator[Fault | None]:
    """`places`: a layer that owns nothing of the kind may keep its place, with lengths of 0."""
    ptrs, lens, item_lens = result
    if not len(ptrs) == len(lens) == len(item_lens):
        got = f"{len(ptrs)}, {len(lens)} and {len(item_lens)}"
        yield Fault(_RESULT, "(ptrs, lens, item_lens) of equal length", got)
    for index, (length, item) in enumerate(zip(lens, item_lens, strict=True)):
        if places and length == item == 0:
            continue
        if item < 1 or length < 0 or length % item:
            expected = f"lens[{index}] to be a multiple of item_lens[{index}] > 0"
            yield Fault(_RESULT, expected, f"{length} and {item}")


ARGUMENT_RULES: Mapping[str, ArgumentRule] = {
    "KVPool.set_kv_buffer": _set_kv_buffer,
    "LayerOverrideWrite.set_kv_buffer": _overridden,
    "DCPMaskedWrite.set_kv_buffer": _dcp_mask,
    "Movable.move_kv_cache": _move_kv_cache,
    "HostCopyable.get_cpu_copy": _host_copy,
    "HostCopyable.load_cpu_copy": _host_copy,
    "SWACapable.register_mapping": _register_mapping,
    "SWACapable.translate_loc_from_full_to_swa": _translate,
}
"""By protocol and member: the first fault among the arguments, named as the protocol does."""

RESULT_RULES: Mapping[str, ResultRule] = {
    "KVPool.get_key_buffer": _key_buffer,
    "KVPool.get_value_buffer": _value_buffer,
    "KVPool.get_kv_buffer": _kv_buffer,
    "SWACapable.translate_loc_from_full_to_swa": _translated,
    "Transferable.get_contiguous_buf_infos": _regions,
    "StateTransferable.get_state_buf_infos": partial(_regions, places=True),
    "StatePool.get_contiguous_buf_infos": _regions,
    "BlockScaled.get_kv_scale_buf_infos": _regions,
    "KPoolTail.get_compress_tail_buf_infos": partial(_regions, places=True),
    "QSAIndexed.get_qsa_pending_state_buf_infos": _regions,
    "RequestRingSWA.get_request_state_buf_infos": _regions,
    "SparseIndexed.get_sparse_kv_buf_infos": _regions,
}
"""The same for what a member returned; asked with the arguments it was given."""
