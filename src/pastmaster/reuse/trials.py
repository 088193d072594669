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
from pastmaster.reuse.episodes import Trial
from pastmaster.reuse.problem import Problem
from pastmaster.reuse.q_learning import QLearning
from pastmaster.reuse.selector import Selector
from pastmaster.reuse.snapshots import Snapshots
from pastmaster.reuse.trial import SELECTORS, Plan
from pastmaster.values import Bounds

Arrays = Mapping[str, npt.NDArray[Any]]
LEARNED = ("Q", "visits", "own_episodes")


def saved_trials(
    folder: Path, plan: Plan, fresh: Any, streams: Sequence[np.random.Generator]
) -> parallel.Saved[np.random.Generator, Trial]:
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


def _to_arrays(trials: list[Trial]) -> dict[str, npt.NDArray[Any]]:
    """A chunk's trials."""
    arrays = {key: np.stack([getattr(trial.learner, key) for trial in trials]) for key in LEARNED}
    for key in ("returns", "arms"):
        arrays[key] = np.stack([getattr(trial, key) for trial in trials])
    sums = [trial.undiscounted for trial in trials if trial.undiscounted is not None]
    if sums:
        arrays["undiscounted"] = np.stack(sums)
    words = []
    for i, trial in enumerate(trials):
        policies, selector = trial.snapshots.policies, trial.selector
        assert isinstance(selector, Selector)
        arrays[f"snapshots_{i}"] = np.array([policies[after] for after in sorted(policies)], np.int32)
        words.append(
            {
                "selector": selector.to_dict(),
                "learner_rng": rng_to_dict(trial.learner.rng),
                "bounds": trial.bounds,
                "begun": trial.begun,
                "widened": trial.widened,
                "snapshots": sorted(policies),
            }
        )
    return arrays | {"words": parallel.as_text(words)}


def _from_arrays(problem: Problem, arrays: Arrays, streams: Sequence[np.random.Generator]) -> list[Trial]:
    """The trials of these streams, as ``_to_arrays`` wrote them."""
    trials = []
    for i, (stream, word) in enumerate(zip(streams, parallel.from_text(arrays["words"]), strict=True)):
        # as the trial did, so that they can be spawned on; the stream is not touched, the trial may have to be run
        selector_rng, _, learner_rng = deepcopy(stream).spawn(3)
        selector = SELECTORS[word["selector"]["selector"]].from_dict(word["selector"])
        selector._rng = _advanced(selector_rng, word["selector"]["rng"])
        learner = problem.new_learner(learner_rng)
        _advanced(learner_rng, word["learner_rng"])
        for key in LEARNED:
            getattr(learner, key)[...] = arrays[key][i]
        snapshots = Snapshots(arrays["returns"].shape[1])
        snapshots.own_episodes = int(learner.own_episodes[0])
        snapshots.policies = dict(zip(word["snapshots"], arrays[f"snapshots_{i}"], strict=True))
        bounds = None if word["bounds"] is None else Bounds(*word["bounds"])
        sums = arrays["undiscounted"][i] if "undiscounted" in arrays else None
        trials.append(
            Trial(
                selector, learner, arrays["returns"][i], arrays["arms"][i], snapshots, bounds, word["begun"],
                word["widened"], sums,
            )
        )  # fmt: skip
    return trials


def _advanced(rng: np.random.Generator, state: Any) -> np.random.Generator:
    """A generator moved on to a state."""
    rng.bit_generator.state = rng_from_dict(state).bit_generator.state
    return rng
