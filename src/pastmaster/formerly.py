"""What the library wrote when it was called oldhand, and how it is still read. No other module knows that name.

Environment ids and the digests of tasks contain the name of the library. Ids are read under the new name. Digests go on
being made with the old one, so that a task is known again and a stream resumes.
"""

from __future__ import annotations

import re

FORMER, NAME = "oldhand", "pastmaster"

VERSION_TABLE = f"{FORMER}_version"
"""Where such a database keeps the revision of its schema."""
ARCHIVE_FORMAT = f"{FORMER} repository"
"""What the manifest of such an export calls itself."""


def current(env_id: str) -> str:
    """A stored environment id under the name it is registered by now."""
    return NAME + env_id.removeprefix(FORMER) if env_id.startswith(f"{FORMER}/") else env_id


def digested(name: str) -> str:
    """An environment id, or the place of its code, as digests have it."""
    ours = name.startswith((f"{NAME}/", f"{NAME}.domains."))
    return FORMER + name.removeprefix(NAME) if ours else name


def class_names(text: str) -> str:
    """A setting that was stored as text, with our classes by their names alone: their modules have moved."""
    return re.sub(rf"<class '(?:{FORMER}|{NAME})\.[\w.]*?(\w+)'>", r"<class \1>", text)
