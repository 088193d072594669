"""A lifelong agent's settings: refused at once if they cannot be right, and told in words that last."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

import numpy as np

from pastmaster.errors import InvalidInputError, PastmasterError
from pastmaster.parallel import digest
from pastmaster.repository.store import METHODS, UNRECORDED
from pastmaster.reuse import QLearning, transfer


def check_transfer_options(caller: str, options: Mapping[str, Any]) -> None:
    """Refuse what is no option of ``transfer``, or is the agent's own."""
    own = {"task", "sources", "episodes", "rng", "bounds", "trials", "gamma", "horizon", "progress"}
    allowed = set(signature(transfer).parameters) - own
    if unknown := sorted(set(options) - allowed):
        raise InvalidInputError(
            f"{caller}: {unknown[0]} is no option here, must be one of {', '.join(sorted(allowed))}"
        )


def checked_clustering(caller: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Options of ``Repository.cluster`` that are not the agent's own, or a refusal now rather than after J tasks."""
    if not isinstance(options, Mapping | None):
        raise InvalidInputError(f"{caller}: clustering is {options!r}, must be a mapping of options")
    chosen = dict(options or {})
    method = chosen.get("method", "search")
    if method not in METHODS:
        raise InvalidInputError(f"{caller}: clustering's method is {method!r}, must be one of {', '.join(METHODS)}")
    own = {"distance", "episodes", "span", "rng", "time_limit"}  # the last would make results depend on the clock
    allowed = {*signature(METHODS[method]).parameters, "method"} - own
    if unknown := sorted(set(map(str, chosen)) - allowed):
        raise InvalidInputError(
            f"{caller}: clustering holds {unknown[0]!r}, must hold some of {', '.join(sorted(allowed))}"
        )
    return chosen


def rehearse(caller: str, options: Mapping[str, Any], every: int) -> None:
    """Cluster a few tasks that are all alike: what is wrong with the options is found before any task is met."""
    method = METHODS[options.get("method", "search")]
    quick = {key: value for key, value in options.items() if key not in (*UNRECORDED, "method", "certify")}
    if "iterations" in signature(method).parameters:
        quick["iterations"] = min(1, quick.get("iterations", 1))
    size = min(every, max(50, quick.get("n_clusters") or 0))
    try:
        method(np.zeros((size, size)), episodes=1, span=1.0, rng=np.random.default_rng(0), **quick)
    except (PastmasterError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{caller}: clustering cannot be done every {every} tasks: {error}") from None


def described(value: Any) -> Any:
    """A setting as text that is the same in another process: functions, and objects that print no values, by name."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, QLearning):
        return f"QLearning {digest(*value.identity, versions=False)}"
    if isinstance(value, np.ndarray):
        return f"array {digest(value, versions=False)}"
    text = repr(value)
    return getattr(value, "__qualname__", type(value).__qualname__) if " at 0x" in text else text
