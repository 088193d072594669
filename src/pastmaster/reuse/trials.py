"""Finished trials on disk: a key made of all that a trial depends on, its results as arrays and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pastmaster import parallel
from pastmaster.errors import InvalidInputError
from pastmaster.generators import rng_from_dict, rng_to_dict
from pastmaster.policies.convert import data_of
from pastmaster.reuse.problem import Problem
from pastmaster.reuse.q_learning import QLearner, QLearning
from pastmaster.reuse.run import TrialResult
from pastmaster.reuse.snapshots import distance
from pastmaster.reuse.trial import SELECTORS, Plan
from pastmaster.values import Bounds

Arrays = Mapping[str, npt.NDArray[Any]]
LEARNED = ("Q", "visits", "own_episodes")


def saved_trials(
    folder: Path, plan: Plan, fresh: Any, streams: Sequence[np.random.Generator]
) -> parallel.Saved[np.random.Generator, TrialResult]:
    """Where the trials are kept; ``fresh`` is a selector as the first trial would start with."""
    problem, factory = plan.problem, plan.factory
    if (factory.func if isinstance(factory, partial) else factory) not in SELECTORS.values():
        raise _refused("a selector of its own", "by name, as a class of pastmaster, or as functools.partial of one")
    if type(problem.settings) is not QLearning:
        raise _refused("a learner of its own", "a QLearning")
    sources = [source if isinstance(source, np.ndarray) else data_of(source) for source in problem.sources]
    if any(source is None for source in sources):
        raise _refused("a function as a source", "arrays, or networks")
    if not problem.identity:
        raise _refused("an environment or a function as its task", "a TabularMDP or the id of a registered environment")
    choosing = json.dumps([fresh.name, fresh.to_dict()["arguments"]])
    world = [problem.identity, problem.gamma, problem.horizon, problem.share, sources]
    settings = [plan.episodes, plan.bounds, plan.bounds_from, plan.on_violation]
    key = parallel.digest("transfer", world, problem.settings.identity, choosing, settings, list(streams))
    return parallel.Saved(folder, key, _to_arrays, partial(_from_arrays, problem))


def _refused(what: str, wanted: str) -> InvalidInputError:
    return InvalidInputError(
        f"transfer: save is given with {what}, which cannot be told from another on disk: must be {wanted}"
    )


def _to_arrays(results: list[TrialResult]) -> dict[str, npt.NDArray[Any]]:
    """A chunk's trials."""
    arrays = {key: np.stack([getattr(result.learner, key) for result in results]) for key in LEARNED}
    taken = [np.array([policy for _, policy in sorted(result.snapshots.items())]) for result in results]
    most, n_states = max(map(len, taken)), results[0].learner.Q.shape[0]
    arrays["snapshots"] = np.zeros((len(results), most, n_states), np.int32)
    for trial, policies in zip(arrays["snapshots"], taken, strict=True):
        trial[: len(policies)] = policies.reshape(-1, n_states)
    words = [
        {
            "selector": result.selector.to_dict(),
            "learner_rng": rng_to_dict(result.learner.rng),
            "bounds": result.bounds,
            "counts": [result.clipped, result.widened, result.begun],
        }
        for result in results
    ]
    returns, arms = np.stack([r.returns for r in results]), np.stack([r.arms for r in results])
    sums = [r.undiscounted for r in results if r.undiscounted is not None]
    if sums:
        arrays["undiscounted"] = np.stack(sums)
    return arrays | {"returns": returns, "arms": arms, "words": parallel.as_text(words)}


def _from_arrays(problem: Problem, arrays: Arrays, streams: Sequence[np.random.Generator]) -> list[TrialResult]:
    """The trials of these streams, as ``_to_arrays`` wrote them; any error if they do not fit."""
    returns, arms, words = arrays["returns"], arrays["arms"], parallel.from_text(arrays["words"])
    if returns.dtype != np.float64 or arms.dtype != np.int32 or returns.shape != arms.shape or returns.ndim != 2:
        raise ValueError("its returns do not fit")
    if not len(words) == len(returns) == len(streams) or not 0 <= arms.min() <= arms.max() <= len(problem.sources):
        raise ValueError("its trials do not fit")
    sums = arrays.get("undiscounted")  # not of compiled episodes
    if sums is not None and (sums.dtype != np.float64 or sums.shape != returns.shape):
        raise ValueError("its undiscounted returns do not fit")
    results = []
    for i, (stream, word) in enumerate(zip(streams, words, strict=True)):
        # as the trial did, so that they can be spawned on; the stream is not touched, the trial may have to be run
        selector_rng, _, learner_rng = deepcopy(stream).spawn(3)
        state = word["selector"]
        selector = SELECTORS[state["selector"]].from_dict(state)
        selector._rng = _advanced(selector_rng, state["rng"])
        learner = problem.new_learner(learner_rng)
        _advanced(learner_rng, word["learner_rng"])
        _fill(learner, {key: arrays[key][i] for key in LEARNED})
        bounds = None if word["bounds"] is None else Bounds(*map(float, word["bounds"]))
        clipped, widened, begun = map(int, word["counts"])
        plain = None if sums is None else sums[i]
        snapshots = _snapshots(arrays["snapshots"][i], learner, returns.shape[1])
        results.append(
            TrialResult(returns[i], arms[i], selector, learner, bounds, clipped, widened, begun, plain, snapshots)
        )
    return results


def _snapshots(policies: npt.NDArray[Any], learner: QLearner, episodes: int) -> dict[int, Any]:
    """The policies [., S] by the number of own episodes after which they were taken."""
    every = distance(episodes)
    taken = int(learner.own_episodes[0]) // every
    n_states, n_actions = learner.Q.shape
    if policies.dtype != np.int32 or policies.shape[1:] != (n_states,) or len(policies) < taken:
        raise ValueError("its snapshots do not fit")
    if not ((policies >= 0) & (policies < n_actions)).all():
        raise ValueError("its snapshots hold no actions")
    return {every * (k + 1): policies[k] for k in range(taken)}


def _advanced(rng: np.random.Generator, state: Any) -> np.random.Generator:
    """A generator moved on to a state."""
    rng.bit_generator.state = rng_from_dict(state).bit_generator.state
    return rng


def _fill(learner: Any, learned: Arrays) -> None:
    for key, values in learned.items():
        own = getattr(learner, key)
        if values.shape != own.shape or values.dtype != own.dtype or not np.isfinite(values).all():
            raise ValueError(f"its {key} does not fit")
        own[...] = values
