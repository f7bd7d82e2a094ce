"""The swap: what changes of a pool, what may not, and what is refused."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import weakref
from abc import ABC
from functools import partialmethod
from typing import Any, no_type_check

import pytest
import torch

from kvproto.debug import CannotValidate, is_validated, validate
from kvproto.debug._contract import all_protocols, contracts_of
from kvproto.debug._rules import ARGUMENT_RULES, RESULT_RULES
from kvproto.protocols import KVLeaf, SWACapable, Transferable, adopt, explain, supports
from tests.debug.toy import ToyPool, locations, refusal


def test_the_same_object_of_a_class_of_the_same_name() -> None:
    pool = ToyPool()
    before = repr(pool)
    assert validate(pool) is pool
    assert is_validated(pool)
    assert not is_validated(ToyPool())
    assert isinstance(pool, ToyPool)
    assert repr(pool) == before
    assert type(pool).__qualname__ == "ToyPool"
    assert type(pool).__module__ == ToyPool.__module__
    assert type(pool).__doc__ == ToyPool.__doc__


def test_once_per_class_and_twice_is_once() -> None:
    pool = validate(ToyPool())
    generated = type(pool)
    assert type(validate(pool)) is generated
    assert type(validate(ToyPool())) is generated
    assert type(ToyPool()) is ToyPool


def test_every_method_of_every_capability_is_wrapped() -> None:
    pool = validate(ToyPool())
    methods = {
        contract.name
        for protocol in all_protocols()
        if supports(pool, protocol)
        for contract in contracts_of(protocol)
        if contract.signature is not None
    }
    assert len(methods) >= 12
    for name in methods:
        assert getattr(type(pool), name) is not getattr(ToyPool, name)
        assert inspect.signature(getattr(pool, name)) == inspect.signature(getattr(ToyPool(), name))


def test_every_capability_is_answered_and_explained_as_before() -> None:
    plain, pool = ToyPool(), validate(ToyPool())
    for protocol in all_protocols():
        assert isinstance(pool, protocol) == isinstance(plain, protocol)
        assert supports(pool, protocol) == supports(plain, protocol)
        assert explain(pool, protocol) == explain(plain, protocol)
        assert explain(type(pool), protocol) == explain(ToyPool, protocol)


def test_an_adopted_class_stays_adopted() -> None:
    class Adopted(ToyPool):
        pass

    adopt(Adopted())
    assert explain(Adopted, KVLeaf) == []
    assert explain(type(validate(Adopted())), KVLeaf) == []


def test_instances_of_one_class_may_differ() -> None:
    rich, poor = ToyPool(), ToyPool()
    del poor.full_to_swa_index_mapping
    for pool in (rich, poor):
        validate(pool)
    assert isinstance(rich, SWACapable)
    assert not isinstance(poor, SWACapable)
    assert "kv_indices" in refusal(rich.translate_loc_from_full_to_swa, 3)
    assert "translate_loc_from_full_to_swa" not in type(poor).__dict__


def test_a_nominal_implementation() -> None:
    class Nominal(Transferable):
        @property
        def page_size(self) -> int:
            return 2

        def get_contiguous_buf_infos(self) -> Any:
            return [[], [], []]

        def maybe_get_custom_mem_pool(self) -> None:
            return None

    pool = validate(Nominal())
    assert isinstance(pool, Transferable)
    assert "expected tuple" in refusal(pool.get_contiguous_buf_infos)


class Slotted:
    __slots__ = ("layer_id",)

    def __init__(self) -> None:
        self.layer_id = 0


def test_a_class_with_slots() -> None:
    pool = validate(Slotted())
    assert is_validated(pool)
    with pytest.raises(AttributeError):
        pool.unknown = 1  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    for version in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(pool, version)).layer_id == 0


class Reducing(ToyPool):
    def __reduce__(self) -> Any:
        return type(self), (), {"size": self.size}


@pytest.mark.parametrize("cls", [ToyPool, Reducing])
@pytest.mark.parametrize("version", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_pool_comes_back_plain(cls: type[ToyPool], version: int) -> None:
    pool = validate(cls())
    for twin in (pickle.loads(pickle.dumps(pool, version)), copy.copy(pool), copy.deepcopy(pool)):
        assert type(twin) is cls
        assert twin.size == pool.size


def test_a_torch_module() -> None:
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer_id = 3

    assert is_validated(validate(Module()))


def test_methods_of_other_kinds() -> None:
    class Clear:
        def __call__(self, tgt_loc: Any, src_loc: Any) -> None: ...

    class Odd(ToyPool):
        move_kv_cache: Any = Clear()
        get_value_buffer: Any = partialmethod(ToyPool.get_key_buffer)

    pool = validate(Odd())
    pool.move_kv_cache(locations(2), locations(3))
    assert "tgt_loc" in refusal(pool.move_kv_cache, None, locations(3))
    assert "layer_id: expected int" in refusal(pool.get_value_buffer, None)


def test_a_member_replaced_on_the_class_later_stays_checked() -> None:
    class Patched(ToyPool):
        pass

    def replacement(_: object, __: object) -> str:
        return "patched"

    pool = validate(Patched())
    setattr(Patched, "get_cpu_copy", replacement)  # noqa: B010
    assert pool.get_cpu_copy(locations(2)) == "patched"
    assert "indices" in refusal(pool.get_cpu_copy, None)


def test_no_type_check_does_not_switch_a_check_off() -> None:
    class Unchecked(ToyPool):
        @no_type_check
        def get_key_buffer(self, layer_id: int) -> Any:
            return super().get_key_buffer(layer_id)

    pool: Any = validate(Unchecked())
    assert "layer_id" in refusal(pool.get_key_buffer, "0")


def test_an_instance_that_shadows_a_method_is_refused() -> None:
    pool: Any = ToyPool()
    pool.get_key_buffer = pool.get_value_buffer
    with pytest.raises(CannotValidate, match="get_key_buffer was replaced on the instance"):
        validate(pool)
    assert type(pool) is ToyPool


def test_what_is_no_pool_is_refused() -> None:
    with pytest.raises(CannotValidate, match=r"validate\(object\): it has no capability"):
        validate(object())


def test_a_class_that_refuses_subclasses_is_refused() -> None:
    class Final(ToyPool):
        def __init_subclass__(cls, *, vendor: str) -> None: ...

    with pytest.raises(CannotValidate, match=r"validate\(Final\): the class cannot be subclassed"):
        validate(Final())


def test_an_instance_that_refuses_another_class_is_refused() -> None:
    def disguise(_: object) -> type:
        return ToyPool

    proxy = type("Proxy", (ToyPool,), {"__class__": property(disguise)})
    with pytest.raises(CannotValidate, match=r"validate\(Proxy\): its instances refuse"):
        validate(proxy())


def test_generated_classes_die_with_their_pools() -> None:
    class Local(ToyPool, ABC):
        pass

    pool = validate(Local())
    plain, generated = weakref.ref(Local), weakref.ref(type(pool))
    del Local, pool
    gc.collect()
    gc.collect()
    assert plain() is None
    assert generated() is None


def test_every_rule_belongs_to_a_member_of_a_protocol() -> None:
    members = {
        f"{contract.owner}.{contract.name}"
        for protocol in all_protocols()
        for contract in contracts_of(protocol)
    }
    assert set(ARGUMENT_RULES) | set(RESULT_RULES) <= members
