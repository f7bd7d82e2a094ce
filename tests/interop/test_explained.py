"""Each law that a real pool breaks has a cause, and no cause explains what is not broken."""

from __future__ import annotations

from collections import Counter

from tests.interop.laws_page import PAGE, rendered
from tests.interop.verdicts import causes, recorded, red


def test_every_red_row_has_a_cause() -> None:
    explained = {pair for cause in causes() for pair in cause.pairs()}
    assert red(recorded()) - explained == set()


def test_no_cause_explains_what_holds() -> None:
    broken = red(recorded())
    for cause in causes():
        assert set(cause.pairs()) <= broken, cause.sentence


def test_causes_are_sentences_and_told_once() -> None:
    sentences = Counter(cause.sentence for cause in causes())
    assert max(sentences.values()) == 1
    assert all(len(each.split()) > 5 and each.endswith(".") for each in sentences)


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == rendered(), "python -m tests.interop.laws_page --write"
