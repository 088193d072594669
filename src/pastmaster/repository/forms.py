"""What the columns and settings of a record can be.

A right checksum says that a record is as it was written, not that it makes sense: anyone can compute one. So each
record is checked where it is read, and nothing behind that border meets a text where a number must be.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from pastmaster.checks import is_number, is_whole
from pastmaster.clustering.cost import KINDS
from pastmaster.clustering.over_all import BOUNDS
from pastmaster.clustering.partition import KEPT
from pastmaster.repository.schema import RECORDS
from pastmaster.tables import shown

NONSENSE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What values that make no sense raise. A lack of memory is no damage: ``MemoryError`` is never among them."""
LARGEST_ID = 10**12
DEEPEST = 60  # levels of lists and mappings in settings; what is written has half as many
DIGEST = re.compile("[0-9a-f]{64}")
Check = Callable[[Any], bool]


class Form(NamedTuple):
    """The settings that must be there, those that may be, and what each can be."""

    needed: Mapping[str, Check | Form]
    known: Mapping[str, Check | Form] = {}

    def misfit(self, settings: Any, called: str = "settings") -> str | None:
        """What is wrong with settings; None where nothing is."""
        if not isinstance(settings, dict):
            return f"its {called} are no mapping"
        if missing := sorted(set(self.needed) - set(settings)):
            return f"{missing[0]!r} is missing"
        for key, check in (*self.needed.items(), *self.known.items()):
            if key not in settings:
                continue
            if isinstance(check, Form):
                if problem := check.misfit(settings[key], key):
                    return problem
            elif not check(settings[key]):
                return f"its {key} is {'no text' if check is _text else shown(settings[key])}"
        return None


def _count(most: int, least: int = 0) -> Check:
    return lambda value: is_whole(value) and least <= value <= most


def _none_or(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _number(value: Any) -> bool:
    return is_number(value) and (isinstance(value, float) or abs(value) < 2**63)


_size, _ids, _whole = _count(2**31), _list_of(_count(LARGEST_ID - 1)), _count(2**256)


def _entropy(value: Any) -> bool:
    return _whole(value) or _list_of(_whole)(value)


_OVER_ALL = Form(
    dict.fromkeys(("n_tasks", "sampled"), _size)
    | dict.fromkeys(("mean_loss", "confidence"), _number)
    | dict.fromkeys(("low", "high", "lower_bound"), _none_or(_number)),
    {
        **dict.fromkeys(("largest_loss", "share_above"), _none_or(_number)),
        **{"n_above": _none_or(_size), "bounded": lambda kind: kind in BOUNDS, "estimated": _flag},
    },
)
_FOUND = Form(
    {
        **dict.fromkeys(("n_tasks", "n_clusters"), _size),
        **dict.fromkeys(("cost", "size_cost"), _number),
        **dict.fromkeys(("directed", "traced", "interrupted"), _flag),
        "kind": lambda kind: kind in (*KINDS, *KEPT),
        "lower_bound": _none_or(_number),
        "possible_c": _none_or(_list_of(_size)),
    },
    {
        **dict.fromkeys(("mean_radius", "mean_loss", "largest_loss"), _number),
        **dict.fromkeys(("must_keep", "never_keep"), _list_of(_size)),
        "kept": _list_of(_text),
        "over_all": _none_or(
            lambda found: _OVER_ALL.misfit(found) is None and {*found} <= {*_OVER_ALL.needed, *_OVER_ALL.known}
        ),
    },
)
SETTINGS = {
    "policies": Form({}, {"name": _text, "source": _text, "n_states": _size, "n_actions": _size}),
    "tasks": Form(
        {"kind": lambda kind: kind in ("tabular", "gymnasium"), "evaluation_episodes": _none_or(_count(10**12, 2))},
        {
            **{"n_states": _size, "n_actions": _size, "gamma": _number, "horizon": _none_or(_whole)},
            "forgotten": Form(
                {"value": _number, "error": _number, "provenance": _text}, {"name": _text, "source": _text}
            ),
        },
    ),
    "admissions": Form({"salt": _text}),
    "streams": Form(
        {}, {"clustering": Form({}), "entropy": _entropy, "seed": _none_or(_whole), "defaults": _none_or(_text)}
    ),
    "runs": Form(
        {
            **dict.fromkeys(("name", "task_digest"), _text),
            "value": _number,
            "n_sources": _count(10**6),
            "evaluation_episodes": _count(10**12),
        },
        {"source_ids": _ids, "source_names": _none_or(_list_of(_text))},
    ),
    "clusterings": Form(
        {
            "asked": Form({}, {"seed": _none_or(_whole), **dict.fromkeys(("max_loss", "price"), _none_or(_number))}),
            "found": _FOUND,
        }
    ),
}


def read_settings(text: str) -> Any:
    """Settings from their text; a ``ValueError`` where they are too deep, or hold text that nobody can write."""
    settings = json.loads(text)
    if text.count("[") + text.count("{") > DEEPEST and _is_deep(settings, DEEPEST):
        raise ValueError(f"settings have more than {DEEPEST} levels")
    if "\\u" in text:  # halves of characters
        json.dumps(settings, ensure_ascii=False).encode()
    return settings


def _is_deep(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels < 0 or any(_is_deep(item, levels - 1) for item in inner)


def misfit(table: str, row: Mapping[str, Any], settings: Any) -> str | None:
    """What is wrong with a record that a right checksum stands for; None where nothing is."""
    for column in RECORDS[table].columns:
        if not fits(row[column.name], column):
            return f"its {column.name} is {shown(row[column.name])}"
    return SETTINGS[table].misfit(settings) or _contradiction(row, settings)


def fits(value: Any, column: sa.Column[Any]) -> bool:
    """Whether a value can stand in a column: SQLite takes any value in any."""
    if value is None:
        return bool(column.nullable)
    if isinstance(column.type, sa.String):
        if not isinstance(value, str) or (column.name == "digest" and not DIGEST.fullmatch(value)):
            return False
        text = "\0" not in value and (value.isascii() or value.encode("utf-8", "ignore").decode() == value)
        return text and len(value) <= (column.type.length or len(value))
    if isinstance(column.type, sa.Integer):
        return is_whole(value) and bool(column.primary_key) <= value < LARGEST_ID
    return isinstance(value, float) and not math.isnan(value)


def _contradiction(row: Mapping[str, Any], settings: Mapping[str, Any]) -> str | None:
    """Columns and settings that cannot be together."""
    for one, other in (("lower", "upper"), ("stream_id", "position")):
        if one in row and (row[one] is None) != (row[other] is None):
            return f"its {one} is {shown(row[one])}, its {other} {shown(row[other])}"
    if row.get("lower") is not None and row["lower"] > row["upper"]:
        return f"its lower is {row['lower']}, its upper {row['upper']}"
    names = settings.get("source_names")
    if "task_id" in row and names and len(names) != settings["n_sources"]:
        return f"its n_sources is {settings['n_sources']}, with {len(names)} source_names"
    return None
