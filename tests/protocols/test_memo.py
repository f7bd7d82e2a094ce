"""The memo: once per class, weak, thread-safe."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Generator
from typing import Any, cast

import pytest

from kvproto.protocols import SWACapable, forget, supports
from kvproto.protocols._verdict import decide


@pytest.fixture(autouse=True, scope="module")
def frozen() -> Generator[None]:
    """What is there already is left out of collections, which go through all there is each time."""
    gc.freeze()
    yield
    gc.unfreeze()


def make_pool_class(*, whole: bool = True) -> type:
    class Pool:
        full_to_swa_index_mapping = None

        def register_mapping(self, table: Any) -> None: ...

        if whole:

            def translate_loc_from_full_to_swa(self, kv_indices: Any) -> Any: ...

    return Pool


def test_a_class_is_decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decided: list[type] = []

    def counting(cls: type, protocol: type, assigned: Any = None) -> Any:
        decided.append(cls)
        return decide(cls, protocol, assigned)

    monkeypatch.setattr("kvproto.protocols._capability.decide", counting)
    pools = [make_pool_class(), make_pool_class(whole=False)]
    for _ in range(3):
        gc.collect()  # empties the fast copy, not the truth
        for cls in pools:
            isinstance(cls(), SWACapable)
            supports(cls(), SWACapable)
            issubclass(cls, cast("Any", SWACapable))
    assert decided == pools


def test_dead_classes_are_let_go() -> None:
    references: list[weakref.ref[type]] = []
    for whole in (True, False):
        cls = make_pool_class(whole=whole)
        assert isinstance(cls(), SWACapable) is whole
        assert supports(cls(), SWACapable) is whole
        references.append(weakref.ref(cls))
        del cls
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_a_new_class_never_inherits_a_dead_ones_answer() -> None:
    for _ in range(50):
        cls = make_pool_class()
        assert isinstance(cls(), SWACapable)
        del cls
        gc.collect()
        other = make_pool_class(whole=False)
        assert not isinstance(other(), SWACapable)
        del other


def test_a_subclass_may_opt_out_of_what_its_parent_has() -> None:
    parent = make_pool_class()
    child = type("Child", (parent,), {"translate_loc_from_full_to_swa": None})
    assert isinstance(parent(), SWACapable)
    assert not isinstance(child(), SWACapable)
    assert isinstance(parent(), SWACapable)


def test_threads_agree() -> None:
    classes = [make_pool_class(whole=i % 2 == 0) for i in range(40)]
    wrong: list[str] = []
    start = threading.Barrier(8)

    def ask() -> None:
        start.wait()
        for round_ in range(20):
            for i, cls in enumerate(classes):
                if isinstance(cls(), SWACapable) is not (i % 2 == 0):
                    wrong.append(f"class {i} in round {round_}")
            if round_ % 5 == 0:
                forget(classes[round_])
                gc.collect()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
