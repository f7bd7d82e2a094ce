"""The options of `kvproto plan`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, get_args

from kvproto.protocols import DSARows, Fallback, LatentLayout

from .elements import KVCacheDtype
from .option_values import Float
from .options import (
    DraftKind,
    DraftRows,
    HeadLayout,
    IndexRows,
    KVSharding,
    PoolMemory,
    Role,
    Rows,
    WindowStorage,
)

__all__ = ["add_plan_arguments"]

_COUNTS: tuple[tuple[str, int | None, str], ...] = (
    ("--tp", 1, "tensor-parallel ranks"),
    ("--pp", 1, "pipeline stages"),
    ("--pp-rank", 0, "the stage to plan, from 0"),
    ("--dp-attention", 1, "attention groups among the tensor-parallel ranks"),
    ("--dcp", 1, "ranks that split a request's tokens"),
    ("--page-size", None, "tokens of a page, the platform's own number if left out"),
    ("--context-len", None, "the longest context, where the config states none or too much"),
    ("--max-running", None, "requests at once, of all attention groups"),
    ("--max-tokens", None, "an upper bound of tokens"),
    ("--chunked-prefill", 8192, "tokens of a prompt at a time, 0 for whole prompts"),
    ("--host-ratio", None, "tokens to a row of the device, most of them on the host"),
    ("--state-slots", None, "recurrent states kept, of all attention groups"),
    ("--draft-tokens", None, "tokens predicted ahead in a step"),
    ("--draft-layers", None, "layers of the draft, where no config states them"),
    ("--draft-tp", None, "ranks that split the draft's heads, where not all of a layer's"),
)
_TEXTS: tuple[tuple[str, str | None, str], ...] = (
    ("--memory", "80GiB", "of one device"),
    ("--weights", "0", "bytes of them on one device"),
    ("--reserved", "0", "bytes taken once caches are sized, as for images"),
    ("--platform", "cpu", "whose device it is"),
    ("--draft-config", None, "the config.json of a draft that is a model of its own"),
)
_SHARES: tuple[tuple[str, float, str], ...] = (
    ("--static-fraction", 0.9, "share of --memory for weights and caches"),
    ("--window-ratio", 0.8, "window tokens to one full token"),
    ("--state-ratio", 0.9, "bytes of state to one byte of rows"),
)
_CHOICES: tuple[tuple[str, str | None, tuple[str, ...], str], ...] = (
    ("--kv-dtype", "auto", get_args(KVCacheDtype), "what rows hold; auto: as --model-dtype"),
    ("--draft-dtype", None, get_args(KVCacheDtype), "what a draft's rows are stored in"),
    ("--draft-kind", None, get_args(DraftKind), "what predicts tokens, eagle if left out"),
    ("--model-dtype", None, get_args(Float), "the model's own type, if not what its config states"),
    ("--state-dtype", "float32", get_args(Float), "what temporal states are stored in"),
    (
        "--layout",
        None,
        get_args(HeadLayout),
        "how rows of heads lie, if not as the platform reads them",
    ),
    (
        "--latent-layout",
        None,
        get_args(LatentLayout),
        "how latent rows lie, if not as the platform reads them",
    ),
    ("--dsa-rows", None, get_args(DSARows), "fp8 rows beside index keys"),
    ("--index-rows", "model", get_args(IndexRows), "type of index rows beside rows of heads"),
    ("--rows", "kept", get_args(Rows), "whether rows of tokens are kept"),
    ("--window-storage", "paged", get_args(WindowStorage), "pages, or a ring for each request"),
    ("--pool-memory", "split", get_args(PoolMemory), "whether pools share one byte buffer"),
    ("--draft-rows", None, get_args(DraftRows), "where a draft's rows lie, own if left out"),
    ("--kv-sharding", "none", get_args(KVSharding), "whether ranks keep latent pages in turn"),
    ("--role", "unified", get_args(Role), "what the instance does"),
    (
        "--allocator-fallback",
        "core",
        get_args(Fallback),
        "who owns slots where the platform declines to",
    ),
)

_FLAGS: tuple[tuple[str, str], ...] = (
    ("--no-prefix-cache", "keep no finished prefixes"),
    ("--no-window-pools", "windowed layers keep the whole context"),
)


def add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare them; `readers` holds how each is read, for `--compare`."""
    parser.add_argument(
        "config", metavar="CONFIG", help="a model's config.json, or an example's name"
    )
    readers: dict[str, Callable[[str], Any]] = {}
    for name, word, text in _TEXTS:
        parser.add_argument(name, default=word, help=_with(text, word))
        readers[_key(name)] = str
    for name, count, text in _COUNTS:
        parser.add_argument(name, type=int, default=count, metavar="N", help=_with(text, count))
        readers[_key(name)] = int
    for name, share, text in _SHARES:
        parser.add_argument(name, type=float, default=share, metavar="X", help=_with(text, share))
        readers[_key(name)] = float
    for name, choice, choices, text in _CHOICES:
        shown = f"{text} ({', '.join(choices)})"
        parser.add_argument(
            name, default=choice, choices=choices, metavar="TYPE", help=shown.replace("%", "%%")
        )
        readers[_key(name)] = _one_of(choices)
    for name, text in _FLAGS:
        parser.add_argument(name, action="store_true", help=text)
        readers[_key(name)] = _yes_or_no
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    parser.add_argument(
        "--compare",
        action="append",
        metavar="OPTION=VALUE,...",
        help="a column beside the others with these changed; may be repeated",
    )
    parser.set_defaults(readers=readers)


def _key(name: str) -> str:
    return name.removeprefix("--").replace("-", "_")


def _with(text: str, default: object) -> str:
    return text if default is None else f"{text} ({default})"


def _yes_or_no(text: str) -> bool:
    return {"yes": True, "no": False}[_one_of(("yes", "no"))(text)]


def _one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return read
