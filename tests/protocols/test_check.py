"""What `isinstance`, `supports`, `require` and `explain` answer, and that they run nothing."""

from __future__ import annotations

import functools
from typing import Any, Protocol, runtime_checkable

import pytest

from kvproto.protocols import (
    Capability,
    CapabilityError,
    SWACapable,
    adopt,
    explain,
    forget,
    require,
    supports,
)


@runtime_checkable
class Mover(Capability, Protocol):
    """A protocol of our own with one of each member."""

    @property
    def width(self) -> int: ...

    @property
    def table(self) -> list[int] | None: ...

    def move(self, tgt: int, src: int, /, *, scale: float = 1.0, layer: int | None = None) -> None:
        """Move."""


class Declared:
    """Declares everything on the class."""

    width = 3
    table = None

    def move(self, target: int, source: int, scale: float = 1.0, layer: int | None = None) -> None:
        """Move."""


class Legacy:
    """Assigns its data in `__init__`, as pools written before us do."""

    def __init__(self, **data: object) -> None:
        vars(self).update(data)

    def move(self, tgt: int, src: int, **options: Any) -> None:
        """Move."""


def declares(cls: Any, protocol: Any) -> bool:
    """`issubclass`; checkers refuse it for protocols with data, the check here does not."""
    return issubclass(cls, protocol)


def changed(**members: object) -> type:
    return type("Changed", (Declared,), members)


def test_a_class_with_every_member_is_one() -> None:
    assert isinstance(Declared(), Mover)
    assert declares(Declared, Mover)
    assert supports(Declared(), Mover)
    assert explain(Declared(), Mover) == []
    assert explain(Declared, Mover) == []


def _nothing(self: object) -> None: ...


async def _coroutine(
    self: object, tgt: int, src: int, *, scale: float = 1, layer: Any = 0
) -> None: ...


def _few(self: object, tgt: int, /, *, scale: float = 1, layer: Any = 0) -> None: ...


def _more(
    self: object, tgt: int, src: int, label: str, *, scale: float = 1, layer: Any = 0
) -> None: ...


def _renamed(self: object, tgt: int, src: int, *, factor: float = 1, layer: Any = 0) -> None: ...


def _no_default(self: object, tgt: int, src: int, *, scale: float, layer: Any = 0) -> None: ...


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"move": None}, "move: set to None, declared as not supported"),
        ({"move": 3}, "move: is a int, the protocol wants a method"),
        ({"move": property(_nothing)}, "move: is a property, the protocol wants a method"),
        ({"move": functools.cached_property(_nothing)}, "move: is a cached_property"),
        ({"move": staticmethod(_nothing)}, "move: is a staticmethod"),
        ({"move": classmethod(_nothing)}, "move: is a classmethod"),
        ({"move": _coroutine}, "move: is async or a generator"),
        ({"move": _few}, "move: takes 1 positional arguments, callers pass 2"),
        ({"move": _more}, "move: needs an extra argument 'label'"),
        ({"move": _renamed}, "move: has no parameter 'scale', which callers pass"),
        ({"move": _no_default}, "move: 'scale' has no default, callers may leave it out"),
        ({"width": _nothing}, "width: is a method, the protocol wants a data member"),
        ({"width": staticmethod(_nothing)}, "width: is a method"),
        ({"width": None}, "width: missing"),
    ],
)
def test_every_kind_of_fault_is_named(members: dict[str, object], words: str) -> None:
    pool = changed(**members)()
    assert not isinstance(pool, Mover)
    assert not supports(pool, Mover)
    assert any(words in line for line in explain(pool, Mover)), explain(pool, Mover)


def test_a_missing_method_is_named() -> None:
    class Bare:
        width, table = 1, None

    assert explain(Bare(), Mover) == ["move: missing"]


def test_what_getattr_forwards_does_not_count() -> None:
    class Proxy:
        width, table = 1, None

        def __getattr__(self, name: str) -> Any:
            return getattr(Declared(), name)

    assert not isinstance(Proxy(), Mover)
    assert "__getattr__" in explain(Proxy(), Mover)[0]


def test_a_partialmethod_and_a_wrapped_method_are_methods() -> None:
    def base(
        self: object, mode: str, tgt: int, src: int, *, scale: float = 1, layer: Any = 0
    ) -> None: ...

    @functools.wraps(Declared.move)
    def wrapped(self: object, *args: Any, **kwargs: Any) -> None: ...

    assert isinstance(changed(move=functools.partialmethod(base, "fast"))(), Mover)
    assert isinstance(changed(move=wrapped)(), Mover)


def test_no_property_is_ever_run() -> None:
    ran: list[str] = []

    class Eager(Declared):
        @property
        def width(self) -> int:  # type: ignore[override]
            ran.append("width")
            raise RuntimeError("a property that raises")

    assert isinstance(Eager(), Mover)
    assert supports(Eager(), Mover)
    assert explain(Eager(), Mover) == []
    adopt(Eager())
    assert ran == []


def test_slots_and_annotations_declare_data() -> None:
    class Slotted:
        __slots__ = ("table", "width")

        def move(self, tgt: int, src: int, **options: Any) -> None: ...

    class Annotated:
        width: int
        table: list[int] | None

        def move(self, tgt: int, src: int, **options: Any) -> None: ...

    for cls in (Slotted, Annotated):
        assert isinstance(cls(), Mover)
        assert declares(cls, Mover)


