"""What policies are worth in a task of which only episodes can be run: the mean of their returns.

Episode k of a task begins from the same seed whichever policy runs it (common random numbers), and the seeds come from
the caller: so an estimate depends neither on the order of the policies nor on who else is evaluated.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from oldhand.checks import whole
from oldhand.errors import InvalidInputError
from oldhand.mdp import FloatArray, TabularMDP
from oldhand.tasks.gym_task import GymTask
from oldhand.values import checked_policy, cross_values


class Estimate(NamedTuple):
    """Mean returns of policies, their standard errors (0 where one episode tells all), and the episodes used."""

    mean: FloatArray
    error: FloatArray
    episodes: int


def estimate_values(
    task: TabularMDP | GymTask, policies: list[npt.NDArray[Any]], *, episodes: int, seed: int
) -> Estimate:
    """The mean return of each policy over ``episodes`` episodes, and its standard error.

    In a deterministic ``TabularMDP`` every episode of a policy of actions is the same: it is run once, and counted as
    often as one who does not know that would run it.
    """
    episodes = whole("estimate_values", "episodes", episodes, at_least=1)
    if task.horizon is None:
        raise InvalidInputError(f"estimate_values: {task} has no horizon, must have one: an episode may never end")
    if not policies:
        return Estimate(np.empty(0), np.empty(0), 0)
    mean, error = np.empty(len(policies)), np.zeros(len(policies))
    sure = isinstance(task, TabularMDP) and task.is_deterministic and len(task.start_states) == 1
    alike = [j for j, policy in enumerate(policies) if sure and np.ndim(policy) == 1]
    if alike and isinstance(task, TabularMDP):
        mean[alike] = cross_values([task], [policies[j] for j in alike])[0]
    others = sorted(set(range(len(policies))) - set(alike))
    if others:
        env = task.to_gymnasium() if isinstance(task, TabularMDP) else task()
        for j in others:
            policy = checked_policy(policies[j], task.n_states, task.n_actions, f"estimate_values: policies[{j}]")
            returns = [_episode(env, policy, task.gamma, task.horizon, [seed, k]) for k in range(episodes)]
            mean[j] = np.mean(returns)
            error[j] = np.std(returns, ddof=1) / np.sqrt(episodes) if episodes > 1 else np.inf
        env.close()
    return Estimate(mean, error, episodes * len(policies))


def _episode(env: gym.Env[Any, Any], policy: npt.NDArray[Any], gamma: float, horizon: int, seed: list[int]) -> float:
    """The discounted return of one episode."""
    rng = np.random.default_rng(seed)
    state, _ = env.reset(seed=int(rng.integers(2**31)))
    total, weight = 0.0, 1.0
    for _ in range(horizon):
        row = policy[state]
        action = int(row) if policy.ndim == 1 else int(rng.choice(len(row), p=row))
        state, reward, terminated, truncated, _ = env.step(action)
        total += weight * float(reward)
        weight *= gamma
        if terminated or truncated:
            break
    return total
