"""What a person settles for an agent that chooses again and again: how many policies, at what price, which in any case.

Policies are told by name, and never by column: columns move as policies are added. A name that a later policy has too
means the one that was stored first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pastmaster.checks import guess, listed, text, whole, within
from pastmaster.errors import InvalidInputError
from pastmaster.repository.names import distinct_names
from pastmaster.repository.records import PolicyRecord
from pastmaster.tables import shown

KEEP = "keep"  # the method: ``Repository.keep`` chooses
QUESTIONS, PINS = ("k", "max_loss", "price"), ("must_keep", "never_keep")


def asks_keep(given: Mapping[str, Any]) -> bool:
    """Whether options of an agent are those of ``Repository.keep``."""
    return given.get("method") == KEEP or not {*QUESTIONS, *PINS}.isdisjoint(given)


def checked_pins(caller: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of ``Repository.keep`` for an agent, as they are stored."""
    known_parts(caller, given, ("method", *QUESTIONS, *PINS))
    if given.get("method", KEEP) != KEEP:
        method = shown(given["method"])
        raise InvalidInputError(f"{caller}: clustering's method is {method}, must be {KEEP!r} beside k, price or pins")
    asked = [name for name in QUESTIONS if given.get(name) is not None]
    if len(asked) > 1:
        raise InvalidInputError(f"{caller}: clustering holds {' and '.join(asked)}, must hold one of them")
    found: dict[str, Any] = {"method": KEEP}
    pins = {name: _names(caller, name, given[name]) for name in PINS if given.get(name) is not None}
    found |= {name: names for name, names in pins.items() if names}
    both = sorted({*found.get("must_keep", ())} & {*found.get("never_keep", ())})
    if both:
        raise InvalidInputError(f"{caller}: clustering's must_keep and never_keep both hold {both[0]!r}, must not")
    return found | {name: _number(caller, name, given[name], found) for name in asked}


def known_parts(caller: str, given: Mapping[str, Any], allowed: Sequence[str]) -> None:
    """Refuse an agent's options that its way of choosing does not have."""
    if unknown := sorted(set(map(str, given)) - set(allowed)):
        wanted = f"must hold some of {', '.join(allowed)}"
        raise InvalidInputError(f"{caller}: clustering holds {shown(unknown[0])}{guess(unknown[0], allowed)}, {wanted}")


def pinned_columns(caller: str, policies: Sequence[PolicyRecord], pins: Mapping[str, Any]) -> dict[str, list[int]]:
    """The columns of the policies that must be kept, and of those that must not."""
    return {name: [_column(caller, name, policies, policy) for policy in pins[name]] for name in PINS if name in pins}


def _names(caller: str, name: str, given: Any) -> list[str]:
    place = f"{caller}: clustering's {name}"
    names = [given] if isinstance(given, str) else listed(given, place, "a list of names of policies")
    for policy in names:
        if not isinstance(policy, str):
            raise InvalidInputError(f"{place} holds {shown(policy)}, must hold names of policies")
        text(caller, f"clustering's {name}", policy)
    return sorted(set(names))


def _number(caller: str, name: str, value: Any, pins: Mapping[str, Any]) -> Any:
    place = f"clustering's {name}"
    if name == "k":
        return whole(caller, place, value, at_least=max(1, len(pins.get("must_keep", ()))))
    if name == "price" and isinstance(value, str):
        if value != "measured":
            raise InvalidInputError(f"{caller}: {place} is {shown(value)}, must be a number or 'measured'")
        return value
    return within(caller, place, value, 0.0, math.inf if name == "max_loss" else 1e300)


def _column(caller: str, name: str, policies: Sequence[PolicyRecord], policy: str) -> int:
    """The column of the policy of this name, of several the one that was stored first: no later one takes its place.

    "x (3)" is the policy 3 of name "x", as lists call it where two have that name.
    """
    same = [
        (record.id, j) for j, record in enumerate(policies) if policy in (record.name, f"{record.name} ({record.id})")
    ]
    if same:
        return min(same)[1]
    wanted = f"must be the name of a stored policy{guess(policy, distinct_names(policies))}"
    raise InvalidInputError(f"{caller}: clustering's {name} holds {shown(policy)}, {wanted}")
