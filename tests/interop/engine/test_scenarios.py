"""The last whole run of `make engine`: complete, of this sglang, and the same tokens in every run.

One setting's scenarios are played again for real, with kvproto's pools; which, the code says.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.interop import report
from tests.interop.engine.faults import AT_FAULT
from tests.interop.engine.proofs import disproved
from tests.interop.engine.record import RESULT, RUNS, faults
from tests.interop.engine.scenarios import scenarios_of
from tests.interop.engine.scenarios_page import PAGE, section
from tests.interop.engine.session import Session
from tests.interop.engine.settings import SETTINGS
from tests.interop.engine.trees import Run, digest

NOTE = "note"
"""What `tests/conftest.py` prints at the end of a run, whether it passed or not."""
REQUIREMENTS = report.HERE / "requirements"


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    told: dict[str, Any] = json.loads(RESULT.read_text())
    return told


def test_every_setting_has_every_scenario_in_every_run(recorded: dict[str, Any]) -> None:
    assert list(recorded) == list(SETTINGS)
    for name, told in recorded.items():
        assert tuple(told["scenarios"]) == scenarios_of(SETTINGS[name])
        assert tuple(told["started"]) == RUNS
        assert all(tuple(one["proofs"]) == RUNS for one in told["scenarios"].values())


def test_states_are_counted_where_a_model_has_some(recorded: dict[str, Any]) -> None:
    for name, told in recorded.items():
        proofs = [proof for one in told["scenarios"].values() for proof in one["proofs"].values()]
        counted = SETTINGS[name].model == "hybrid"
        assert all(("states in use" in proof) == counted for proof in proofs), name
        assert all(("states cached before a flush" in proof) == counted for proof in proofs), name


def test_tokens_are_the_same_and_what_had_to_happen_did(recorded: dict[str, Any]) -> None:
    assert faults(recorded) == []


def test_a_fault_that_was_not_noticed_is_a_fault(recorded: dict[str, Any]) -> None:
    for name in AT_FAULT:
        told = copy.deepcopy(recorded)
        told["window"]["at fault"][name] = []
        assert faults(told) == [f"window, {name}: a fault of the pool was not noticed"]


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


def test_every_run_had_its_own_tree_and_parts(recorded: dict[str, Any]) -> None:
    for name, told in recorded.items():
        for run, started in told["started"].items():
            parts = {name: path.partition(".")[0] for name, path in started["parts"].items()}
            assert set(parts.values()) == ({"kvproto"} if run in "cd" else {"sglang"}), (name, run)
            assert started["rewritten"] == (run != "a")
            assert set(started["validated"]) == (set(parts) if run == "d" else set()), (name, run)


def test_the_page_says_what_is_recorded() -> None:
    assert section() in PAGE.read_text()


def test_scenarios_played_again_give_the_recorded_tokens(
    recorded: dict[str, Any],
    interop_python: str,
    record_property: Callable[[str, object], None],
) -> None:
    code = digest(interop_python)
    name, run, scenarios = _chosen(code)
    if code != recorded[name]["code"]:
        record_property(NOTE, "docs/engine.md was recorded with other code: make engine")
    with Session(interop_python, run, name) as session:
        started = session.ask("start")
        again = session.ask("scenarios " + " ".join(scenarios))
        session.ask("stop")
    told = recorded[name]
    assert started | {"versions": {}} == told["started"][run] | {"versions": {}}
    assert list(again) == scenarios
    for each, one in again.items():
        assert one["tokens"] == told["scenarios"][each]["tokens"][0]["tokens"], (name, run, each)
        assert disproved(each, one["proof"]) == [], (name, run, each)


def _chosen(code: str) -> tuple[str, Run, list[str]]:
    """A setting, one of the runs with our pools, and `pressure` or what is not: the same for the
    same code, so that nothing fails by the day.
    """
    number = int(code, 16)
    name = list(SETTINGS)[number % len(SETTINGS)]
    run: Run = "c" if number // len(SETTINGS) % 2 else "d"
    others = [each for each in scenarios_of(SETTINGS[name]) if each != "pressure"]
    return name, run, ["pressure"] if number // (2 * len(SETTINGS)) % 2 else others


def test_the_choice_leaves_nothing_out() -> None:
    chosen = {
        (name, run, tuple(played))
        for name, run, played in map(_chosen, map(hex, range(4 * len(SETTINGS))))
    }
    assert len(chosen) == 4 * len(SETTINGS)
