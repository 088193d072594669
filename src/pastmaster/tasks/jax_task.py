"""A task that is a JAX program: an environment in gymnax's convention, its parameters, a discount and a step cap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from pastmaster.arrays import Array
from pastmaster.checks import called_as, listed, mapping
from pastmaster.errors import InvalidInputError
from pastmaster.tables import shown
from pastmaster.tasks.gym_task import GymTask
from pastmaster.tasks.gymnasium_table import environment_name
from pastmaster.tasks.jax_dynamics import CALLER, Dynamics, jax_of, number_name
from pastmaster.tasks.jax_env import JaxEnv


@dataclass(frozen=True, eq=False)
class _Maker:
    """Makes the environments of a task from an object and its parameters."""

    env: Any
    params: Any

    def __call__(self) -> gym.Env[Any, Any]:
        return JaxEnv(self.env, self.params)


class JaxTask(GymTask):
    """An environment that is a JAX program, as a task.

    It can do what a ``GymTask`` can. Besides, episodes of networks run as one compiled program, on the device that JAX
    finds: all tasks of a family, all networks of one shape and all episodes at once. Their starts and chances depend
    neither on the device nor on the size of a batch. A family is one environment with many parameters (``variants``).

    An object is code, and code is not stored. A task in a repository needs an id: register a function that returns
    ``pastmaster.tasks.JaxEnv(env, params)`` with Gymnasium, and pass the id and the parameters that differ, by name.

    Parameters
    ----------
    env : object or str
        In gymnax's convention: ``reset(key, params)``, ``step(key, state, action, params)``, ``observation_space`` and
        ``action_space``; or the id of a registered environment that is a ``JaxEnv``.
    params : optional
        Its parameters: any tree of numbers, a dict of those that differ from ``env.default_params``, or None for these.
    gamma : float
        The discount, in 0 .. 1.
    horizon : int, optional
        The most steps of an episode; by default that of the id, or the parameter ``max_steps_in_episode``.
    name : str
        What to call the task; the environment and the parameters that differ unless given.
    reward_range : (float, float), optional
        The least and the greatest reward of a step, where the environment has no ``reward_range``.
    time_limit : float, optional
        The most seconds of one call, as for ``GymTask``; compiling counts. Episodes of networks are run in blocks of
        steps, and a call is a block: one step at first, more only where those before took little of the limit. A call
        that hangs ends in a ``TaskError``, but JAX cannot be interrupted: it computes on until the process ends.

    Raises
    ------
    InvalidInputError
        JAX is missing, an argument is wrong, or ``reset`` and ``step`` do not fit together.

    Examples
    --------
    >>> from pastmaster import JaxTask
    >>> JaxTask("pastmaster/JaxCartPole-v0", {"length": 0.7}, gamma=0.99)
    JaxTask('pastmaster/JaxCartPole-v0(length=0.7)', gamma=0.99, horizon=500)
    """

    def __init__(
        self,
        env: Any,
        params: Any = None,
        *,
        gamma: float = 0.99,
        horizon: int | None = None,
        name: str = "",
        reward_range: tuple[float, float] | None = None,
        time_limit: float | None = 60.0,
    ) -> None:
        made: Any = env
        kwargs: dict[str, Any] = {}
        with called_as(CALLER):
            if isinstance(env, str):
                if params is not None:
                    kwargs = mapping(params, f"{CALLER}: params", "a dict of parameters by name for an id")
                called = environment_name(env, {key: number_name(value) for key, value in kwargs.items()})
            else:
                dynamics = Dynamics(env)
                filled = dynamics.filled(params)
                dynamics.check(filled, dynamics.spaces(filled))  # here, so that an error is told as it is
                made = _Maker(env, filled)
                called = environment_name(dynamics.name, dynamics.differing(filled))
            super().__init__(made, kwargs, gamma, horizon, name or called, reward_range, time_limit)
            if self.program is None:
                raise InvalidInputError(
                    f"{CALLER}: env is {shown(env)}, must be the id of an environment that is a "
                    "pastmaster.tasks.JaxEnv, without wrappers"
                )

    @property
    def identity(self) -> dict[str, Any]:
        """What makes the environment what it is, as plain JSON values; an error where it is an object."""
        if isinstance(self.env_id, _Maker):
            raise InvalidInputError(
                f"{CALLER}: env is {shown(type(self.env_id.env).__name__)}, an object, must be an id to be stored: "
                "gymnasium.register a function that returns pastmaster.tasks.JaxEnv(env, params)"
            )
        return super().identity

    @classmethod
    def variants(cls, env: Any, params: Any, *, names: Sequence[str] | None = None, **settings: Any) -> list[JaxTask]:
        """One environment with many parameters: a task for each.

        Parameters
        ----------
        env : object or str
            As for ``JaxTask``.
        params
            A list of parameters, each as for ``JaxTask``; or one tree of arrays whose first axis is the task, such as
            ``{"length": [0.3, 0.5, 0.7]}``.
        names : sequence of str, optional
            What to call the tasks.
        **settings
            ``gamma``, ``horizon``, ``reward_range`` and ``time_limit``, as for ``JaxTask``.

        Returns
        -------
        list of JaxTask

        Examples
        --------
        >>> from pastmaster import JaxTask
        >>> [task.name for task in JaxTask.variants("pastmaster/JaxCartPole-v0", {"length": [0.5, 0.7]})]
        ['pastmaster/JaxCartPole-v0(length=0.5)', 'pastmaster/JaxCartPole-v0(length=0.7)']
        """
        caller = f"{CALLER}.variants"
        with called_as(caller):
            each = listed(params, f"{caller}: params") if type(params) in (list, tuple) else _unstacked(params, caller)
            called = [""] * len(each) if names is None else listed(names, f"{caller}: names")
            if len(called) != len(each):
                raise InvalidInputError(f"{caller}: names has {len(called)} entries, must have {len(each)}, one a task")
            shared = env if isinstance(env, str) else Dynamics(env).env
            each = each if isinstance(env, str) else _of_one_type(each, caller)
            return [cls(shared, some, name=name, **settings) for some, name in zip(each, called, strict=True)]


def _of_one_type(each: list[Any], caller: str) -> list[Any]:
    """Parameters of a family: a number that is real in one task is real in all."""
    tree = jax_of(caller).tree
    leaves, structures = zip(*map(tree.flatten, each), strict=True) if each else ((), ())
    if not any(leaves) or any(structure != structures[0] for structure in structures):
        return each
    columns = [
        [float(x) if type(x) is int else x for x in column] if any(type(x) is float for x in column) else column
        for column in zip(*leaves, strict=True)
    ]
    return [structure.unflatten(row) for structure, row in zip(structures, zip(*columns, strict=True), strict=True)]


def _unstacked(params: Any, caller: str) -> list[Any]:
    """Parameters of each task, from a tree of arrays [N, ...]."""
    jax = jax_of(caller)
    tree: Any = params
    if isinstance(params, Mapping):
        leaves = list(params.values())
        structure = None
    else:
        leaves, structure = jax.tree.flatten(tree)
    arrays: list[Array] = [np.asarray(leaf) for leaf in leaves]
    sizes = {array.shape[:1] for array in arrays}
    if len(sizes) != 1 or sizes == {()}:
        raise InvalidInputError(
            f"{caller}: params is {shown(params)}, must be a list of parameters, or arrays that all begin with an axis "
            "of one size, the number of tasks"
        )
    found = []
    for i in range(len(arrays[0])):
        own = [array[i].tolist() if array.ndim == 1 else array[i] for array in arrays]
        found.append(dict(zip(params, own, strict=True)) if structure is None else structure.unflatten(own))
    return found
