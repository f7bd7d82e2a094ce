"""Tests of `interpreted/` are run in a process of their own, by `test_interpreted.py`.

Triton decides when it is imported whether kernels are interpreted, and other tests may have
imported it by then. To run one: `TRITON_INTERPRET=1 pytest tests/kernels/triton/interpreted -k ...`
"""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("TRITON_INTERPRET") == "1" else ["interpreted"]
