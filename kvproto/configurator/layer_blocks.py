"""Layers that each state their own attention (`block_configs`), some of them none at all."""

from __future__ import annotations

from .fields import HEADS, Fields, ShapeError

__all__ = ["attending_blocks", "heads_of_blocks"]


def attending_blocks(fields: Fields) -> tuple[bool, ...] | None:
    """Whether each layer attends; None for a config without blocks.

    :raises ShapeError: for a block that says nothing of its attention.
    """
    attentions = _attentions(fields)
    return None if attentions is None else tuple(_attends(each) for each in attentions)


def heads_of_blocks(fields: Fields) -> int | None:
    """KV heads of the layers that attend; None for a config without blocks.

    :raises ShapeError: where they differ from layer to layer, which no pool here holds.
    """
    attentions = _attentions(fields)
    if attentions is None:
        return None
    groups = {each.required("n_heads_in_group") for each in attentions if _attends(each)}
    if len(groups) != 1 or 0 in groups:
        raise fields.wrong("n_heads_in_group", sorted(groups), "must be one count for all layers")
    heads = fields.positive(*HEADS)
    if heads is None:
        raise fields.lacks(*HEADS)
    return heads // groups.pop()


def _attentions(fields: Fields) -> tuple[Fields, ...] | None:
    blocks = fields.objects("block_configs")
    if blocks is None:
        return None
    attentions = tuple(block.inner("attention") for block in blocks)
    stated = tuple(each for each in attentions if each is not None)
    if len(stated) < len(attentions):
        raise ShapeError(f"{fields.who}: block_configs[{attentions.index(None)}] has no attention")
    return stated


def _attends(attention: Fields) -> bool:
    return not attention.flag("no_op") and not attention.flag("replace_with_linear")
