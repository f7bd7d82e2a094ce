"""Data-plane operations: one module each, torch tensors in and out, no pool in sight."""

from __future__ import annotations

from .alloc_decode import alloc_decode
from .alloc_decode_pair import alloc_decode_pair
from .alloc_extend import alloc_extend
from .alloc_extend_pair import alloc_extend_pair
from .alloc_pages_pair import alloc_pages_pair
from .block_scheme import BlockScheme
from .clear_slots import clear_slots
from .clear_tiled_row import clear_tiled_row
from .convert_pages import convert_pages
from .copy_pages import PageOrder, by_layer, gather_pages, scatter_pages
from .copy_slots import copy_slots
from .dequantise_fp4 import dequantise_fp4
from .dequantise_mxfp8 import dequantise_mxfp8
from .fp8 import FP8_DTYPES, to_fp8
from .gather_index_keys import gather_index_keys
from .gather_rows import gather_rows
from .gather_tiled_rows import gather_tiled_rows
from .hadamard import hadamard
from .host_copies import rows_from_host, rows_to_host
from .index_page import IndexLayout, index_page_bytes
from .interleaved_scales import ATOM, gather_interleaved_scales, store_interleaved_scales
from .load_index_keys import load_index_keys
from .load_latent_rows import load_latent_rows
from .locations import check_locations
from .move_index_keys import move_index_key_sets, move_index_keys
from .move_rows import move_row_sets, move_rows
from .move_tiled_rows import move_tiled_row_sets
from .pack_latent_rows import pack_latent_rows
from .packed_latent import LATENT_BLOCK, packed_latent_width
from .packed_latent_rows import load_packed_latent_rows, store_packed_latent_rows
from .pool_index_keys import pool_index_keys
from .prefix_locations import prefix_locations
from .prepare_moves import prepare_index_moves, prepare_moves, prepare_slot_copies
from .quantise_fp4 import FP4_BLOCK, FP4Scales, quantise_fp4
from .quantise_mxfp8 import MXFP8_BLOCK, mxfp8_elements, quantise_mxfp8
from .row_tiles import RowTiles, Tiles
from .store_block_scaled_rows import (
    BlockSet,
    quantise_blocks,
    store_block_scaled_rows,
)
from .store_fp8_row_sets import store_fp8_row_sets
from .store_fp8_tiled_row_sets import TiledSet, store_fp8_tiled_row_sets
from .store_index_keys import store_index_keys
from .store_latent_rows import store_latent_rows
from .store_quantised_index_keys import quantise_index_keys, store_quantised_index_keys
from .store_row_sets import store_row_sets
from .store_rows import store_rows
from .store_tiled_rows import store_tiled_rows
from .to_stored import to_stored
from .translate_locations import paged_locations, peer_locations
from .triton_devices import MINIMUM_TRITON, follow_platform, twin_fallbacks
from .unpack_latent_rows import unpack_latent_rows
from .update_tails import DecodedTokens, TailRings, update_tails

__all__ = [
    "ATOM",
    "FP4_BLOCK",
    "FP8_DTYPES",
    "LATENT_BLOCK",
    "MINIMUM_TRITON",
    "MXFP8_BLOCK",
    "BlockScheme",
    "BlockSet",
    "DecodedTokens",
    "FP4Scales",
    "IndexLayout",
    "PageOrder",
    "RowTiles",
    "TailRings",
    "TiledSet",
    "Tiles",
    "alloc_decode",
    "alloc_decode_pair",
    "alloc_extend",
    "alloc_extend_pair",
    "alloc_pages_pair",
    "by_layer",
    "check_locations",
    "clear_slots",
    "clear_tiled_row",
    "convert_pages",
    "copy_slots",
    "dequantise_fp4",
    "dequantise_mxfp8",
    "follow_platform",
    "gather_index_keys",
    "gather_interleaved_scales",
    "gather_pages",
    "gather_rows",
    "gather_tiled_rows",
    "hadamard",
    "index_page_bytes",
    "load_index_keys",
    "load_latent_rows",
    "load_packed_latent_rows",
    "move_index_key_sets",
    "move_index_keys",
    "move_row_sets",
    "move_rows",
    "move_tiled_row_sets",
    "mxfp8_elements",
    "pack_latent_rows",
    "packed_latent_width",
    "paged_locations",
    "peer_locations",
    "pool_index_keys",
    "prefix_locations",
    "prepare_index_moves",
    "prepare_moves",
    "prepare_slot_copies",
    "quantise_blocks",
    "quantise_fp4",
    "quantise_index_keys",
    "quantise_mxfp8",
    "rows_from_host",
    "rows_to_host",
    "scatter_pages",
    "store_block_scaled_rows",
    "store_fp8_row_sets",
    "store_fp8_tiled_row_sets",
    "store_index_keys",
    "store_interleaved_scales",
    "store_latent_rows",
    "store_packed_latent_rows",
    "store_quantised_index_keys",
    "store_row_sets",
    "store_rows",
    "store_tiled_rows",
    "to_fp8",
    "to_stored",
    "twin_fallbacks",
    "unpack_latent_rows",
    "update_tails",
]
