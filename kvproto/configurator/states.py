"""The recurrent state a config asks for, by the family's own fields."""

from __future__ import annotations

from .fields import Fields
from .geometry import StateGeometry

__all__ = ["has_state", "state_geometry"]

_MAMBA1_FAMILIES = frozenset({"jamba", "mamba", "falcon_mamba"})


_MIXERS = (
    "conv_L_cache",
    "linear_num_value_heads",
    "linear_attn_config",
    "linear_conv_kernel_dim",
)
_SCANS = ("mamba_d_state", "ssm_state_size", "state_size")


def has_state(fields: Fields) -> bool:
    """Whether a recurrent layer's state is described at all."""
    return fields.has_any(*_MIXERS, *_SCANS)


def state_geometry(fields: Fields) -> StateGeometry:
    """What one recurrent layer keeps for one request.

    :raises ShapeError: where a field of that mixer is missing.
    """
    if fields.has("conv_L_cache"):
        return _short_conv(fields)
    if fields.has("linear_num_value_heads"):
        return _gated_delta(fields)
    if fields.has("linear_attn_config") or fields.has("linear_conv_kernel_dim"):
        return _kda(fields)
    if fields.model_type == "jamba" or (
        fields.has("time_step_rank") and not fields.has("n_groups")
    ):
        return _mamba1(fields)
    if fields.has_any(*_SCANS):
        return _mamba2(fields)
    return _lightning(fields)


def _short_conv(fields: Fields) -> StateGeometry:
    channels = fields.required("conv_dim", "hidden_size")
    window = fields.required("conv_L_cache") - 1
    return StateGeometry(
        mixer="short_conv",
        conv_blocks=(channels,),
        conv_window=window,
        heads=0,
        head_dim=0,
        state_dim=0,
    )


def _gated_delta(fields: Fields) -> StateGeometry:
    keys, key_dim = (
        fields.required("linear_num_key_heads"),
        fields.required("linear_key_head_dim"),
    )
    values = fields.required("linear_num_value_heads")
    value_dim = fields.required("linear_value_head_dim")
    return StateGeometry(
        mixer="gated_delta",
        conv_blocks=(keys * key_dim, keys * key_dim, values * value_dim),
        conv_window=fields.required("linear_conv_kernel_dim") - 1,
        heads=values,
        head_dim=value_dim,
        state_dim=key_dim,
        groups=keys,
    )


def _kda(fields: Fields) -> StateGeometry:
    own = fields.inner("linear_attn_config") or fields
    heads = own.integer("num_heads", "linear_num_heads") or fields.required("num_attention_heads")
    # 128 where the config is silent: the default of transformers' classes for this mixer.
    width = (own.integer("head_dim", "linear_head_dim") if own is not fields else None) or (
        fields.integer("linear_head_dim") or 128
    )
    kernel = own.integer("short_conv_kernel_size", "linear_conv_kernel_dim")
    return StateGeometry(
        mixer="kda",
        conv_blocks=(heads * width,) * 3,
        conv_window=(kernel or fields.required("linear_conv_kernel_dim")) - 1,
        heads=heads,
        head_dim=width,
        state_dim=width,
    )


def _mamba1(fields: Fields) -> StateGeometry:
    inner = fields.integer("intermediate_size") if fields.model_type != "jamba" else None
    expand = fields.required("mamba_expand", "expand")
    channels = inner or expand * fields.required("hidden_size")
    return StateGeometry(
        mixer="mamba1",
        conv_blocks=(channels,),
        conv_window=fields.required("mamba_d_conv", "conv_kernel") - 1,
        heads=channels,
        head_dim=1,
        state_dim=fields.required("mamba_d_state", "state_size"),
    )


def _mamba2(fields: Fields) -> StateGeometry:
    heads = fields.required("mamba_n_heads", "mamba_num_heads", "num_heads")
    if fields.word("mamba_d_head", "") == "auto":
        width = fields.required("mamba_expand") * fields.required("hidden_size") // heads
    else:
        width = fields.required("mamba_d_head", "mamba_head_dim", "head_dim")
    groups = fields.required("mamba_n_groups", "n_groups")
    state = fields.required("mamba_d_state", "ssm_state_size", "state_size")
    inner = fields.integer("mamba_d_ssm") or heads * width
    return StateGeometry(
        mixer="mamba2",
        conv_blocks=(inner, groups * state, groups * state),
        conv_window=fields.required("mamba_d_conv", "conv_kernel") - 1,
        heads=heads,
        head_dim=width,
        state_dim=state,
        groups=groups,
    )


def _lightning(fields: Fields) -> StateGeometry:
    heads = fields.required("num_linear_key_value_heads", "num_attention_heads")
    width = fields.positive("head_dim") or fields.required("hidden_size") // heads
    return StateGeometry(
        mixer="lightning",
        conv_blocks=(),
        conv_window=0,
        heads=heads,
        head_dim=width,
        state_dim=width,
    )
