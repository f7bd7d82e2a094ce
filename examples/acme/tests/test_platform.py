"""Acme's platform, found by its entry point: whole models, planned and built of Acme's parts.

These are some; `kvproto check --platform acme` builds every example model in every way.
"""

from __future__ import annotations

from typing import ClassVar

from kvproto.configurator import find_capabilities, find_platform
from kvproto.conformance.suite import PlatformConformance
from kvproto.protocols import Platform

MODELS = (
    "llama",
    "gpt_oss",
    "gemma3_text",
    "qwen3_next",
    "nemotron_h",
    "deepseek_v3",
    "deepseek_v32",
    "glm_moe_dsa_shared",
)
WAYS = ("page1", "page16-stage2", "page64-draft", "page16-rings", "page16-hnd", "real")


class TestAcmePlatform(PlatformConformance):
    specs = tuple(f"{model}-{way}" for model in MODELS for way in WAYS)
    cannot: ClassVar = {"Resumable": "nothing pauses Acme's memory"}

    def make_platform(self) -> Platform:
        return find_platform("acme")


def test_its_facts_are_known_without_a_device() -> None:
    assert find_capabilities("acme") == find_platform("acme").capabilities
