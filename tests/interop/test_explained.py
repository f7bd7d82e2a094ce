"""Each law that a real pool breaks has a cause, and no cause explains what is not broken."""

from __future__ import annotations

from collections import Counter

from tests.interop.laws_page import PAGE, rendered
from tests.interop.verdicts import causes, recorded, red, stopped


def test_every_red_row_has_a_cause() -> None:
    explained = {pair for cause in causes() for pair in cause.pairs()}
    assert red(recorded()) - explained == set()


def test_no_cause_explains_what_holds() -> None:
    broken = red(recorded())
    for cause in causes():
        assert set(cause.pairs()) <= broken, cause.sentence


def test_the_layer_that_is_read_only_is_the_cause_where_it_is_every_finding_and_only_there() -> (
    None
):
    frozen = [cause for cause in causes() if "FrozenInstanceError" in cause.sentence]
    assert len(frozen) == 1
    found = stopped(recorded(), "FrozenInstanceError")
    assert found
    assert set(frozen[0].pairs()) == found
    others = {pair for cause in causes() if cause not in frozen for pair in cause.pairs()}
    assert not others & found


def test_no_row_of_the_read_only_layer_has_another_finding() -> None:
    assert _with("FrozenInstanceError") == stopped(recorded(), "FrozenInstanceError")


def test_a_row_that_an_assertion_stops_has_a_cause_that_asserts() -> None:
    asserting = [cause for cause in causes() if "asserts" in cause.sentence]
    explained = {pair for cause in asserting for pair in cause.pairs()}
    assert stopped(recorded(), "AssertionError") <= explained


def test_a_row_is_stopped_by_one_exception_of_the_write_in_every_finding() -> None:
    write, read = "failed: set_kv_buffer(...): got E: x", "failed: get_kv_buffer(4): got E: x"
    laws = {
        "stopped": {"a": write, "b": "passed"},
        "once": {"a": write, "b": read},
        "another": {"a": write.replace("E:", "F:")},
        "kept": {"a": "passed"},
    }
    assert stopped({"pool": laws}, "E") == {("pool", "stopped")}


def _with(text: str) -> set[tuple[str, str]]:
    """Pool and law, where some finding has this text."""
    return {
        (pool, law)
        for pool, laws in recorded().items()
        for law, specs in laws.items()
        if any(text in verdict for verdict in specs.values())
    }


def test_causes_are_sentences_and_told_once() -> None:
    sentences = Counter(cause.sentence for cause in causes())
    assert max(sentences.values()) == 1
    assert all(len(each.split()) > 5 and each.endswith(".") for each in sentences)


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == rendered(), "python -m tests.interop.laws_page --write"
