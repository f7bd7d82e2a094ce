"""Reading one field of a model's config, under whatever name the family gives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, TypeGuard

from .class_defaults import CLASS_DEFAULTS

__all__ = ["HEADS", "HIDDEN", "LAYERS", "Fields", "ShapeError", "is_object"]


class ShapeError(ValueError):
    """A model's config does not say what its caches must hold: which field, and what it lacks."""


# Names of one count or width in configs of different families.
HEADS = ("num_attention_heads", "n_head", "n_heads")
HIDDEN = ("hidden_size", "n_embd", "d_model")
LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers")
_NESTED = ("text_config", "llm_config", "language_config")


class Fields:
    """The fields of a decoder's config: its `text_config` where it has one, the top level else.

    `llm_config` and `language_config` are further names of the nested one.

    A field that is absent has its class's default where checkpoints leave it out
    (`class_defaults`); otherwise one that is absent and one that is null are the same.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        nested: Any = next((config[name] for name in _NESTED if config.get(name)), None)
        self.stated: Mapping[str, Any] = nested if is_object(nested) else config
        own_type = self.stated.get("model_type")
        self.model_type = str(own_type or config.get("model_type") or "")
        self._own: Mapping[str, Any] = {**CLASS_DEFAULTS.get(self.model_type, {}), **self.stated}

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._own.get(name) is not None

    def has_any(self, *names: str) -> bool:
        """Whether one of the fields is there and not null."""
        return any(self.has(name) for name in names)

    def integer(self, *names: str) -> int | None:
        """The first of these fields that is there, which must be an integer of at least 0.

        :raises ShapeError: for another value.
        """
        for name in names:
            value: Any = self._own.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise self.wrong(name, value, "must be an integer of at least 0")
            return value
        return None

    def positive(self, *names: str) -> int | None:
        """As `integer`, for what there is at least one of.

        :raises ShapeError: for another value.
        """
        value = self.integer(*names)
        if value == 0:
            name = next(name for name in names if self.has(name))
            raise self.wrong(name, value, "must be an integer of at least 1")
        return value

    def required(self, *names: str) -> int:
        """As `integer`, for a field that the shape cannot do without.

        :raises ShapeError: naming the fields it may be under.
        """
        value = self.integer(*names)
        if value is None:
            raise self.lacks(*names)
        return value

    def words(self, name: str) -> tuple[str, ...] | None:
        """A list with one word a layer.

        :raises ShapeError: for another value.
        """
        value: Any = self._own.get(name)
        if value is None:
            return None
        if not _is_list(value) or not all(isinstance(word, str) for word in value):
            raise self.wrong(name, value, "must be a list of words")
        return tuple(value)

    def integers(self, name: str) -> tuple[int, ...] | None:
        """A list of integers: flags, ratios or layer ids.

        :raises ShapeError: for another value.
        """
        value: Any = self._own.get(name)
        if value is None:
            return None
        if not _is_list(value) or not all(isinstance(item, int) for item in value):
            raise self.wrong(name, value, "must be a list of integers")
        return tuple(value)

    def word(self, name: str, default: str) -> str:
        """A field that is one word."""
        return str(self._own.get(name) or default)

    def letters(self, name: str) -> str | None:
        """A field that is a string of one letter a layer; None where it is anything else."""
        value: Any = self._own.get(name)
        return value if isinstance(value, str) else None

    def flag(self, name: str) -> bool:
        """Whether a switch is on; absent is off."""
        return bool(self._own.get(name))

    def is_off(self, name: str) -> bool:
        """Whether a switch is there and off; absent is not off."""
        return self._own.get(name) is False

    def inner(self, name: str) -> Fields | None:
        """A nested group of fields, such as `linear_attn_config`."""
        value: Any = self._own.get(name)
        return Fields(value) if is_object(value) else None

    def objects(self, name: str) -> tuple[Fields, ...] | None:
        """A list of nested groups of fields.

        :raises ShapeError: for another value.
        """
        value: Any = self._own.get(name)
        if value is None:
            return None
        if not _is_list(value) or not all(is_object(item) for item in value):
            raise self.wrong(name, value, "must be a list of objects")
        return tuple(Fields(item) for item in value)

    def number(self, name: str) -> float | None:
        """A field that is a number above 0; None where it is absent.

        :raises ShapeError: for another value.
        """
        value: Any = self._own.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf:
            raise self.wrong(name, value, "must be a number above 0")
        return value

    def wrong(self, name: str, value: object, why: str) -> ShapeError:
        """The error for a field whose value cannot be."""
        return ShapeError(f"{self.who}: {name}={value!r}: {why}")

    def lacks(self, *names: str) -> ShapeError:
        """The error for a field that is under none of these names."""
        return ShapeError(f"{self.who} has no {' or '.join(names)}")

    @property
    def who(self) -> str:
        """The start of an error."""
        return f"config of model_type '{self.model_type}'"


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether it is a JSON object."""
    return isinstance(value, dict)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
