# pyright: basic, reportMissingImports=false
"""Index keys of several tokens, written by sglang's pool and by ours."""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.mem_cache.memory_pool import DSATokenToKVPool

from kvproto.protocols import Movable, supports
from kvproto.reference import dsa_leaf
from tests.interop import single_rank  # noqa: F401
from tests.interop.side_by_side import Scripts, digest

__all__ = ["observed"]

BF16, E4M3 = torch.bfloat16, torch.float8_e4m3fn
SCRIPTS = Scripts(
    DSATokenToKVPool,
    dsa_leaf,
    size=512,
    page_size=128,
    dtype=BF16,
    kv_lora_rank=16,
    qk_rope_head_dim=8,
    kv_cache_dim=24,
    index_head_dim=128,
    layer_num=2,
    start_layer=3,
    end_layer=5,
    device="cpu",
    enable_memory_saver=False,
    index_kpool=2,
    index_kpool_compress=True,
    tail_extra_slots=1,
    max_running_requests=3,
)
FOUR = {"index_kpool": 4, "page_size": 256, "tail_extra_slots": 2}
observed = SCRIPTS.observed
PAGES = {1: (2, 1), 2: (1, 2), 3: (2, 1)}


def _tokens(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    made = torch.Generator().manual_seed(seed)
    key, score = (torch.randn(n, 128, generator=made).to(BF16) for _ in range(2))
    return key, score


def _bias(pool: Any) -> torch.Tensor:
    return torch.randn(pool.index_kpool, 128, generator=torch.Generator().manual_seed(9))


def _step(pool: Any, layer_id: int, rows: list[int], position: int, **changes: Any) -> None:
    n, group, page = len(rows), pool.index_kpool, pool.page_size
    key, score = _tokens(n, 100 * layer_id + position)
    tables = [[p * group + i for p in PAGES.get(r, (1, 2)) for i in range(group)] for r in rows]
    slots = [PAGES.get(r, (1, 2))[position // page % 2] * page + position % page for r in rows]
    given = {
        "key": key,
        "slot_score": score,
        "ape": _bias(pool),
        "block_tables": torch.tensor(tables, dtype=torch.int32),
        "req_pool_indices": torch.tensor(rows),
        "positions": torch.full((n,), position),
        "seq_lens": torch.full((n,), position + 1, dtype=torch.int32),
        "out_cache_loc": torch.tensor(slots),
    }
    pool.kpool_decode_update_index_cache(layer_id, **given | changes)


def _rings(pool: Any) -> list[str]:
    return digest(r for i in (3, 4) for r in pool.get_compress_tail_buffers(i))


def _decoded(pool: Any, **changes: Any) -> object:
    pages = pool.index_k_with_scale_buffer
    for layer_id in (3, 4):
        for position in (*range(9), *range(pool.page_size - 4, pool.page_size + 5)):
            _step(pool, layer_id, [1, 2], position, **changes)
    return [_rings(pool), digest(pages)]


_changes: dict[str, object]
for _name, _more in (("pairs", {}), ("fours", FOUR)):
    SCRIPTS.on(f"decoded tokens, groups of {_name}", **_more)(_decoded)


@SCRIPTS.on("decoded tokens, rounded scales")
def _rounded(pool: Any) -> object:
    return _decoded(pool, round_scale=True)


@SCRIPTS.on("tails of a prefill", **FOUR)
def _prefilled(pool: Any) -> object:
    for layer_id, row, count, start in ((3, 1, 3, 4), (4, 3, 2, 11), (4, 2, 0, 0), (3, 2, 3, 17)):
        key, score = _tokens(count, start)
        pool.set_compress_tail_for_request(layer_id, torch.tensor(row), key, score, count, start)
    return _rings(pool)


@SCRIPTS.on("pooled keys stored and gathered")
def _stored(pool: Any) -> object:
    made = torch.Generator().manual_seed(3)
    keys = torch.randint(0, 127, (4, 128), generator=made).to(torch.uint8).view(E4M3)
    loc = torch.tensor([1, 63, 64, 130])
    pool.set_index_k_scale_buffer(4, loc, keys, torch.rand(4, generator=made))
    lens, table = torch.tensor([3, 70]).int(), torch.tensor([[2, 0], [1, 2]]).int()
    gathered = pool.get_index_k_scale_buffer(4, lens, table, 73, 70)
    return [digest(pool.index_k_with_scale_buffer), digest(gathered)]


def _descriptors(pool: Any) -> object:
    state, tails = pool.get_state_buf_infos(), pool.get_compress_tail_buf_infos()
    facts = [pool.index_page_size, pool.index_kpool, pool.index_kpool_compress]
    facts += [pool.kpool_use_compress, pool.tail_extra_slots]
    shape = [list(ring.shape) for ring in pool.get_compress_tail_buffers(3)]
    return [state[1:], tails[1:], facts, shape, pool.get_contiguous_buf_infos()[1:]]


for _name, _changes in (
    ("pairs", {}),
    ("fours, one shared", {**FOUR, "skip_topk_layers": [False, True]}),
):
    SCRIPTS.on(f"descriptors, groups of {_name}", **_changes)(_descriptors)


@SCRIPTS.on("padding of a decode step")
def _padded(pool: Any) -> object:
    for row, changes in ((1, {"out_cache_loc": torch.tensor([0])}), (9, {}), (-1, {})):
        _step(pool, 3, [row], 1, **changes)
    _step(pool, 3, [1], 5, seq_lens=torch.tensor([5]))
    return [_rings(pool), digest(pool.index_k_with_scale_buffer)]


@SCRIPTS.on("a decoded token for nowhere")
def _nowhere(pool: Any) -> object:
    _step(pool, 3, [1], 0, out_cache_loc=torch.tensor([-1]))
    return bool(pool.get_compress_tail_buffers(3)[0].any())


@SCRIPTS.on("a tail for the padding row")
def _padding_row(pool: Any) -> object:
    pool.set_compress_tail_for_request(3, torch.tensor(0), *_tokens(1, 0), 1, 0)
    return bool(pool.get_compress_tail_buffers(3)[0][0].any())


@SCRIPTS.on("a tail for no row at all")
def _no_row(pool: Any) -> object:
    pool.set_compress_tail_for_request(3, torch.tensor(-1), *_tokens(1, 0), 1, 0)
    return bool(pool.get_compress_tail_buffers(3)[0][-1].any())


@SCRIPTS.on("rings of the layer before the stage")
def _foreign(pool: Any) -> object:
    ring = pool.get_compress_tail_buffers(2)[0]
    return ring.data_ptr() == pool.get_compress_tail_buffers(4)[0].data_ptr()


@SCRIPTS.on("bytes of the rings in the reported size")
def _size(pool: Any) -> object:
    stored = [*pool.kv_buffer, *pool.index_k_with_scale_buffer]
    return int(pool.get_kv_size_bytes()) - sum(t.nbytes for t in stored)


@SCRIPTS.on("moving tokens that share an index key")
def _movable(pool: Any) -> object:
    return supports(pool, Movable)


@SCRIPTS.on("a request's rings copied to the host")
def _copied(pool: Any) -> object:
    _step(pool, 3, [1], 0)
    loc = torch.arange(128, 256)
    copy = pool.get_cpu_copy(loc, mamba_indices=None, req_pool_index=1)
    pool.load_cpu_copy(copy, loc, mamba_indices=None, req_pool_index=2)
    ring = pool.get_compress_tail_buffers(3)[0]
    return torch.equal(ring[1], ring[2])