def test_data_assigned_in_init_is_found_per_instance() -> None:
    whole, part = Legacy(width=1, table=None), Legacy(width=1)
    for _ in range(2):
        assert isinstance(whole, Mover)
        assert not isinstance(part, Mover)
        assert supports(whole, Mover)
        assert not supports(part, Mover)
    assert explain(part, Mover) == ["table: missing"]
    assert not declares(Legacy, Mover)
    assert explain(Legacy, Mover) == [
        "width: not declared on the class",
        "table: not declared on the class",
    ]


def test_none_is_a_value_only_where_the_protocol_says_so() -> None:
    assert isinstance(Legacy(width=1, table=None), Mover)
    assert not isinstance(Legacy(width=None, table=None), Mover)
    assert explain(Legacy(width=None, table=None), Mover) == ["width: is None"]


def test_none_on_the_class_may_be_replaced_on_the_instance() -> None:
    class Late(Legacy):
        width = None
        table = None

    assert not isinstance(Late(), Mover)
    assert isinstance(Late(width=4), Mover)
    assert not declares(Late, Mover)


def test_adopt_settles_the_class() -> None:
    class Pool(Legacy):
        pass

    assert adopt(pool := Pool(width=1, table=None)) is pool
    assert declares(Pool, Mover)
    assert isinstance(Pool(), Mover)
    assert adopt(Pool(width=9, table=[1], more=2)) is not pool
    with pytest.raises(CapabilityError, match="adopted as Mover, this instance answers otherwise"):
        adopt(Pool(width=1))
    forget(Pool)
    assert not declares(Pool, Mover)
    assert not isinstance(Pool(), Mover)


def test_adopting_a_pool_that_lacks_data_says_so() -> None:
    class Pool(Legacy):
        pass

    adopt(Pool(width=1))
    assert not isinstance(Pool(width=1, table=None), Mover)
    assert explain(Pool(), Mover) == ["table: not assigned by the adopted instance"]
    forget(Pool)


def test_forget_sees_members_patched_in_later() -> None:
    class Base:
        width, table = 1, None

    class Pool(Base):
        pass

    assert not isinstance(Pool(), Mover)
    setattr(Base, "move", Declared.move)  # noqa: B010  # a patch, as checkers cannot see it
    forget(Base)
    assert isinstance(Pool(), Mover)


def test_require_returns_the_pool_or_says_who_needs_what() -> None:
    pool = Declared()
    assert require(pool, Mover, for_="speculative decoding") is pool
    with pytest.raises(CapabilityError) as caught:
        require(Legacy(), Mover, for_="PD decode")
    assert str(caught.value) == (
        "PD decode needs Mover, Legacy is not one: width: missing; table: missing"
    )


def test_beartype_gets_the_reason() -> None:
    from beartype import beartype
    from beartype.roar import BeartypeCallHintViolation

    @beartype
    def consume(pool: Mover) -> None: ...

    legacy: Any = Legacy(table=None)
    consume(Declared())
    with pytest.raises(BeartypeCallHintViolation, match="width: missing"):
        consume(legacy)


def test_the_class_in_place_of_an_instance_is_not_one() -> None:
    assert not isinstance(Declared, Mover)


def test_subclasses_of_a_protocol_mean_what_they_say() -> None:
    class Nominal(SWACapable):
        @property
        def full_to_swa_index_mapping(self) -> Any: ...

        def register_mapping(self, full_to_swa_index_mapping: Any, /) -> None: ...

        def translate_loc_from_full_to_swa(self, kv_indices: Any, /) -> Any: ...

    class Child(Nominal):
        pass

    stub: Any = type("Stub", (SWACapable,), {})

    class Lookalike:
        full_to_swa_index_mapping = None
        register_mapping = Nominal.register_mapping
        translate_loc_from_full_to_swa = Nominal.translate_loc_from_full_to_swa

    assert isinstance(Nominal(), SWACapable)
    assert isinstance(Child(), Nominal)
    assert issubclass(Child, Nominal)
    assert isinstance(Lookalike(), SWACapable)
    assert not isinstance(Lookalike(), Nominal)
    assert not issubclass(Lookalike, Nominal)
    assert not isinstance(stub(), SWACapable)
    assert "stub" in explain(stub(), SWACapable)[0]
    Nominal.register(Lookalike)
    assert isinstance(Lookalike(), Nominal)


def test_a_protocol_is_not_told_who_it_is() -> None:
    with pytest.raises(TypeError, match="a protocol answers by members"):
        SWACapable.register(Declared)


def test_a_protocol_that_extends_another_wants_both() -> None:
    @runtime_checkable
    class Fast(Mover, Protocol):
        def burst(self) -> None: ...

    assert explain(Declared(), Fast) == ["burst: missing"]
    assert isinstance(changed(burst=_nothing)(), Fast)


def test_instances_without_a_dict_are_judged_by_their_class() -> None:
    assert explain(3, Mover) == ["move: missing", "width: missing", "table: missing"]
    assert not isinstance(3, Mover)
    assert not isinstance(None, Mover)


def test_misuse_is_a_clear_error() -> None:
    with pytest.raises(TypeError, match="arg 1 must be a class"):
        declares(3, Mover)
    with pytest.raises(TypeError, match="the second argument is a protocol class"):
        explain(3, "Mover")
