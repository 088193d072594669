"""NumPy docstrings as the reference shows them: parameters that share a description get an entry each."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

SECTION = re.compile(r"(^(?:Other )?Parameters\n-+\n)(.*?)(?=^\S[^\n]*\n-+\n|\Z)", re.MULTILINE | re.DOTALL)
ENTRY = re.compile(r"^(\w+(?:, \w+)+)(?: : (.*))?\n((?:[ \t]+.*\n|\n)*)", re.MULTILINE)


def separated(docstring: str) -> str:
    """The docstring with ``a, b : int, float`` as two entries: the reader of docstrings takes all types from the first.

    Where there are not as many types as names, each name has the type of the signature. The description stays with the
    first.
    """

    def entries(match: re.Match[str]) -> str:
        names, given = match[1].split(", "), (match[2] or "").removesuffix("optional").rstrip(", ")
        types = given.split(", ") if given else []
        types = types if len(types) == len(names) else types * len(names) if len(types) == 1 else [""] * len(names)
        bodies = [match[3]] + [f"    See ``{names[0]}``.\n"] * (len(names) - 1)
        heads = [f"{name} : {kind}" if kind else name for name, kind in zip(names, types, strict=True)]
        return "".join(f"{head}\n{body}" for head, body in zip(heads, bodies, strict=True))

    return SECTION.sub(lambda section: section[1] + ENTRY.sub(entries, section[2] + "\n"), docstring)


class Separated(Extension):
    """Parameters that share a description, an entry each."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Rewrite the docstring of a function or class."""
        if obj.docstring is not None:
            obj.docstring.value = separated(obj.docstring.value)
