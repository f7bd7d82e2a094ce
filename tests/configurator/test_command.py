"""`kvproto plan`, as somebody types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kvproto import cli
from kvproto.configurator import example_config, example_names, plan_from_json
from kvproto.protocols import MHALeafRequest


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = cli.main(["plan", *arguments])
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.mark.parametrize("name", [n for n in example_names() if n != "deepseek_v4"])
def test_every_example_is_planned(capsys: pytest.CaptureFixture[str], name: str) -> None:
    status, out, _ = run(capsys, name, "--page-size", "64", "--context-len", "4096")
    assert status == 0
    assert "72.00 GiB for caches" in out
    assert "requests at once, limited by" in out


def test_a_file_is_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(example_config("llama")))
    status, out, _ = run(capsys, str(config), "--tp", "8", "--kv-dtype", "fp8_e4m3")
    assert status == 0
    # 32 layers, 4 heads of a rank, 128 + 128 bytes.
    assert "32 layers, 4 heads of 128, float8_e4m3fn (fp8_scaled): 32.00 KiB a token" in out


def test_where_the_core_may_stand_in_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "mistral", "--page-size", "64")
    full, window, allocator = (line for line in out.splitlines()[2:5])
    assert "0 layers" in full
    assert full.endswith("(fallback: core)")
    assert "fallback" not in window
    assert allocator.endswith("pages of 64 (fallback: core)")
    _, out, _ = run(capsys, "mistral", "--page-size", "64", "--allocator-fallback", "none")
    assert out.count("fallback") == 1


def test_a_plan_without_rows(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["qwen2", "--rows", "none", "--no-prefix-cache", "--chunked-prefill", "0"]
    status, out, _ = run(capsys, *asked, "--max-running", "4", "--max-tokens", "6")
    assert status == 0
    assert "32 layers that keep no rows, by the core" in out
    assert "3 requests at once, limited by tokens: raise --max-tokens" in out


def test_a_plan_with_rings(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["gpt_oss", "--window-storage", "ring", "--max-running", "64", "--page-size", "16"]
    status, out, _ = run(capsys, *asked)
    assert status == 0
    assert "window rings" in out
    allocator = next(line for line in out.replace("\n ", " ").splitlines() if "allocator" in line)
    assert "pages of 16, a ring of 128 window slots for each request" in allocator


def test_a_plan_of_a_device_subset(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["deepseek_v32", "--host-ratio", "2", "--page-size", "64", "--max-tokens", "6400"]
    status, out, _ = run(capsys, *asked, "--no-prefix-cache")
    assert status == 0
    # 61 layers of 576 two-byte numbers, and the 132 bytes of two keys.
    assert f": {61 * (1152 + 264) / 1024:.2f} KiB" in out
    assert "ids for 200 pages of 64, 100 pages of 64 on the device (fallback:" in out


def _row(out: str, name: str) -> str:
    lines = [line for line in out.splitlines() if line.startswith(name)]
    return lines[0].removeprefix(name).strip() if lines else ""


@pytest.mark.parametrize(
    ("asked", "contexts"),
    [
        # Two contexts and a page.
        ("llama --max-tokens 8256", "2"),
        ("llama --max-tokens 4032", "less than one"),
        # Two ranks have a half of each request's tokens.
        ("llama --max-tokens 8192 --tp 2 --dcp 2", "4"),
        # Ids of three tokens to a row of the device.
        ("deepseek_v32 --max-tokens 8192 --host-ratio 3 --no-prefix-cache", "6"),
        ("llama --max-tokens 8192 --tp 4 --dp-attention 2", "2 a group"),
        # Windows alone hold no context.
        ("mistral", ""),
    ],
)
def test_how_many_of_the_longest_contexts_fit(
    capsys: pytest.CaptureFixture[str], asked: str, contexts: str
) -> None:
    options = [*asked.split(), "--page-size", "64", "--context-len", "4096"]
    status, out, _ = run(capsys, *options)
    assert status == 0
    assert _row(out, "longest contexts") == contexts


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            ["mamba2", "--context-len", "4096"],
            "limited by state slots: give more --memory, or --st",
        ),
        (
            ["qwen3_next", "--state-slots", "9"],
            "3 requests at once, limited by stated slots: raise",
        ),
        (["qwen3_next"], "limited by state slots: raise --state-ratio or --state-slots"),
        (
            ["llama", "--tp", "4", "--dp-attention", "2", "--max-running", "16"],
            "8 requests at once in each of 2 attention groups, limited by",
        ),
    ],
)
def test_the_knob_that_is_recommended_does_something(
    capsys: pytest.CaptureFixture[str], asked: list[str], said: str
) -> None:
    status, out, _ = run(capsys, *asked)
    assert status == 0
    assert said in " ".join(out.split())


def test_json_is_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(
        capsys, "gpt_oss", "--json", "--memory", "40 GiB", "--static-fraction", "1"
    )
    assert status == 0
    assert plan_from_json(out).cache_bytes == 40 << 30


def test_options_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "llama", "--compare", "kv-dtype=fp8_e4m3", "--compare", "tp=2")
    assert status == 0
    assert "512.00 KiB" in out
    assert out.count("256.00 KiB") == 2


def test_plans_side_by_side_are_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["--compare", "kv-dtype=fp8_e4m3,tp=2", "--compare", "no-prefix-cache=yes"]
    status, out, _ = run(capsys, "llama", "--json", *changes)
    assert status == 0
    found = json.loads(out)
    assert list(found) == ["as given", "kv-dtype=fp8_e4m3,tp=2", "no-prefix-cache=yes"]
    plans = [plan_from_json(json.dumps(each)) for each in found.values()]
    assert [each.bytes_per_token for each in plans] == [524288, 131072, 524288]


def test_flags_can_be_compared(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "gpt_oss", "--no-window-pools", "--compare", "no-window-pools=no")
    assert status == 0
    # 36 layers of 8 heads of 64 + 64, two bytes: all of the whole context, or half of them.
    assert _row(out, "bytes a token").split()[:1] == ["72.00"]
    assert len(_row(out, "window tokens").split()) == 2
    status, _, err = run(capsys, "gpt_oss", "--compare", "no-window-pools=1")
    assert status == 2
    assert "'1' is no value of 'no-window-pools'" in err


def test_columns_can_be_told_apart_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    changes = [f"kv-dtype=fp8_e4m3,page-size=64,tp={tp}" for tp in (1, 2, 4, 8)]
    status, out, _ = run(capsys, "llama", *(w for c in changes for w in ("--compare", c)))
    assert status == 0
    head = out[: out.index("bytes a")]
    assert "…" not in out
    for tp in (1, 2, 4, 8):
        assert f"={tp}" in head


def test_what_a_comparison_cannot_plan_is_said_of_its_own_memory(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, _, err = run(capsys, "llama", "--compare", "memory=1MiB")
    assert status == 2
    assert "--memory='1MiB': not one page" in err


@pytest.mark.parametrize(
    ("name", "idle", "said"),
    [
        (
            "llama",
            "--window-ratio 0.5",
            "note: --window-ratio: no layer of this model has a window",
        ),
        (
            "llama",
            "--window-storage ring",
            "note: --window-storage: no layer of this model has a w",
        ),
        ("llama", "--no-window-pools", "note: --no-window-pools: no layer of this model has a wi"),
        ("gpt_oss", "--state-slots 9", "note: --state-slots: no layer of this model keeps recurre"),
        ("gpt_oss", "--state-ratio 2", "note: --state-ratio: no layer of this model keeps recurre"),
        ("llama", "--dsa-rows raw", "note: --dsa-rows: no layer of this model has index keys be"),
        (
            "llama",
            "--latent-layout latent_split",
            "note: --latent-layout: no layer of this model has latent rows",
        ),
        ("llama", "--index-rows cache", "note: --index-rows: no layer of this model has index ro"),
        ("gpt_oss", "--window-ratio 0.5", ""),
        ("qwen3_next", "--state-ratio 2", ""),
    ],
)
def test_an_option_that_decides_nothing_is_noted(
    capsys: pytest.CaptureFixture[str], name: str, idle: str, said: str
) -> None:
    _, out, _ = run(capsys, name, *idle.split())
    assert said in " ".join(out.split())
    assert ("note: " in out) is bool(said)
    given = run(capsys, name, "--json", *idle.split())
    assert (given == run(capsys, name, "--json")) is bool(said)


def test_what_is_reserved_is_not_for_caches(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "llama", "--reserved", "8GiB", "--weights", "16GiB")
    assert status == 0
    assert "48.00 GiB for caches" in out


def _plain(out: str) -> str:
    """Without the lines that draw a tree, which is wrapped to the terminal's width."""
    return " ".join(out.replace("│", " ").split())


