"""The contract of a policy, as a function that anyone can run."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Discrete

from pastmaster.arrays import Array
from pastmaster.checks import whole
from pastmaster.errors import ContractError, InvalidInputError
from pastmaster.parallel import transport
from pastmaster.policies.batch import batch, begun, is_random, is_recurrent
from pastmaster.policies.convert import as_policy
from pastmaster.policies.policy import TablePolicy, checked_policy, spaces_of
from pastmaster.tables import shown
from pastmaster.tasks import GymTask, TabularMDP
from pastmaster.testing.tasks import same

OBSERVATIONS = 16


def check_policy(
    policy: Any,
    task: TabularMDP | GymTask | gym.Env[Any, Any] | tuple[gym.Space[Any], gym.Space[Any]],
    *,
    seed: int = 0,
) -> None:
    """Check that a policy keeps its contract on observations drawn from the space of a task.

    It checks that ``act`` gives one action of the action space to each observation, that it gives the same actions to
    the same observations (of a random policy: and the same uniform numbers), alone, in a batch and in another order,
    that it changes no observation, and that the policy can be sent to another process and acts the same there.
    Actions that are floats may differ by rounding from batch to batch. Of a recurrent policy, two episodes with the
    same observations must be alike.

    Parameters
    ----------
    policy : Policy, array, function or Stable-Baselines3 model
        The policy, of any kind that ``as_policy`` takes.
    task : TabularMDP, GymTask, gymnasium.Env or a pair of spaces
        Where it acts: a task, an environment, or ``(observation_space, action_space)``.
    seed : int
        The seed of the observations.

    Raises
    ------
    InvalidInputError
        If it is no policy, or a class of policies.
    ContractError
        The action or the difference that was found, and its likely cause.

    Examples
    --------
    >>> import gymnasium as gym
    >>> from pastmaster.testing import check_policy
    >>> spaces = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Discrete(2)
    >>> check_policy(lambda x: int(x[0] > 0), spaces)
    >>> check_policy(lambda x: 2, spaces)
    Traceback (most recent call last):
    pastmaster.errors.ContractError: check_policy: act gives the action 2, must be in Discrete(2)
    """
    if isinstance(policy, type):
        raise InvalidInputError(
            f"check_policy: policy is the class {policy.__name__}, must be a policy: make one, {policy.__name__}(...)"
        )
    observing, acting = spaces_of(task, "check_policy: task")
    acts = as_policy(policy, "check_policy: policy")
    if isinstance(acts, TablePolicy) and isinstance(observing, Discrete) and isinstance(acting, Discrete):
        try:
            checked_policy(acts, int(observing.n), int(acting.n), "check_policy: the table")
        except InvalidInputError as error:
            raise ContractError(str(error)) from None
    seed = whole("check_policy", "seed", seed, at_least=0)
    rng = np.random.default_rng(seed)
    observing.seed(seed)
    observations = [observing.sample() for _ in range(OBSERVATIONS)]
    uniforms = rng.random(OBSERVATIONS)
    actions = _actions(acts, observations, uniforms)
    _check_in(acting, actions)
    order = rng.permutation(OBSERVATIONS)
    singly = [_actions(acts, observations[i : i + 1], uniforms[i : i + 1])[0] for i in range(OBSERVATIONS)]
    try:
        copied = pickle.loads(transport.packed(acts))
    except InvalidInputError as error:
        raise ContractError(f"check_policy: it cannot be sent to another process: {error.__cause__}") from error
    for other, place, cause in (
        (
            _actions(acts, observations, uniforms),
            "a second call",
            "does it draw at random, or remember calls?",
        ),
        (singly, "batches of one", "does it mix the rows of a batch, or remember calls?"),
        (
            _actions(acts, [observations[i] for i in order], uniforms[order])[np.argsort(order)],
            "another order",
            "does it mix the rows of a batch, or remember calls?",
        ),
        (
            _actions(copied, observations, uniforms),
            "a pickled copy",
            "does pickling lose part of it?",
        ),
    ):
        if not _agree(actions, np.asarray(other)):
            raise ContractError(f"check_policy: act gives other actions in {place}: {cause}")
    if is_recurrent(acts):
        _check_episodes(acts, observations, uniforms, acting)


def _check_episodes(policy: Any, observations: list[Any], uniforms: Array, acting: gym.Space[Any]) -> None:
    """Two episodes of a recurrent policy, the second begun when the first is over, must be alike."""
    episodes = []
    for _ in range(2):
        one = begun(policy)
        steps = [_actions(one, observations[i : i + 1], uniforms[i : i + 1])[0] for i in range(OBSERVATIONS)]
        episodes.append(np.asarray(steps))
    _check_in(acting, episodes[0])
    if not _agree(*episodes):
        raise ContractError(
            "check_policy: a second episode of the same observations has other actions: does begin_episode start anew?"
        )


def _check_in(space: gym.Space[Any], actions: Array) -> None:
    for action in actions:
        if not space.contains(action.astype(space.dtype) if isinstance(space, gym.spaces.Box) else action):
            raise ContractError(f"check_policy: act gives the action {action}, must be in {space}")


def _actions(policy: Any, observations: list[Any], uniforms: Array) -> Array:
    """The actions of a policy, one to each observation, which it leaves as they are."""
    given = batch(copy.deepcopy(observations))
    before = copy.deepcopy(given)
    try:
        actions = np.asarray(policy.act(given, *([uniforms] if is_random(policy) else [])))
    except Exception as error:  # of whatever kind: it is the policy's
        raise ContractError(
            f"check_policy: act raises {shown(error)} on {len(observations)} observations of the space"
        ) from error
    if actions.shape[:1] != (len(observations),):
        raise ContractError(
            f"check_policy: act gives actions of shape {actions.shape} for {len(observations)} observations, must be "
            f"[{len(observations)}, ...]: observations come in batches"
        )
    if not same(given, before):
        raise ContractError("check_policy: act changes its observations, must work on a copy")
    return actions


def _agree(one: Array, other: Array) -> bool:
    exact = one.dtype.kind in "iub" and other.dtype.kind in "iub"
    return one.shape == other.shape and bool((one == other).all() if exact else np.allclose(one, other, 1e-4, 1e-6))
