"""The shapes of forty families, against counts worked out by hand from their configs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kvproto.configurator import (
    HeadGeometry,
    LatentGeometry,
    ModelShape,
    ParallelLayout,
    ShapeError,
    example_config,
    example_names,
)

# Per family: layers of each kind, and the elements that one token adds, as
# (layers that see the whole context) and (windowed layers).
BY_HAND: dict[str, tuple[dict[str, int], int, int]] = {
    "bamba": ({"linear": 32}, 0, 0),
    "cohere2": ({"sliding": 30, "full": 10}, 10 * 64 * 256, 30 * 64 * 256),
    "deepseek_v2": ({"full": 32}, 32 * 576, 0),
    "deepseek_v3": ({"full": 61}, 61 * 576, 0),
    "deepseek_v32": ({"indexed": 61}, 61 * 576, 0),
    "exaone4": ({"sliding": 24, "full": 8}, 8 * 32 * 256, 24 * 32 * 256),
    "falcon_h1": ({"full": 32}, 32 * 8 * 256, 0),
    "gemma2": ({"sliding": 13, "full": 13}, 13 * 4 * 512, 13 * 4 * 512),
    "gemma3_text": ({"sliding": 22, "full": 4}, 4 * 4 * 512, 22 * 4 * 512),
    "gemma4_text": ({"sliding": 25, "full": 5}, 5 * 4 * 1024, 25 * 4 * 512),
    "glm4_moe": ({"full": 46}, 46 * 8 * 84, 0),
    "glm5_next": ({"linear": 34, "indexed": 11}, 11 * 512, 0),
    "glm_moe_dsa": ({"indexed": 78}, 78 * 576, 0),
    "gpt_oss": ({"sliding": 18, "full": 18}, 18 * 8 * 128, 18 * 8 * 128),
    "granitemoehybrid": ({"linear": 32}, 0, 0),
    "jamba": ({"linear": 28, "full": 4}, 4 * 8 * 256, 0),
    "kimi_k25": ({"full": 61}, 61 * 576, 0),
    "kimi_linear": ({"linear": 21, "full": 6}, 6 * 576, 0),
    "lfm2": ({"full": 32}, 32 * 8 * 160, 0),
    "llama": ({"full": 32}, 32 * 32 * 256, 0),
    "llama4_text": ({"chunked": 36, "full": 12}, 12 * 8 * 256, 36 * 8 * 256),
    "longcat_flash": ({"full": 56}, 56 * 576, 0),
    "mamba2": ({"linear": 64}, 0, 0),
    "mimo_v2_flash": ({"sliding": 39, "full": 9}, 9 * 4 * 320, 39 * 4 * 320),
    "minimax": ({"full": 16, "linear": 16}, 16 * 8 * 256, 0),
    "minimax_m2": ({"full": 62}, 62 * 8 * 256, 0),
    "minimax_m3_vl": ({"full": 60}, 60 * 4 * 256, 0),
    "mistral": ({"sliding": 32}, 0, 32 * 8 * 256),
    "nemotron_h": ({"linear": 1, "full": 1, "no_cache": 2}, 8 * 256, 0),
    "olmo3": ({"sliding": 24, "full": 8}, 8 * 32 * 256, 24 * 32 * 256),
    "olmo_hybrid": ({"linear": 24, "full": 8}, 8 * 30 * 256, 0),
    "phi3": ({"full": 32}, 32 * 32 * 192, 0),
    "qwen2": ({"full": 32}, 32 * 32 * 256, 0),
    "qwen3": ({"full": 32}, 32 * 32 * 256, 0),
    "qwen3_5_text": ({"linear": 24, "full": 8}, 8 * 4 * 512, 0),
    "qwen3_moe": ({"full": 24}, 24 * 4 * 128, 0),
    "qwen3_next": ({"linear": 36, "full": 12}, 12 * 2 * 512, 0),
    "qwen4_exp": ({"linear": 30, "full": 10}, 10 * 2 * 512, 0),
    "step3p7": ({"full": 45}, 45 * 8 * 256, 0),
}

# Elements of one request's state in one layer: what is convolved, and the matrices.
STATES_BY_HAND = {
    "bamba": (3 * (8192 + 2 * 256), 128 * 64 * 256),
    "falcon_h1": (3 * (1024 + 2 * 256), 128 * 8 * 256),
    "glm5_next": (3 * 3 * 64 * 128, 64 * 128 * 128),
    "granitemoehybrid": (3 * (8192 + 2 * 256), 128 * 64 * 256),
    "jamba": (3 * 8192, 8192 * 16),
    "kimi_linear": (3 * 3 * 32 * 128, 32 * 128 * 128),
    "mamba2": (3 * (8192 + 2 * 8 * 128), 128 * 64 * 128),
    "minimax": (0, 32 * 128 * 128),
    "nemotron_h": (3 * (8192 + 2 * 8 * 128), 128 * 64 * 128),
    "olmo_hybrid": (3 * (2 * 30 * 96 + 30 * 192), 30 * 192 * 96),
    "qwen3_5_text": (3 * (2 * 16 * 128 + 32 * 128), 32 * 128 * 128),
    "qwen3_next": (3 * (2 * 16 * 128 + 32 * 128), 32 * 128 * 128),
    "qwen4_exp": (3 * (2 * 16 * 128 + 32 * 128), 32 * 128 * 128),
}


def shape_of(name: str, **changed: Any) -> ModelShape:
    config = example_config(name)
    target = config.get("text_config", config)
    target.update(changed)
    return ModelShape.from_hf_config(config)


def elements(geometry: object) -> int:
    match geometry:
        case HeadGeometry():
            return geometry.head_num * (geometry.head_dim + geometry.v_head_dim)
        case LatentGeometry():
            return geometry.kv_lora_rank + geometry.qk_rope_head_dim
        case _:
            return 0


def test_every_family_but_the_compressed_one_has_its_row() -> None:
    assert set(BY_HAND) == set(example_names()) - {"deepseek_v4"}


@pytest.mark.parametrize("name", sorted(BY_HAND))
def test_rows(name: str) -> None:
    kinds, full, window = BY_HAND[name]
    shape = shape_of(name)
    assert Counter(shape.layers) == kinds
    whole = shape.ids("full", "indexed")
    windowed = shape.ids("sliding", "chunked")
    assert len(whole) * elements(shape.attention) == full
    assert len(windowed) * elements(shape.window_attention) == window
    assert (shape.window is not None) == bool(windowed)


@pytest.mark.parametrize("name", example_names())
def test_states(name: str) -> None:
    state = shape_of(name).state
    if name not in STATES_BY_HAND:
        assert state is None
        return
    assert state is not None
    conv, temporal = STATES_BY_HAND[name]
    shape = state.conv_shape(1)
    assert (0 if shape is None else shape[0] * shape[1]) == conv
    heads, width, rank = state.temporal_shape(1)
    assert heads * width * rank == temporal


def test_a_layer_that_attends_and_recurs_counts_as_both() -> None:
    shape = shape_of("falcon_h1")
    assert shape.ids("full") == shape.state_layer_ids == tuple(range(32))


def test_compressed_rows_have_the_ratio_of_their_layer() -> None:
    shape = shape_of("deepseek_v4")
    assert shape.compressed is not None
    assert Counter(shape.compressed.ratios) == {128: 23, 4: 20}
    assert (shape.window, shape.compressed.index_head_dim) == (128, 128)


@pytest.mark.parametrize(
    ("name", "changed", "index"),
    [
        ("deepseek_v32", {}, ("latent", 128, 1, ())),
        ("glm5_next", {}, ("latent", 128, 16, ())),
        ("minimax_m3_vl", {}, ("rows", 128, 1, ())),
        (
            "minimax_m3_vl",
            {
                "num_hidden_layers": 4,
                "sparse_attention_config": {
                    "sparse_attention_freq": [0, 1, 1, 1],
                    "sparse_disable_index_value": [1, 1, 0, 1],
                    "sparse_index_dim": 64,
                },
            },
            ("rows", 64, 1, (2,)),
        ),
        (
            "qwen4_exp",
            {"indexer_head_dim": 64, "indexer_compress_ratio": 8},
            ("pooled_rows", 64, 8, ()),
        ),
    ],
)
def test_a_family_with_index_keys_is_never_taken_for_one_without(
    name: str, changed: dict[str, Any], index: tuple[str, int, int, tuple[int, ...]]
) -> None:
    found = shape_of(name, **changed).index
    assert found is not None
    assert (found.scheme, found.head_dim, found.kpool, found.value_layer_ids) == index


@pytest.mark.parametrize(
    ("changed", "reused"),
    [
        ({"indexer_types": ["full", "shared", "full", "shared"] + ["full"] * 57}, (1, 3)),
        ({"index_topk_pattern": "FSSF"}, (1, 2)),
        ({"index_topk_freq": 30}, tuple(i for i in range(2, 61) if i not in (31,))),
        (
            {"index_topk_freq": 20, "index_skip_topk_offset": 1},
            tuple(set(range(61)) - {0, 20, 40, 60}),
        ),
        ({"cli_factor": 60}, tuple(range(1, 60))),
        ({}, ()),
    ],
)
def test_layers_that_reuse_a_choice(changed: dict[str, Any], reused: tuple[int, ...]) -> None:
    assert shape_of("deepseek_v32", **changed).reused_choice_ids == reused


def test_layers_with_embeddings_of_their_own_are_counted_from_one() -> None:
    assert shape_of("qwen4_exp").embedding_ids == ()
    assert shape_of("qwen4_exp", ple_layer_ids=[1, 20]).embedding_ids == (0, 19)


def test_windows_may_have_heads_and_widths_of_their_own() -> None:
    # The values of the published MiMo-V2-Flash checkpoint.
    own = {"swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128}
    shape = shape_of("mimo_v2_flash", **own)
    assert shape.attention == HeadGeometry(head_num=4, head_dim=192, v_head_dim=128)
    assert shape.window_attention == HeadGeometry(head_num=8, head_dim=192, v_head_dim=128)


@pytest.mark.parametrize(
    ("changed", "kinds"),
    [
        ({"layer_types": None, "hybrid_layer_pattern": [0, 1, 1, 0]}, "full sliding sliding full"),
        ({"layer_types": None, "full_attention_interval": 4}, "linear linear linear full"),
        ({"layer_types": None, "hybrid_override_pattern": "M-*E"}, "linear no_cache full no_cache"),
        (
            {"layer_types": ["conv", "full_attention"] * 2, "conv_L_cache": 3},
            "state_only full " * 2,
        ),
    ],
)
def test_other_ways_to_name_the_layers(changed: dict[str, Any], kinds: str) -> None:
    assert shape_of("mimo_v2_flash", num_hidden_layers=4, **changed).layers == tuple(kinds.split())


def test_linear_layers_that_are_counted_from_one() -> None:
    linear = {"full_attn_layers": [4], "kda_layers": [1, 2, 3], "num_heads": 8, "head_dim": 64}
    shape = shape_of(
        "kimi_linear", layer_types=None, num_hidden_layers=4, linear_attn_config=linear
    )
    assert shape.ids("full") == (3,)
    assert shape.state is not None
    assert shape.state.conv_shape(2) == (3, 3 * 8 * 64 // 2)


def test_groups_that_cannot_be_split_are_on_every_rank() -> None:
    state = shape_of("bamba").state
    assert state is not None
    # One group of 256 on each of two ranks, twice: for B and for C.
    assert state.conv_shape(2) == (8192 // 2 + 2 * 256, 3)
    assert state.temporal_shape(2) == (64, 64, 256)


@pytest.mark.parametrize("ranks", [1, 2, 8, 16])
def test_a_rank_never_stores_less_than_one_head(ranks: int) -> None:
    heads = shape_of("qwen3_moe").attention
    assert isinstance(heads, HeadGeometry)
    assert heads.heads_of_rank(ranks) == max(1, 4 // ranks)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"num_attention_heads": "many"}, "num_attention_heads='many': must be an integer"),
        ({"num_hidden_layers": None}, "has no num_hidden_layers or num_layers or n_layer"),
        ({"num_attention_heads": None}, "has no num_attention_heads or n_head or n_heads"),
        ({"num_key_value_heads": 0}, "num_key_value_heads=0: must be an integer of at least 1"),
        ({"hidden_size": 16}, "hidden_size=16: leaves nothing for each of 32 heads"),
        ({"layer_types": ["sliding_attention"] * 32}, "has no sliding_window or"),
        (
            {"layer_types": ["sliding_attention"] * 32, "sliding_window": 0},
            "sliding_window=0: must",
        ),
        ({"layer_types": ["indexed_attention"] * 32}, "has no index_head_dim or"),
        ({"layer_types": ["full_attention"] * 33}, "33 kinds for 32 layers"),
        ({"sliding_window": 64}, "sliding_window=64: nothing says which layers have it"),
        ({"use_cla": True}, "use_cla changes what its layers keep"),
        ({"block_types": ["recurrent"]}, "block_types changes what its layers keep"),
        ({"block_configs": []}, "0 block_configs for 32 layers"),
        ({"block_configs": [{}] * 32}, "block_configs[0] has no attention"),
        ({"num_kv_shared_layers": 32}, "num_kv_shared_layers=32: no earlier layer"),
        ({"layer_types": ["full_attention"] * 3}, "3 kinds for 32 layers"),
        ({"layer_types": ["holographic"] * 32}, "layer_types='holographic': is none of"),
        ({"num_key_value_heads": -1}, "num_key_value_heads=-1: must be an integer of at least 0"),
    ],
)
def test_a_config_that_cannot_be_says_where(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ShapeError, match="config of model_type 'llama'") as error:
        shape_of("llama", head_dim=None, **changed)
    assert said in str(error.value)


@pytest.mark.parametrize("name", ["deepseek_v32", "glm_moe_dsa"])
def test_indexed_layers_without_a_key_are_refused(name: str) -> None:
    with pytest.raises(ShapeError, match="has no index_head_dim"):
        shape_of(name, index_head_dim=None)


def test_this_family_indexes_where_the_indexer_is_stated_whatever_the_words() -> None:
    words = ["linear_attention", "full_attention"] * 20
    index = {"indexer_head_dim": 64, "indexer_compress_ratio": 8}
    assert Counter(shape_of("qwen4_exp", **index).layers) == {"linear": 30, "indexed": 10}
    assert shape_of("qwen4_exp", layer_types=words, **index).layers[1] == "indexed"
    assert shape_of("qwen4_exp", layer_types=words).layers[1] == "full"
    with pytest.raises(ShapeError, match="has no index_head_dim or indexer_head_dim"):
        shape_of("qwen4_exp", indexer_n_heads=4)


def test_entries_of_draft_layers_are_left_out_where_the_config_counts_them() -> None:
    words = ["sliding_attention", "full_attention", "full_attention", "full_attention"] * 12
    shape = shape_of("step3p7", layer_types=words, sliding_window=512, num_nextn_predict_layers=3)
    assert len(shape.layers) == 45
    with pytest.raises(ShapeError, match="48 kinds for 45 layers"):
        shape_of("step3p7", layer_types=words, sliding_window=512, num_nextn_predict_layers=1)


def test_layers_that_read_an_earlier_layers_rows_keep_none() -> None:
    shape = shape_of("gemma4_text", num_kv_shared_layers=10)
    assert Counter(shape.layers) == {"sliding": 17, "full": 3, "no_cache": 10}
    assert shape.layers[20:] == ("no_cache",) * 10


def test_blocks_without_attention_keep_no_rows() -> None:
    heads, none = {"attention": {"n_heads_in_group": 8}}, {"attention": {"no_op": True}}
    blocks = {"block_configs": [heads, none, heads, heads], "num_hidden_layers": 4}
    shape = shape_of("llama", num_key_value_heads=None, head_dim=128, **blocks)
    assert shape.layers == ("full", "no_cache", "full", "full")
    assert shape.attention == HeadGeometry(head_num=4, head_dim=128, v_head_dim=128)
    blocks["block_configs"] = [heads, none, heads, {"attention": {"n_heads_in_group": 4}}]
    with pytest.raises(ShapeError, match=r"n_heads_in_group=\[4, 8\]: must be one count"):
        shape_of("llama", **blocks)


@pytest.mark.parametrize(
    ("changed", "heads"),
    [
        ({"multi_query": True}, 1),
        ({"multi_query": True, "new_decoder_architecture": True, "num_kv_heads": 8}, 8),
        ({"attn_config": {"kv_n_heads": 8}}, 8),
    ],
)
def test_other_ways_to_count_heads(changed: dict[str, Any], heads: int) -> None:
    found = shape_of("llama", **changed).attention
    assert isinstance(found, HeadGeometry)
    assert found.head_num == heads


@pytest.mark.parametrize("stages", [2, 3, 8])
def test_stages_are_cut_between_layers_of_the_model(stages: int) -> None:
    shape = shape_of("longcat_flash")
    assert (len(shape.layers), shape.rows_per_layer) == (56, 2)
    ranks = ParallelLayout(pp_size=stages)
    cut = [ranks.stage(rank, 56, shape.rows_per_layer) for rank in range(stages)]
    assert [i for layers in cut for i in layers] == list(range(56))
    sizes = {len(layers) for layers in cut}
    assert sizes <= {2 * (28 // stages), 2 * (28 // stages + 1)}


def test_ratios_alone_say_that_rows_are_compressed() -> None:
    ratios = [128, 128, *[4, 128] * 20, 4, 0]
    shape = shape_of("deepseek_v4", layer_types=None, compress_ratios=ratios)
    assert shape.layers == ("compressed",) * 43
    assert shape.compressed is not None
    assert shape.compressed.ratios == tuple(ratios[:43])


@pytest.mark.parametrize(
    ("changed", "length"),
    [
        ({"model_max_length": 16384}, 16384),
        ({"seq_length": 131072, "model_max_length": 16384}, 131072),
        ({"rope_scaling": {"type": "linear", "factor": 2.5}}, 5120),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 2048),
        ({"rope_scaling": {"factor": 40, "original_max_position_embeddings": 2048}}, 2048),
        ({"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}, 2048),
        ({"max_position_embeddings": None, "n_positions": 1024}, 1024),
        ({"max_position_embeddings": None}, None),
    ],
)
def test_contexts(changed: dict[str, Any], length: int | None) -> None:
    assert shape_of("llama", **changed).context_len == length
