"""Window pairs, hybrids and recurrent state."""

from __future__ import annotations

from .difference import Difference, Shown

__all__ = ["COMPOSITES"]

PAIR = "window pair"
LATENT_PAIR = "window pair over latent leaves"
HYBRID = "hybrid"
STATE = "recurrent state"

COMPOSITES = (
    Difference(
        family=PAIR,
        operation="a window layer given plain locations; swa, page 4",
        clause="swa.bare-loc",
        sglang="AssertionError: only its own location object will do",
        kvproto="stored at the peers of the locations",
        shown=Shown("AssertionError", [0.0, 0.0, 0.0, 1.0, *[0.0] * 8]),
    ),
    Difference(
        family=PAIR,
        operation="a full layer given its own locations; swa, page 4",
        clause="swa.bare-loc",
        sglang="not looked at, the pair's locations are used",
        kvproto="stored where the object says for the full leaf",
        shown=Shown([1.0, 0.0], [0.0, 1.0]),
    ),
    Difference(
        family=HYBRID,
        operation="latent parts given two spaces; hybrid over mla",
        clause="hybrid.full-loc-parts",
        sglang="honoured for whole rows, not for rows in parts",
        kvproto="honoured by both writers",
        shown=Shown([True, False], [False, True]),
    ),
    Difference(
        family=PAIR,
        operation="a move to a token without a peer; swa, page 4",
        clause="swa.move",
        sglang="lands in the window's reserved slot",
        kvproto="dropped in the window leaf",
        shown=Shown([7.0, 0.0, 0.0, 7.0], [0.0, 0.0, 0.0, 7.0]),
    ),
    Difference(
        family=PAIR,
        operation="a move of a token without a peer; swa, page 4",
        clause="swa.move",
        sglang="the target's window row becomes the reserved slot's",
        kvproto="dropped in the window leaf",
        shown=Shown([0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 7.0]),
    ),
    Difference(
        family=PAIR,
        operation="a layer of another stage; swa, page 4",
        clause="KVPool.get_key_buffer",
        sglang="KeyError",
        kvproto="ValueError, as every pool",
        shown=Shown("KeyError", "ValueError"),
    ),
    Difference(
        family=PAIR,
        operation="a negative location translated; swa, page 4",
        clause="swa.translate",
        sglang="-1 gives -1, every other wraps into the table",
        kvproto="-1 for each",
        shown=Shown([-1, 0], [-1, -1]),
    ),
    Difference(
        family=PAIR,
        operation="where the stage ends; swa, page 4",
        clause="Composite",
        sglang="AttributeError: there is no end_layer",
        kvproto="the bounds of the stage",
        shown=Shown("AttributeError", [0, 5]),
    ),
    Difference(
        family=HYBRID,
        operation="where the stage ends; hybrid over mha",
        clause="Composite",
        sglang="AttributeError: there is no end_layer",
        kvproto="the bounds of the stage",
        shown=Shown("AttributeError", [0, 4]),
    ),
    Difference(
        family=PAIR,
        operation="which layers are exported; swa, page 4",
        clause="transfer.layer-ids",
        sglang="AttributeError: peers pair regions by position",
        kvproto="the global id of each region",
        shown=Shown("AttributeError", [1, 3, 1, 3]),
    ),
    Difference(
        family=LATENT_PAIR,
        operation="bytes exported of those owned; swa over dsa and mla",
        clause="swa.transfer",
        sglang="without the index keys",
        kvproto="all",
        shown=Shown([884736, 935424], [935424, 935424]),
    ),
    Difference(
        family=HYBRID,
        operation="bytes exported of those owned; hybrid over dsa",
        clause="hybrid.transfer",
        sglang="without the index keys",
        kvproto="all",
        shown=Shown([442368, 493056], [493056, 493056]),
    ),
    Difference(
        family=LATENT_PAIR,
        operation="index keys asked for while they load; swa over dsa and mla",
        clause="indexer.read-waits",
        sglang="handed out before they are loaded",
        kvproto="waits for the layer",
        shown=Shown([], [3]),
    ),
    Difference(
        family=LATENT_PAIR,
        operation="latent window rows restored in part; swa over dsa and mla",
        clause="swa.host-copy",
        sglang="IndexError: the copy is taken for one of keys and values",
        kvproto="restored to the peers that the tokens have then",
        shown=Shown("IndexError", [*[0.0] * 6, 8.0, 0.0]),
    ),
    Difference(
        family=HYBRID,
        operation="a copy restored without its state; hybrid over mha",
        clause="hybrid.host-copy-whole",
        sglang="the state is dropped in silence",
        kvproto="ValueError",
        shown=Shown(None, "ValueError"),
    ),
    Difference(
        family=HYBRID,
        operation="the callers layer object while it writes; hybrid over mla",
        clause="AttentionLayer.layer_id",
        sglang="its id is rewritten to the leaf's for the time of the call",
        kvproto="never written to",
        shown=Shown([1, 3], []),
    ),
    Difference(
        family=STATE,
        operation="a slot below zero cleared; state",
        clause="state.negative-slots",
        sglang="wraps: the last slot is cleared",
        kvproto="nothing is cleared",
        shown=Shown([0.0, 1.0, 2.0, 3.0, 0.0], [0.0, 1.0, 2.0, 3.0, 4.0]),
    ),
    Difference(
        family=STATE,
        operation="state copied to the reserved slot; state",
        clause="state.slot-zero",
        sglang="stored there",
        kvproto="dropped",
        shown=Shown([2.0, 1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 2.0, 3.0, 4.0]),
    ),
    Difference(
        family=STATE,
        operation="a position below the first layer; state",
        clause="state.layer-range",
        sglang="wraps to another layer",
        kvproto="ValueError",
        shown=Shown(7.0, "ValueError"),
    ),
)
