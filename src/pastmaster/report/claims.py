"""``claims.json`` of a reproduction: what was claimed, tried and found, every field checked."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pastmaster.errors import DamagedError, InvalidInputError
from pastmaster.report.page import Check, Claim, Claims
from pastmaster.report.sheet import read_text

SCHEMA = 1
MODES = ("full", "quick")
MOST = 10_000  # claims, seeds, or checks of a claim
ENOUGH = 0.9  # the share of the seeds with which a claim must have held


@dataclass(frozen=True)
class Tried:
    """The claims, and by what they were tried; ``titles`` of experiments by name, in their order."""

    claims: Claims
    titles: Mapping[str, str]
    mode: str
    machine: str
    version: str


def read_claims(path: Path) -> Tried:
    """The file, or a refusal that names the field."""
    try:
        content = json.loads(read_text(path), parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise DamagedError(f"{path}, line {error.lineno}: is not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{path} is not JSON: {error}") from None
    fields = _Fields(path, "", content)
    if fields.get("schema", int) != SCHEMA:
        raise InvalidInputError(
            f"{path}: schema is {content['schema']}, must be {SCHEMA}: written by another pastmaster"
        )
    mode = fields.get("mode", str)
    if mode not in MODES:
        raise fields.wrong("mode", mode, "one of full, quick")
    seeds = fields.get("seeds", list)
    if not seeds or len(seeds) > MOST or not all(type(seed) is int and seed >= 0 for seed in seeds):
        raise fields.wrong("seeds", seeds, "a list of whole numbers from 0 on")
    listed = fields.get("claims", list)
    if len(listed) > MOST:
        raise fields.wrong("claims", f"a list of {len(listed)}", f"a list of at most {MOST}")
    claims = tuple(_claim(_Fields(path, f"claims[{i}].", entry), len(seeds)) for i, entry in enumerate(listed))
    tried = Claims(claims, tuple(seeds), mode == "quick")
    titles = fields.get("experiments", dict)
    if not all(isinstance(title, str) for title in titles.values()):
        raise fields.wrong("experiments", titles, "the titles of experiments by name")
    return Tried(tried, titles, mode, fields.get("machine", str), fields.get("version", str))


def _claim(fields: _Fields, n_seeds: int) -> Claim:
    held = fields.get("held", list)
    if len(held) != n_seeds or not all(isinstance(one, bool) for one in held):
        raise fields.wrong("held", held, f"true or false for each of the {n_seeds} seeds")
    reproduced = None if fields.there("reproduced") is None else fields.get("reproduced", bool)
    if reproduced and sum(held) < ENOUGH * n_seeds:
        raise fields.wrong("reproduced", True, f"false: it held with {sum(held)} of {n_seeds} seeds")
    checks = fields.get("checks", list)
    if len(checks) > MOST:
        raise fields.wrong("checks", f"a list of {len(checks)}", f"a list of at most {MOST}")
    return Claim(
        id=fields.get("id", str),
        sentence=fields.get("sentence", str),
        experiment=fields.get("experiment", str),
        held=tuple(held),
        reproduced=reproduced,
        reason=fields.get("reason", str),
        checks=tuple(
            _check(_Fields(fields.path, f"{fields.place}checks[{i}].", entry), n_held)
            for i, (entry, n_held) in enumerate(zip(checks, _counts(fields, len(checks), n_seeds), strict=True))
        ),
    )


def _counts(fields: _Fields, n_checks: int, n_seeds: int) -> list[int | None]:
    """With how many seeds each check held, where the file tells."""
    if "checks_held" not in fields.content:
        return [None] * n_checks
    counts: list[int | None] = fields.get("checks_held", list)
    right = all(count is None or (type(count) is int and 0 <= count <= n_seeds) for count in counts)
    if len(counts) != n_checks or not right:
        raise fields.wrong("checks_held", counts, f"a number of seeds or null for each of the {n_checks} checks")
    return counts


def _check(fields: _Fields, n_held: int | None) -> Check:
    return Check(
        name=fields.get("name", str),
        value=fields.number("value"),
        low=fields.number("low"),
        high=fields.number("high"),
        unit=fields.get("unit", str),
        wanted=fields.get("wanted", str),
        held=None if fields.there("held") is None else fields.get("held", bool),
        n_held=n_held,
    )


class _Fields:
    """An object of the file, with where it is."""

    def __init__(self, path: Path, place: str, content: Any) -> None:
        self.path, self.place = path, place
        if not isinstance(content, Mapping):
            raise DamagedError(f"{path}: {place.removesuffix('.') or 'the whole'} must be an object")
        self.content = content

    def wrong(self, name: str, value: Any, right: str) -> DamagedError:
        return DamagedError(f"{self.path}: {self.place}{name} is {str(value)[:80]}, must be {right}")

    def there(self, name: str) -> Any:
        """A field, which must be there."""
        if name not in self.content:
            raise DamagedError(f"{self.path}: {self.place}{name} is missing")
        return self.content[name]

    def get(self, name: str, kind: type) -> Any:
        """A field of a kind."""
        value = self.there(name)
        if type(value) is not kind:  # a bool is no int here
            words = {str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "an object"}
            raise self.wrong(name, value, words[kind])
        return value

    def number(self, name: str) -> float | None:
        """A finite number, or None."""
        value = self.there(name)
        if value is None:
            return None
        if type(value) not in (int, float) or not abs(value) < math.inf:
            raise self.wrong(name, value, "a finite number")
        try:
            return float(value)
        except OverflowError:
            raise self.wrong(name, value, "a finite number") from None


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")