def test_a_draft_has_a_config_of_its_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "draft.json"
    config.write_text(json.dumps(example_config("llama") | {"num_hidden_layers": 1}))
    options = ["--page-size", "64", "--draft-tokens", "4", "--draft-dtype", "fp8_e4m3"]
    status, out, _ = run(capsys, "deepseek_v3", *options, "--draft-config", str(config))
    assert status == 0
    # One layer of 32 heads, 128 + 128 bytes.
    assert "draft: 1 layers, 32 heads of 128, float8_e4m3fn (fp8_scaled): 8.00 KiB" in _plain(out)
    status, out, _ = run(
        capsys, "gemma2", *options, "--draft-config", "gpt_oss", "--draft-layers", "2"
    )
    assert status == 0
    assert "draft: window pair" in out
    assert "window, in the model's slots: 1 layers, 8 heads of 64" in _plain(out)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such-file.json"], "no file 'no-such-file.json', and no example of that name"),
        (["llama", "--memory", "lots"], "--memory='lots': is no amount of memory; write"),
        (["llama", "--memory", "1MiB"], "--memory='1MiB': not one page of 1 tokens fits in 943719"),
        (["llama", "--weights", "79GiB"], "nothing is left for caches; give more than 0.988"),
        (["llama", "--tp", "0"], "--tp=0: ranks are counted from 1"),
        (["llama", "--dp-attention", "2"], "give a divisor of --tp"),
        (
            ["gpt_oss", "--tp", "8", "--dcp", "2"],
            "--dcp=2: allocators of window pairs number the tokens of one rank; give 1, or --no-",
        ),
        (["llama", "--pp", "2", "--pp-rank", "2"], "--pp-rank=2: there are 2 stages"),
        (["llama", "--compare", "speed=9"], "no option 'speed'; there are"),
        (["llama", "--compare", "tp=many"], "'many' is no value of 'tp'"),
        (["qwen3_next", "--state-ratio", "inf"], "--state-ratio=inf: it is a finite number"),
        (["qwen3_next", "--state-ratio", "nan"], "--state-ratio=nan: it is a finite number"),
        (["llama", "--memory", "1" + "0" * 400], "is no amount of memory; write"),
        (["llama", "--chunked-prefill", "-1"], "give at least 1, or --chunked-prefill 0 for whole"),
        (["llama", "--window-ratio", "nan"], "--window-ratio=nan"),
        (["lfm2", "--kv-dtype", "mxfp8"], "--kv-dtype='mxfp8': 32 elements of a row share a scale"),
        (["llama", "--platform", "abacus"], "plans are made for cpu, cuda"),
        (["llama", "--rows", "none"], "--rows='none': prefix_cache=True: it lends"),
        (
            ["llama", "--rows", "none", "--no-prefix-cache"],
            "a chunk reads the rows of those before; give --chunked-prefill 0",
        ),
        (["gpt_oss", "--window-storage", "ring"], "--max-running=None: each request has a ring"),
        (["llama", "--draft-config", "qwen3"], "drafts nothing without --draft-tokens N"),
        (["llama", "--draft-layers", "2"], "--draft-layers 2 drafts nothing without --draft-tok"),
        (["llama", "--draft-kind", "eagle"], "--draft-kind eagle drafts nothing without"),
        (["llama", "--draft-tp", "1"], "--draft-tp 1 drafts nothing without"),
        (["llama", "--draft-rows", "own"], "--draft-rows own drafts nothing without"),
        (["llama", "--draft-dtype", "auto"], "--draft-dtype auto drafts nothing without"),
        (
            ["llama", "--draft-kind", "ngram", "--draft-tokens", "4", "--draft-config", "qwen3"],
            "--draft-config qwen3 is of a draft's cache, and --draft-kind ngram has none",
        ),
        (["llama", "--rows", "none", "--role", "decode"], "--rows='none': role='decode': each st"),
        (["llama", "--draft-config", "qwen3", "--draft-tokens", "0"], "--draft-tokens=0: it is a"),
        (["deepseek_v3", "--kv-sharding", "pages"], "platform 'cpu' offers no page_shards"),
        (["deepseek_v32", "--host-ratio", "2"], "--host-ratio=2: a prefix cache lends rows that"),
        (["deepseek_v4"], "offers no compressed_pool"),
        (["mamba2"], "--context-len=None: the config of 'mamba2' states none; give one"),
    ],
)
def test_bad_input_is_one_line_that_says_what_to_do(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_platform_is_asked_for_its_facts_not_for_its_device(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, out, _ = run(capsys, "deepseek_v4", "--platform", "cuda")
    assert (status, out) == (2, "")
    status, out, _ = run(capsys, "llama", "--platform", "cuda", "--layout", "hnd", "--json")
    assert status == 0
    pool = plan_from_json(out).pool
    assert isinstance(pool, MHALeafRequest)
    assert pool.layout == "hnd"


def test_a_config_that_is_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, text in {"a": "{", "b": "[1]"}.items():
        (tmp_path / name).write_text(text)
        status, _, err = run(capsys, str(tmp_path / name))
        assert status == 2
        assert err.startswith(f"kvproto: {tmp_path / name} ")


def test_torch_is_not_imported() -> None:
    code = (
        "import sys; from kvproto.cli import main; "
        "assert main(['plan', 'qwen3_next', '--page-size', '64']) == 0; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)
