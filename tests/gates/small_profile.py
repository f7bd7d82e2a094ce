"""A small code base, `engine`, for tests of one thing at a time."""

from __future__ import annotations

from pathlib import Path

from kvproto.gates import Gate, Profile, gates_of, load_profile

__all__ = ["TOML", "profile_of", "scanned"]

TOML = """
package = "engine"
covers = "engine 1"
operands = ["pool", "get_pool", "allocator"]

[[not_a_pool]]
file = "arena.py"
operand = "self.allocator"
why = "of host memory"

[classes.Pair]
capability = "SWAComposite"

[classes.Heads]
capability = "MHARows"

[classes.Latent]
asks = "is a token one latent row?"
traits = { kind = ["mla", "dsa"] }

[classes.Spec]
asks = "which part of the buffer?"
person = "plain data"

[exact.Heads]
asks = "plain rows?"
capability = "MHARows"
traits = { layout = "nhd" }

[attributes.full_kv_pool]
member_of = "SWAComposite"

[attributes.mem_usage]
member_of = "SizeReporting"

[attributes.end_layer]
member_of = "KVLeaf"
differs = "host pools have it too"

[[override]]
file = "engine/special.py"
scope = "Consumer.ask"
classes = ["Pair"]
capability = "SWACapable"
why = "only translates"
"""


def profile_of(folder: Path, text: str = TOML) -> Profile:
    """The profile, by way of a file."""
    file = folder / "engine.toml"
    file.write_text(text)
    return load_profile(str(file))


def scanned(source: str, profile: Profile, file: str = "engine/user.py") -> list[Gate]:
    """The gates of a module that has imported every class of the profile."""
    imports = "from engine.pools import " + ", ".join(profile.classes) + "\n"
    return gates_of(imports + source, file, profile)
