"""The last whole run of `make engine`: complete, of this sglang, and the same tokens in every run.

One model's scenarios are played again for real, with kvproto's pools.
"""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest

from tests.interop import report
from tests.interop.engine.record import PLAYED, RESULT, RUNS, faults
from tests.interop.engine.scenarios import REPLAYED, scenarios_of
from tests.interop.engine.scenarios_page import PAGE, section
from tests.interop.engine.session import Session

REQUIREMENTS = report.HERE / "requirements"


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    told: dict[str, Any] = json.loads(RESULT.read_text())
    return told


def test_every_model_has_every_scenario_in_every_run(recorded: dict[str, Any]) -> None:
    assert list(recorded) == list(PLAYED)
    for model, told in recorded.items():
        assert tuple(told["scenarios"]) == scenarios_of(model)
        assert tuple(told["started"]) == RUNS
        assert all(tuple(one["proofs"]) == RUNS for one in told["scenarios"].values())


def test_tokens_are_the_same_and_what_had_to_happen_did(recorded: dict[str, Any]) -> None:
    assert faults(recorded) == []


def test_tokens_vary(recorded: dict[str, Any]) -> None:
    """Else they would be the same whatever the pools held."""
    for told in recorded.values():
        for name, scenario in told["scenarios"].items():
            (group,) = scenario["tokens"]
            assert len({token for tokens in group["tokens"] for token in tokens}) > 8, name


def test_one_other_token_is_a_fault(recorded: dict[str, Any]) -> None:
    told = copy.deepcopy(recorded)
    (group,) = told["heads"]["scenarios"]["chunks"]["tokens"]
    other = [[token + 1 for token in tokens] for tokens in group["tokens"]]
    told["heads"]["scenarios"]["chunks"]["tokens"] = [
        group | {"runs": "abd"},
        {"runs": "c", "tokens": other},
    ]
    assert faults(told) == ["heads, chunks: tokens differ: abd and c"]


def test_what_was_run_is_what_is_pinned(recorded: dict[str, Any]) -> None:
    pins = "\n".join(file.read_text() for file in REQUIREMENTS.glob("*.txt"))
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)$", pins, flags=re.MULTILINE))
    for told in recorded.values():
        for started in told["started"].values():
            assert {name: v.partition("+")[0] for name, v in started["versions"].items()} == {
                name: pinned[name] for name in ("sglang", "torch", "transformers", "triton")
            }


def test_every_run_had_its_own_tree_and_pools(recorded: dict[str, Any]) -> None:
    for told in recorded.values():
        for run, started in told["started"].items():
            classes = [started["pool"], *started["leaves"]]
            whose = "kvproto." if run in "cd" else "sglang."
            assert all(name.startswith(whose) for name in classes), (run, classes)
            assert started["rewritten"] == (run != "a")
            assert started["validated"] == [run == "d"] * len(classes)


def test_the_page_says_what_is_recorded() -> None:
    assert section() in PAGE.read_text()


def test_scenarios_played_again_give_the_recorded_tokens(
    recorded: dict[str, Any], interop_python: str
) -> None:
    with Session(interop_python, "c", "window") as session:
        started = session.ask("start")
        again = session.ask("replay")
        session.ask("stop")
    told = recorded["window"]
    assert started | {"versions": {}} == told["started"]["c"] | {"versions": {}}
    tokens = {name: one["tokens"] for name, one in again.items()}
    assert tokens == {name: told["scenarios"][name]["tokens"][0]["tokens"] for name in REPLAYED}
    scenarios = {
        name: {"tokens": [{"runs": "abcd"}], "proofs": {"c": again[name]["proof"]}}
        for name in REPLAYED
    }
    assert faults({"window": {"scenarios": scenarios}}) == []
