"""Mistakes in calls of selectors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from right import Call, each

import pastmaster as pm

MADE = {"n_sources": 2, "episodes": 50, "bounds": (0.0, 1.0), "rng": 0}
KNOWN = {"experience": [[0.9, 0.1], [0.2, 0.8]]}


MEASURED = [
    ({"value": -1}, "value is -1 for arm ..., must be within the bounds 0 .. 1; declare wider ones, or pass clip=True"),
]
WRONG_BOUNDS = [
    (1.0, 0.0),
    (1.0, 1.0),
    (math.nan, 1.0),
    (0.0, math.inf),
    (-1e308, 1e308),
    (0.0, 1.0, 2.0),
    "01",
    ("0", "1"),
    3.0,
    None,
]
MADE_WRONGLY = [
    *each("n_sources", [-1, 1.5, True, "3", None], "is ..., must be a whole number"),
    *each("episodes", [0, 2.5], "is ..., must be a whole number"),
    *each("rng", [-1, 4.0, True, "4", np.random.RandomState(0)], "is ..., must be a seed"),
]
BOUNDED_WRONGLY = [
    *each("bounds", WRONG_BOUNDS, "is ..., must be"),
    *each("clip", [1, "yes", None], "is ..., must be True or False"),
    *each("delta", [-1, 1.5, math.nan], "is ..., must be"),
    *each("check_every", [0, 2.0], "is ..., must be a whole number"),
]
EXPLORES = (pm.ProbabilisticPolicyReuse,)  # without bounds


def made(of: type[Any]) -> Any:
    """A selector."""
    return of(**(MADE | (KNOWN if of.informed else {})))


def told(of: type[Any], **given: Any) -> None:
    """Ask, and tell."""
    selector = made(of)
    selector.tell(**({"episode": selector.ask()} | given))


def cancelled(of: type[Any], **given: Any) -> None:
    """Ask, and cancel."""
    selector = made(of)
    selector.cancel(**({"episode": selector.ask()} | given))


def of_every_selector(of: type[Any]) -> Iterator[tuple[str, Call]]:
    """What all selectors say alike."""
    name = of.__name__
    yield (
        f"{name}.tell",
        Call(partial(told, of), lambda: {"value": 0.5}).refuses(
            ({"episode": "x"}, "episode is 'x', must be the Episode that ask returned, or Episode(arm,"),
            ({"value": "x"}, "value is 'x', must be a finite number"),
            ({"value": math.nan}, "value is nan, must be a finite number"),
            *(MEASURED if of not in EXPLORES else []),
        ),
    )
    yield (
        f"{name}.cancel",
        Call(partial(cancelled, of), dict).refuses(
            ({"episode": "x"}, "episode is 'x', must be the Episode that ask returned, or Episode(arm,"),
        ),
    )
    yield (
        f"{name}.from_dict",
        Call(of.from_dict, lambda: {"state": made(of).to_dict()}).refuses(
            ({"state": "x"}, "state is 'x', must be what to_dict returned"),
        ),
    )
    yield (
        f"{name}.pending",
        Call(made(of).pending, lambda: {"numbers": [0]}).refuses(
            ({"numbers": "x"}, "numbers is 'x', must be a list"),
        ),
    )
    yield (
        f"{name}.regret_guarantee",
        Call(made(of).regret_guarantee, lambda: {"at_once": 2}).refuses(
            ({"at_once": "x"}, "at_once is 'x', must be a whole number, at least 1 (and < 1e12)"),
        ),
    )


SELECTORS = (pm.Exp3Transfer, pm.TsallisINF, pm.RegretBalancing, pm.Informed, pm.ProbabilisticPolicyReuse)
EVERY_SELECTOR = [
    ({"n_sources": "x"}, "n_sources is 'x', must be a whole number, in 0..1000000"),
    ({"episodes": "x"}, "episodes is 'x', must be a whole number, at least 1 (and < 1e12)"),
    ({"rng": "x"}, "rng is 'x', must be a seed (a whole number, at least 0), a numpy.random.Generator"),
]
EVERY_BOUNDED_SELECTOR = [
    ({"bounds": "x"}, "bounds is 'x', must be (lower, upper)"),
    ({"bounds": [[1.0, 2.0], [3.0]]}, "bounds is [[1.0, 2.0], [3.0]], must be finite, lower below"),
    ({"check_every": "x"}, "check_every is 'x', must be a whole number, at least 1 (and < 1e12)"),
    ({"clip": "x"}, "clip is 'x', must be True or False"),
]
BALANCING = [
    *each("kappa", [-1.0, math.inf], "is ..., must be"),
    *each("preference", [math.nan, 0.99, "20"], "is ..., must be"),
    ({"delta": 0}, "delta is 0, must be"),
    ({"kappa": "x"}, "kappa is 'x', must be a number, at least 0"),
    ({"kappa": -1}, "kappa is -1, must be at least 0"),
    ({"preference": "x"}, "preference is 'x', must be a number, in 1 .. 1e+06"),
    ({"preference": -1}, "preference is -1, must be in 1 .. 1e+06"),
    ({"delta": "x"}, "delta is 'x', must be a number, in 1e-300 .. 1"),
    ({"delta": -1}, "delta is -1, must be in 1e-300 .. 1"),
]

CALLS = {
    "Exp3Transfer": Call(pm.Exp3Transfer, lambda: MADE).refuses(
        *each("beta", [-0.1, 1.1, math.nan], "is ..., must be"),
        ({"episodes": None}, "episodes is None, must be"),
        *MADE_WRONGLY,
        *BOUNDED_WRONGLY,
        *EVERY_SELECTOR,
        *EVERY_BOUNDED_SELECTOR,
        ({"delta": "x"}, "delta is 'x', must be a number, in 0 .. 1"),
        ({"delta": -1}, "delta is -1, must be in 0 .. 1"),
        ({"elimination": "x"}, "elimination is 'x', must be one of 'none', 'paper', 'anytime'"),
        ({"beta": "x"}, "beta is 'x', must be a number, in 0 .. 1"),
        ({"beta": -1}, "beta is -1, must be in 0 .. 1"),
    ),
    "TsallisINF": Call(pm.TsallisINF, lambda: MADE).refuses(
        *each("elimination", [None, ["paper"]], "is ..., must be one of"),
        *MADE_WRONGLY,
        *BOUNDED_WRONGLY,
        *EVERY_SELECTOR,
        *EVERY_BOUNDED_SELECTOR,
        ({"estimator": "x"}, "estimator is 'x', must be one of 'reduced-variance', 'importance-weighted'"),
        ({"elimination": "x"}, "elimination is 'x', must be one of 'none', 'paper', 'anytime'"),
        ({"delta": "x"}, "delta is 'x', must be a number, in 0 .. 1"),
        ({"delta": -1}, "delta is -1, must be in 0 .. 1"),
    ),
    "RegretBalancing": Call(pm.RegretBalancing, lambda: MADE).refuses(
        *BALANCING,
        *MADE_WRONGLY,
        *BOUNDED_WRONGLY,
        *EVERY_SELECTOR,
        *EVERY_BOUNDED_SELECTOR,
    ),
    "Informed": Call(pm.Informed, lambda: MADE | KNOWN).refuses(
        *BALANCING,
        *MADE_WRONGLY,
        *BOUNDED_WRONGLY,
        *EVERY_SELECTOR,
        *EVERY_BOUNDED_SELECTOR,
        ({"experience": "x"}, "experience: values has dtype <U1, must hold numbers"),
        ({"experience": -1}, "experience: values has shape (1,), must be [tasks, sources] with one task"),
        (
            {"experience": {"values": [[0.5, 0.5]], "errors": [[1e160, 0.0]]}},
            "experience has numbers as large as 1e+160, must be at most 1e+100 times the bounds' span, 1:",
        ),
    ),
    "ProbabilisticPolicyReuse": Call(pm.ProbabilisticPolicyReuse, lambda: MADE).refuses(
        *MADE_WRONGLY,
        ({"bounds": "x"}, "bounds is 'x', must be (lower, upper)"),
        ({"bounds": (1.0, 0.0)}, "bounds is (1.0, 0.0), must be finite, lower below upper"),
        *each("psi", [1.1, math.nan, "1", None], "is ..., must be"),
        *each("upsilon", [-0.1, math.nan, "1", None], "is ..., must be"),
        *each("temperature", [-0.1, 1.001e100, math.nan], "is ..., must be in 0 .. 1e+100"),
        *each("temperature_step", [-0.1, math.inf], "is ..., must be in 0 .. 1e+100"),
        *EVERY_SELECTOR,
        ({"psi": "x"}, "psi is 'x', must be a number, in 0 .. 1"),
        ({"psi": -1}, "psi is -1, must be in 0 .. 1"),
        ({"upsilon": "x"}, "upsilon is 'x', must be a number, in 0 .. 1"),
        ({"upsilon": -1}, "upsilon is -1, must be in 0 .. 1"),
        ({"temperature": "x"}, "temperature is 'x', must be a number, in 0 .. 1e+100"),
        ({"temperature": -1}, "temperature is -1, must be in 0 .. 1e+100"),
        ({"temperature_step": "x"}, "temperature_step is 'x', must be a number, in 0 .. 1e+100"),
        ({"temperature_step": -1}, "temperature_step is -1, must be in 0 .. 1e+100"),
    ),
    "TsallisINF.tell, likelihood": Call(
        partial(told, pm.TsallisINF), lambda: {"value": 0.5, "likelihood": [1.0, 1.0, 1.0]}
    ).refuses(
        ({"likelihood": "x"}, "likelihood has dtype <U1, must hold numbers"),
        ({"likelihood": [1.0]}, "likelihood has shape (1,), must be (3,), one to an arm"),
    ),
} | {name: call for of in SELECTORS for name, call in of_every_selector(of)}
