"""``python -m benchmarks [core ...]``: run the named sections, or all, and rewrite their tables."""

from __future__ import annotations

import sys
from importlib import import_module

SECTIONS = (
    "core", "clustering", "keep", "keep_pulp", "reuse", "selectors", "hostile", "robots", "lifelong", "scale",
    "service", "estimates", "advice",
)  # fmt: skip

for name in sys.argv[1:] or SECTIONS:
    import_module(f"benchmarks.{name}").run()
