"""kvproto's answers about sglang's real pools, held against sglang's own and against known facts.

`results/capabilities.json` records the answers; here nothing is compared with our own output.
The pairs and the exceptions are those found by reading sglang 0.5.23 before the protocols were
written.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.report import section

SAME_AS_THE_GATE = [
    ("BaseSWAKVPool", "SWACapable"),
    ("SWAKVPool", "SWAComposite"),
    ("HybridLinearKVPool", "HybridComposite"),
    ("DeepSeekV4TokenToKVPool", "DSV4Compressed"),
    ("MiniMaxSparseKVPool", "SparseIndexed"),
    ("QSATokenToKVPool", "QSAIndexed"),
    ("MLATokenToKVPool", "MLALatent"),
    ("MHATokenToKVPool", "MHARows"),
    ("DSATokenToKVPool", "IndexerCapable"),
    ("MHATokenToKVPoolMXFP8", "BlockScaled"),
    ("UnifiedMHATokenToKVPool", "PageEnvelopeView"),
]
"""A class that consumers test, and the capability that takes its place."""

SAME_DOORS_AS_THE_GATE = [
    ("BaseSWAKVPool", "SWACapable"),
    ("HybridLinearKVPool", "HybridComposite"),
    ("DeepSeekV4TokenToKVPool", "DSV4Compressed"),
    ("MiniMaxSparseKVPool", "SparseIndexed"),
    ("QSATokenToKVPool", "QSAIndexed"),
    ("PageInterleaveKVPoolMixin", "PageSharded"),
    ("LayerSplitDSATokenToKVPool", "LayerSharded"),
    ("UnifiedMHATokenToKVPool", "PageEnvelopeView"),
]
"""The same by methods alone, for classes: it reaches those that cannot be constructed here."""

DOORS_ALSO_ON = {
    "BlockScaled": {"SWAKVPool", "UnifiedSWAKVPool", "UnifiedDraftSWAKVPool"},
    "HiSparse": {
        "HiSparseMHAMainPool",
        "MiniMaxSparseKVPool",
        "MiniMaxM3Nvfp4KVPool",
        "NPUMiniMaxSparseKVPool",
    },
    "LayerIdReporting": {"NPUMLATokenToKVPool"},
    "PageEnvelope": set[str](),
}
"""Wrappers that forward the doors whatever their leaf is, and leaves that no gate asks for."""

OWNERS = {
    "BlockScaled": {"MHATokenToKVPoolMXFP8"},
    "HiSparse": {"HiSparseDSATokenToKVPool", "HiSparseC4DevicePool"},
    "LayerIdReporting": {"HybridLinearKVPool", "MiniMaxM3Nvfp4KVPool"},
    "PageEnvelope": {"UnifiedMHATokenToKVPool", "UnifiedMLATokenToKVPool"},
}


ONLY_A_STUB = {
    "HostCopyable": {
        "MHATokenToKOnlyPool",
        "HiSparseMHAMainPool",
        "HiSparseDSATokenToKVPool",
        "HiSparseC4DevicePool",
        "MiniMaxSparseKVPool",
        "DeepSeekV4SingleKVPool",
        "DeepSeekV4IndexerPool",
        "DeepSeekV4TokenToKVPool",
    },
    "HostMirrorable": {
        "MHATokenToKOnlyPool",
        "SWAKVPool",
        "UnifiedSWAKVPool",
        "HybridLinearKVPool",
        "QSATokenToKVPool",
        "UnifiedHybridLinearKVPool",
        "MiniMaxSparseKVPool",
        "MiniMaxM3Nvfp4KVPool",
    },
    "Movable": {"MiniMaxSparseKVPool", "MiniMaxM3Nvfp4KVPool", "UnifiedSWAKVPool"},
}
"""Classes whose method is a bare raise: structure says yes, only the kit can say no."""

REPLACED_STORAGE = {
    "Transferable": {"NoOpMHATokenToKVPool", "MHATokenToKVPoolFP4"},
    "Movable": {"NPUMLATokenToKVPool"},
}
"""Classes that inherit a method and not the tensors it reads."""


@pytest.mark.parametrize(("gate", "capability"), SAME_AS_THE_GATE)
def test_instances_answer_as_isinstance_does(
    answers: dict[str, Any], gate: str, capability: str
) -> None:
    said = _satisfies(answers)
    ours = {name for name, names in said.items() if capability in names}
    theirs = {name for name, names in section(answers, "gates").items() if gate in names}
    assert theirs, f"no {gate} was constructed"
    assert ours & set(section(answers, "gates")) == theirs


@pytest.mark.parametrize(("gate", "capability"), SAME_DOORS_AS_THE_GATE)
def test_the_doors_of_classes_answer_as_issubclass_does(
    answers: dict[str, Any], gate: str, capability: str
) -> None:
    theirs = {cls for cls, names in section(answers, "bases").items() if gate in names}
    assert theirs
    assert set(section(answers, "doors")[capability]) == theirs


@pytest.mark.parametrize("capability", sorted(OWNERS))
def test_doors_alone_match_forwarding_wrappers_too(
    answers: dict[str, Any], capability: str
) -> None:
    bases = section(answers, "bases")
    trees = {cls for cls, names in bases.items() if OWNERS[capability] & set(names)}
    assert set(section(answers, "doors")[capability]) == trees | DOORS_ALSO_ON[capability]


def test_no_class_answers_for_what_only_instances_assign(answers: dict[str, Any]) -> None:
    """Unchanged pools are leaves although their members appear in `__init__` only."""
    found = section(answers, "capabilities")
    said = _satisfies(answers)
    for name in ("MHATokenToKVPool", "MLATokenToKVPool", "DSATokenToKVPool"):
        assert {"KVLeaf", "KVPool", "Transferable"} <= set(said[f"{name} (bf16)"])
        assert "KVLeaf" not in found["classes"][name]


def test_precision_stage_and_page_change_no_answer(answers: dict[str, Any]) -> None:
    said = _satisfies(answers)
    mha = {str(said[f"MHATokenToKVPool ({how})"]) for how in ("bf16", "fp8", "stage 8..9")}
    swa = {str(said[f"SWAKVPool (MHA, page {page})"]) for page in (1, 4)}
    assert len(mha) == len(swa) == 1


def test_a_composite_is_no_leaf_and_an_indexer_only_where_it_owns_rows(
    answers: dict[str, Any],
) -> None:
    said = _satisfies(answers)
    assert "IndexerCapable" in said["DSATokenToKVPool (bf16)"]
    for name in ("HybridLinearKVPool (MHA)", "HybridLinearKVPool (DSA)", "SWAKVPool (DSA and MLA)"):
        assert not {"IndexerCapable", "KVLeaf", "MLALatent", "MHARows"} & set(said[name])


def test_a_missing_keyword_is_seen(answers: dict[str, Any]) -> None:
    """Three classes lack a keyword that every allocator passes to `get_cpu_copy`."""
    without = {"MiniMaxM3Nvfp4IndexKPool", "PageInterleaveDSATokenToKVPool", "UnifiedDraftKVPool"}
    every = set(section(answers, "bases"))
    assert every - set(section(answers, "doors")["HostCopyable"]) == without


def test_scales_are_taken_by_rows_of_keys_and_values_only(answers: dict[str, Any]) -> None:
    """Latent leaves have another fifth parameter, or none."""
    said, gates = _satisfies(answers), section(answers, "gates")
    for name, bases in gates.items():
        if "MLATokenToKVPool" in bases:
            assert "ScaledWrite" not in said[name], name
        if "MHATokenToKVPool" in bases or "SWAKVPool" in bases:
            assert "ScaledWrite" in said[name], name


def test_a_member_that_arrives_late_is_seen_when_it_does(answers: dict[str, Any]) -> None:
    late = section(answers, "late")
    assert len(late) == 2
    assert all(answer == [False, True] for answer in late.values())


def test_adopting_a_pool_makes_its_answers_those_of_the_class(answers: dict[str, Any]) -> None:
    said, adopted = _satisfies(answers), section(answers, "adopted")
    assert adopted == {name: said[name] for name in adopted}


@pytest.mark.parametrize(
    ("error", "known"),
    [("NotImplementedError", ONLY_A_STUB), ("AttributeError", REPLACED_STORAGE)],
)
def test_what_structure_cannot_see_is_what_was_known(
    answers: dict[str, Any], error: str, known: dict[str, set[str]]
) -> None:
    for capability, classes in known.items():
        raised = section(answers, "advertised")[capability]
        seen = {name.partition(" (")[0] for name, why in raised.items() if why.startswith(error)}
        assert seen == classes, capability


def test_what_is_no_pool_has_its_protocol_too(answers: dict[str, Any]) -> None:
    said = _satisfies(answers)
    expected = {
        "TokenToKVPoolAllocator": "SlotAllocator",
        "PagedTokenToKVPoolAllocator": "PagedAllocator",
        "SWATokenToKVPoolAllocator": "SWAAllocator",
        "MambaSlotAllocator": "StateSlotAllocator",
        "MambaPool": "StatePool",
        "ReqToTokenPool": "RequestPool",
        "HybridReqToTokenPool": "StateRequestPool",
        "RadixAttention": "AttentionLayer",
        "LayerDoneCounter": "LayerTransferCounter",
        "KVWriteLoc": "WriteLocation",
    }
    for name, protocol in expected.items():
        assert protocol in said[name], name
        assert "KVPool" not in said[name], name


def _satisfies(answers: dict[str, Any]) -> dict[str, list[str]]:
    instances = section(answers, "capabilities")["instances"]
    return {name: answer["satisfies"] for name, answer in instances.items()}
