"""Finds where code asks who made a KV-cache pool, and says what to ask instead."""

from .answers import AllOf, Answer, AnyOf, ByClass, Member, Near, Person, Verdict
from .gate import Gate, GateKind
from .module_gates import gates_of
from .profile import Profile
from .profile_file import load_profile
from .scan import Scan, scan

__all__ = [
    "AllOf",
    "Answer",
    "AnyOf",
    "ByClass",
    "Gate",
    "GateKind",
    "Member",
    "Near",
    "Person",
    "Profile",
    "Scan",
    "Verdict",
    "gates_of",
    "load_profile",
    "scan",
]
