"""What Gymnasium knows about an environment: its transition table as arrays, its step limit, its code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from pastmaster.errors import InvalidInputError
from pastmaster.tables import shown


def step_limit(env: gym.Env[Any, Any], *attributes: str) -> int | None:
    """The most steps of an episode: by the environment's spec, or by attributes of its own; None if none sets it."""
    limits = [env.spec.max_episode_steps if env.spec else None]
    limits += [getattr(env.unwrapped, name, None) for name in ("horizon", *attributes)]
    return min((int(limit) for limit in limits if isinstance(limit, int | np.integer)), default=None)


def environment_name(env_id: str, kwargs: Mapping[str, Any]) -> str:
    """What to call an environment made with these arguments."""
    arguments = ", ".join(f"{key}={value}" for key, value in kwargs.items())
    return f"{env_id}({arguments})" if arguments else env_id


def spec_name(spec: gym.envs.registration.EnvSpec) -> str:
    """The id of an environment, with the arguments in which it differs from what is registered under that id."""
    registered = gym.registry[spec.id].kwargs if spec.id in gym.registry else {}
    own = {key: value for key, value in spec.kwargs.items() if key != "render_mode"}
    return environment_name(spec.id, {key: own[key] for key in own if own[key] != registered.get(key, own)})


def code_of(spec: gym.envs.registration.EnvSpec) -> str:
    """Where the code of an environment is, as "module:name"."""
    entry: Any = spec.entry_point
    return entry if isinstance(entry, str) else f"{entry.__module__}:{entry.__qualname__}"


def arrays_of_table(table: Mapping[int, Any] | list[Any]) -> dict[str, npt.NDArray[Any]]:
    """Gymnasium's ``P[state][action] = [(probability, next state, reward, terminated), ...]`` as four arrays.

    Shorter lists of outcomes are filled up with outcomes of probability 0.
    """
    n_states = len(table)
    n_actions = len(_entry(table, 0, "P"))
    cells: dict[tuple[int, int], Any] = {}
    for s in range(n_states):
        row = _entry(table, s, "P")
        if len(row) != n_actions:
            raise InvalidInputError(f"from_gymnasium: P[{s}] has {len(row)} actions, must have {n_actions} as P[0]")
        cells |= {(s, a): _entry(row, a, f"P[{s}]") for a in range(n_actions)}
    shape = (n_states, n_actions, max(map(len, cells.values())))
    arrays: dict[str, npt.NDArray[Any]] = {
        "probability": np.zeros(shape),
        "next_state": np.zeros(shape, np.int64),
        "reward": np.zeros(shape),
        "terminated": np.zeros(shape, np.bool_),
    }
    for (s, a), outcomes in cells.items():
        for k, outcome in enumerate(outcomes):
            if not isinstance(outcome, tuple | list) or len(outcome) != 4 or outcome[1] % 1:
                raise InvalidInputError(
                    f"from_gymnasium: P[{s}][{a}][{k}] is {shown(outcome)}, "
                    "must be (probability, next state, reward, terminated) with a whole next state"
                )
            for name, value in zip(arrays, outcome, strict=True):
                arrays[name][s, a, k] = value
    return arrays


def _entry(table: Any, key: int, place: str) -> Any:
    """One entry of a table keyed 0, 1, 2, ...; an error where it is missing."""
    try:
        return table[key]
    except (KeyError, IndexError):
        raise InvalidInputError(
            f"from_gymnasium: {place} has no entry {key}, must be keyed 0..{len(table) - 1}"
        ) from None
