"""Faults shown on sglang's pools alone; `test_faults.py` holds what is observed."""

from __future__ import annotations

from .difference import Difference

__all__ = ["FAULTS"]

ROWS = "key and value rows"
LATENT = "latent rows"
PAIR = "window pair"

FAULTS = (
    Difference(
        family=ROWS,
        operation="scales_divide_the_callers_tensors",
        clause="fp8.scales",
        sglang="divided in place: the caller's tensors are other numbers after the write",
        kvproto="the input is left alone",
    ),
    Difference(
        family=ROWS,
        operation="padding_rows_overwrite_slot_0",
        clause="leaf.slot-zero",
        sglang="stored in the reserved slot; the split writer of latent rows alone drops them",
        kvproto="dropped by every writer",
    ),
    Difference(
        family=ROWS,
        operation="negative_locations_wrap_to_the_last_row",
        clause="leaf.negative-loc",
        sglang="-1 is the last row of the buffer",
        kvproto="dropped",
    ),
    Difference(
        family=ROWS,
        operation="layers_below_the_stage_wrap",
        clause="leaf.layers-foreign",
        sglang="layers of another stage answer with a layer of this one",
        kvproto="ValueError",
    ),
    Difference(
        family=ROWS,
        operation="fp8_does_not_saturate",
        clause="fp8.saturates",
        sglang="infinity in e5m2, NaN in e4m3fnuz: whatever torch's cast gives",
        kvproto="the largest finite number",
    ),
    Difference(
        family=ROWS,
        operation="end_layer_defaults_to_the_last_layer",
        clause="leaf.geometry",
        sglang="by default inclusive, and counted from 0 whatever the stage starts with",
        kvproto="one past the last global id",
    ),
    Difference(
        family=ROWS,
        operation="a_move_works_only_when_asked_for_at_construction",
        clause="move.overlap",
        sglang="advertised on every pool, and asserts on those built by default",
        kvproto="works on every pool that advertises it",
    ),
    Difference(
        family=ROWS,
        operation="a_move_to_minus_one_writes_below_the_buffer",
        clause="move.slot-zero",
        sglang="the row lands below the buffer",
        kvproto="dropped",
    ),
    Difference(
        family=ROWS,
        operation="a_ragged_size_leaves_a_short_last_page",
        clause="transfer.lists",
        sglang="the last page to be sent ends past the buffer",
        kvproto="lengths are whole pages",
    ),
    Difference(
        family=PAIR,
        operation="window_moves_write_slot_0",
        clause="swa.move",
        sglang="a move to a token without a peer lands in the window's reserved slot",
        kvproto="dropped in the window leaf",
    ),
    Difference(
        family=PAIR,
        operation="index_keys_are_read_before_they_are_loaded",
        clause="indexer.read-waits",
        sglang="its index-key doors do not wait, the key door does",
        kvproto="every read door waits",
    ),
    Difference(
        family=PAIR,
        operation="a_window_layer_needs_more_than_locations",
        clause="swa.bare-loc",
        sglang="AssertionError for a plain tensor of locations",
        kvproto="stored at the peers",
    ),
    Difference(
        family=ROWS,
        operation="only_its_own_write_location_is_unwrapped",
        clause="leaf.write-location-object",
        sglang="another object with the same attributes is used as an index",
        kvproto="any object that carries `loc`",
    ),
    Difference(
        family=LATENT,
        operation="a_scale_by_position_is_a_layer_on_latent_pools",
        clause="write.layer-override",
        sglang="the fifth argument picks the layer that is written",
        kvproto="options are keyword arguments",
    ),
    Difference(
        family=ROWS,
        operation="a_narrow_row_is_spread_over_the_slot",
        clause="leaf.row-width",
        sglang="a value of width 1 fills a slot of any width; width 0 is accepted",
        kvproto="ValueError",
    ),
    Difference(
        family=ROWS,
        operation="a_mask_writes_values_as_wide_as_keys",
        clause="write.dcp-mask",
        sglang="a narrower value takes the slot beside it along",
        kvproto="values have their own width",
    ),
    Difference(
        family=PAIR,
        operation="window_writes_divide_even_without_scales",
        clause="leaf.strided-input",
        sglang="its default scale is 1.0 and divided in place: expanded rows cannot be written",
        kvproto="no scale is no division",
    ),
    Difference(
        family=LATENT,
        operation="inherited_doors_reach_for_replaced_storage",
        clause="mla.split-write",
        sglang="a vendor's subclass inherits doors over tensors it does not have",
        kvproto="what is advertised works; what is not is None",
    ),
    Difference(
        family="slot allocator",
        operation="a_slot_freed_twice_is_given_away_twice",
        clause="alloc.double-free",
        sglang="two owners of one slot",
        kvproto="freed once",
    ),
)
