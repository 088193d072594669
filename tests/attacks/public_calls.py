"""The public functions and methods, and for each a recipe: how to call it rightly, in a few milliseconds.

A fuzzer takes a recipe, replaces some of its arguments by odd values, and calls. ``public_names`` walks what is public,
so that a test can tell which name has no recipe yet.
"""

from __future__ import annotations

import copy
import importlib.util
import inspect
import itertools
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from made_up import write_scenario
from onnx_models import mlp

import pastmaster as pm
from pastmaster import domains, estimation, policies, service, tasks, testing
from pastmaster.client import Client
from pastmaster.clustering import Question, mhav
from pastmaster.continual import JsonLines, Progress, TensorBoard
from pastmaster.reuse import QLearner
from pastmaster.values import CrossValues, task_bounds

ROOMS = (
    "client", "clustering", "continual", "estimation", "policies", "repository", "reuse", "service", "solving", "tasks",
    "testing", "values",
)  # fmt: skip
MODULES = ("clustering.mhav", *(f"domains.{name}" for name in domains.__all__))
ONNX = importlib.util.find_spec("onnxruntime") is not None
JAX = importlib.util.find_spec("jax") is not None
ONNX_SETTINGS = {
    "observations": {"": [[4], "float32", 0]}, "inputs": {"": "obs"}, "output": "out", "state": {}, "layout": None,
    "actions": {
        "kind": "Discrete", "shape": [], "dtype": "int64", "start": 0, "choices": [2], "low": None, "high": None,
    },
    "normalise": None,
}  # fmt: skip
EXEMPT = {
    "errors": "ContractError DamagedError InvalidInputError PastmasterError RepositoryError ServiceError TaskError",
    "records that calls return, made by the library": (
        "Assignment Bounds Clustering ContinualRun CrossValueEstimate LowerBound RegretGuarantee Sensitivity Solution "
        "KeepCurve TransferRun clustering.Covered clustering.Doubt clustering.OverAll clustering.Stability "
        "clustering.mhav.Minimum continual.Reclustered continual.TaskDone "
        "estimation.EpisodeRange estimation.Estimate repository.Checked repository.ClusteringRecord repository.Damage "
        "repository.PolicyRecord repository.Records repository.StoredRun repository.Stream repository.TaskRecord "
        "policies.NetworkStack reuse.Advice reuse.Advice.why reuse.QLearner Episode"
    ),
    "how the library makes those": (
        "Clustering.of ContinualRun.of TransferRun.of clustering.OverAll.of clustering.OverAll.told "
        "continual.Reclustered.of continual.TaskDone.of "
        "repository.ClusteringRecord.of repository.PolicyRecord.of repository.StoredRun.of repository.TaskRecord.of "
        "policies.OnnxPolicy.misfit policies.OnnxPolicy.try_out "
        "Bounds.joined Chain.rungs Clustering.of_columns clustering.Question.check clustering.Question.check_asked "
        "clustering.Question.counts clustering.Question.size_cost GymTask.environment GymTask.vector_environment "
        "JaxTask.environment JaxTask.vector_environment JaxTask.watch "
        "repository.ClusteringRecord.arrays repository.ClusteringRecord.cells repository.ClusteringRecord.read "
        "repository.ClusteringRecord.kept_policies repository.Stream.commit repository.Stream.cluster "
        "repository.Stream.keep "
        "repository.StoredRun.is_of reuse.QLearner.unlearn"
    ),
    "protocols: what a person brings": (
        "policies.Policy policies.Policy.act reuse.Learner reuse.Learner.act reuse.Learner.learn reuse.LearnerSettings "
        "reuse.LearnerSettings.start reuse.SelectorProtocol reuse.SelectorProtocol.ask reuse.SelectorProtocol.tell"
    ),
    "readers, which have attacks of their own": "load_onnx load_sb3 policies.from_sb3 policies.normalisation_of",
    "what needs torch, in tests/policies": (
        "policies.NetworkPolicy.from_torch policies.TorchPolicy policies.TorchPolicy.act policies.TorchPolicy.outputs"
    ),
    "environments for gymnasium.make, which calls them": (
        "domains.cart_pole.CartPoleEnv domains.cart_pole.CartPoleVectorEnv domains.cart_pole.CartPoleVectorEnv.reset "
        "domains.cart_pole.CartPoleVectorEnv.step domains.coloured_grid.ColouredGridEnv "
        "domains.surveillance.SurveillanceEnv domains.windy_corridor.WindyCorridorEnv "
        "domains.cart_pole.jax_environment tasks.JaxEnv.step"
    ),
    "a server that runs until it is stopped, in tests/service": "service.serve",
    "what a client gives, and what it calls on a thread": (
        "client.Asked client.EpisodeContext client.Client.in_thread"
    ),
    "what JAX calls while it compiles": (
        "tasks.BraxEnv.reset tasks.BraxEnv.step tasks.BraxEnv.observation_space tasks.BraxEnv.action_space"
    ),
    "pictures of these": (
        "domains.coloured_grid.ColouredGridPicture domains.coloured_grid.ColouredGridPicture.ansi "
        "domains.coloured_grid.ColouredGridPicture.rgb domains.surveillance.SurveillancePicture "
        "domains.surveillance.SurveillancePicture.ansi domains.surveillance.SurveillancePicture.rgb "
        "domains.windy_corridor.WindyCorridorPicture domains.windy_corridor.WindyCorridorPicture.ansi "
        "domains.windy_corridor.WindyCorridorPicture.rgb"
    ),
}  # fmt: skip
"""Why a public name has no recipe."""


class BraxForm:
    """What a Brax environment has."""

    sys, observation_size, action_size = {"gravity": 9.8}, 1, 1

    def reset(self, key: Any) -> Any: ...

    def step(self, state: Any, action: Any) -> Any: ...


def public_names() -> Iterator[str]:
    """Every public function, class and method of a class, by its shortest path."""
    seen: set[int] = set()
    for module in ("", *ROOMS, *MODULES):
        found = importlib.import_module(f"pastmaster.{module}".rstrip("."))
        own = [n for n, v in vars(found).items() if getattr(v, "__module__", "") == found.__name__ and n[0] != "_"]
        for name in getattr(found, "__all__", own):
            thing = getattr(found, name)
            wanted = inspect.isclass(thing) or inspect.isfunction(thing)
            if not wanted or isinstance(thing, types.GenericAlias) or id(thing) in seen:
                continue
            seen.add(id(thing))
            path = f"{module}.{name}".lstrip(".")
            yield path
            if inspect.isclass(thing) and not issubclass(thing, Exception):
                yield from (f"{path}.{method}" for method in _methods(thing))


def _methods(of: type) -> list[str]:
    """The public methods of a class; what a domain's environment inherits is that of ``TabularEnv``."""
    parents = [one for one in of.__mro__ if one.__module__.startswith("pastmaster") and of is not one]
    ours = [of] if issubclass(of, pm.TabularEnv) else [of, *parents]
    found = {
        name
        for one in ours
        for name, value in vars(one).items()
        if name[0] != "_" and (inspect.isfunction(value) or isinstance(value, classmethod | staticmethod))
    }
    return sorted(found)


@dataclass(frozen=True)
class Recipe:
    """How to call a function: ``function(**arguments())``; ``work`` are arguments where a large number is much work.

    ``positional`` arguments are passed by place.
    """

    function: Callable[..., Any]
    arguments: Callable[[], dict[str, Any]] = dict
    work: frozenset[str] = frozenset()
    positional: tuple[str, ...] = ()
    weight: float = 1.0
    tidy: Callable[[Any], None] | None = field(default=None)

    def call(self, arguments: Mapping[str, Any]) -> Any:
        """What the function returns."""
        named = {name: value for name, value in arguments.items() if name not in self.positional}
        return self.function(*(arguments[name] for name in self.positional), **named)


class World:
    """Right arguments, made once in a process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.opened, self.used = folder, 0, 0
        self.mdp = pm.TabularMDP(
            [[0, 1], [2, 0], [2, 2]], [[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]],
            terminated=[[False, False], [True, False], [True, True]], gamma=0.5, horizon=4, name="small",
        )  # fmt: skip
        self.other = pm.TabularMDP(
            [[1, 1], [2, 1], [2, 2]], [[0.0, -1.0], [1.0, 0.0], [0.0, 0.0]],
            terminated=[[False, False], [True, False], [True, True]], gamma=0.5, horizon=4, name="other",
        )  # fmt: skip
        self.random = pm.TabularMDP(
            [[[0, 1], [1, 2]]] * 3, [[[0.0, 1.0], [2.0, 0.0]]] * 3,
            probability=[[[0.5, 0.5], [0.25, 0.75]]] * 3, gamma=0.5, horizon=4, start=[0.5, 0.5, 0.0], name="random",
        )  # fmt: skip
        self.tasks = [self.mdp, self.other, self.random]
        self.U = np.array([[4.0, 2.0, 1.0], [1.0, 3.0, 2.5], [0.0, 2.0, 2.0]])
        self.distance = np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 8.0], [9.0, 8.0, 0.0]])
        self.cart = pm.GymTask("pastmaster/CartPole-v0", {"length": 0.7}, gamma=0.9, horizon=3)
        self.chance = pm.GymTask(Dice, gamma=0.9, horizon=3, reward_range=(0.0, 1.0), time_limit=None)
        if JAX:
            self.pole = importlib.import_module("pastmaster.domains.jax_cart_pole").CartPole()
        self.clustering = pm.Clustering.from_labels(self.distance, [0, 0, 1], episodes=100, span=1.0)
        self.run = pm.transfer(self.mdp, [[0, 0, 0], [1, 0, 1]], episodes=6, trials=2, rng=0)
        self.estimate = pm.estimate_cross_values(
            [self.random, self.random], [[0, 0, 0], [1, 1, 1]], budget=50, rng=0, paired=True, bounds=(-10, 10),
            clustering={"episodes": 100, "restarts": 1, "iterations": 50},
        )  # fmt: skip
        self.network = policies.NetworkPolicy([([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]], [0.0, 0.0])])
        self.onnx = policies.OnnxPolicy(mlp(), ONNX_SETTINGS)
        self.box = policies.NetworkPolicy([(np.eye(2), np.zeros(2))], head="clip", low=[-1.0, -1.0], high=[1.0, 1.0])
        self.solution = pm.solve(self.mdp)
        with self.repository() as stored:
            agent = pm.ContinualTransfer(stored, episodes=3, recluster_every=2, rng=0, **CHEAP)
            self.continual = agent.run([self.mdp, self.other])
        served = self.repository()
        service.make_task(served, "site", sources=["a", "b"], bounds=(0.0, 1.0), seed=0)
        self.serving = service.started(served)  # on a thread of this process, until it ends
        self.client = Client(self.serving.__enter__(), patience=0.0)
        self.client.ask("site")
        served.add(self.mdp)
        self.digest = served.policy_records()[0].digest
        self.made: pm.Repository | None = None
        self.damaged: list[Any] = []

    def repository(self) -> pm.Repository:
        """A new repository."""
        self.opened += 1
        return pm.Repository(self.folder / f"{self.opened}.db")

    def damage(self) -> list[Any]:
        """What calls have done to repositories that are no longer used."""
        found, self.damaged = self.damaged, []
        return found

    @property
    def own_policy(self) -> int:
        """The id of a stored policy; the tasks may have been removed."""
        return next((record.own_policy for record in self.stored.records()), 1)

    @cached_property
    def exported(self) -> Path:
        """A folder that holds a repository."""
        return self.stored.export(self.folder / "exported")

    @cached_property
    def scenario(self) -> Path:
        """The folder of an ASlib scenario."""
        return write_scenario(self.folder / "scenario")

    @property
    def stored(self) -> pm.Repository:
        """A repository with three tasks, made anew now and then: calls change it."""
        self.used += 1
        if self.made is not None and self.used % 40:
            return self.made
        if self.made is not None:
            self.damaged += self.made.check()
            self.made.close()
        self.made = self.repository()
        for task in self.tasks:
            self.made.add(task)
        self.made.cluster(n_clusters=1, rng=0, restarts=1, iterations=10)
        return self.made


NUMBERS = itertools.count()
CHEAP: dict[str, Any] = {"clustering": {"restarts": 1, "iterations": 20}}


class Dice(gym.Env[Any, Any]):
    """An environment without a table: a die decides the reward."""

    observation_space = gym.spaces.Discrete(3)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return int(self.np_random.integers(3)), float(self.np_random.random()), False, False, {}


@cache
def world() -> World:
    """This process's own."""
    return World(Path(tempfile.mkdtemp(prefix="fuzzed")))


def _selector(of: type[Any], **more: Any) -> Any:
    known = {"experience": [[0.9, 0.1], [0.2, 0.8]]} if of.informed else {}
    return of(2, 50, bounds=(0.0, 1.0), rng=0, **known, **more)


def _asked(of: type[Any]) -> tuple[Any, Any]:
    selector = _selector(of)
    return selector, selector.ask()


SELECTORS = (pm.Exp3Transfer, pm.TsallisINF, pm.RegretBalancing, pm.Informed, pm.ProbabilisticPolicyReuse)
KNOWN = [[0.9, 0.1], [0.2, 0.8], [0.5, 0.4]]
OWN_ARGUMENTS: dict[type[Any], dict[str, Any]] = {
    pm.Exp3Transfer: {"beta": 0.1, "elimination": "paper", "delta": 0.1, "check_every": 5, "clip": False},
    pm.TsallisINF: {"estimator": "reduced-variance", "elimination": "none", "delta": 0.1, "check_every": 5},
    pm.RegretBalancing: {"kappa": 0.25, "preference": 20.0, "delta": 0.1, "check_every": 5, "clip": False},
    pm.Informed: {"experience": KNOWN, "kappa": 0.25, "preference": 20.0, "delta": 0.1},
    pm.ProbabilisticPolicyReuse: {"psi": 1.0, "upsilon": 0.95, "temperature": 0.0, "temperature_step": 0.05},
}


def _of_selectors() -> Iterator[tuple[str, Recipe]]:
    for one in SELECTORS:

        def made(one: Any = one) -> dict[str, Any]:
            return {"n_sources": 2, "episodes": 50, "bounds": (0.0, 1.0), "rng": 0} | OWN_ARGUMENTS[one]

        def use(one: Any = one, **arguments: Any) -> Any:
            selector = one(**arguments)
            for _ in range(3):
                selector.tell(selector.ask(), selector.bounds.lower)
            return selector, selector.probabilities, selector.regret_guarantee(), selector.to_dict()

        def tell(one: Any = one, **arguments: Any) -> Any:
            selector, asked = _asked(one)
            arguments.setdefault("episode", asked)
            selector.tell(**{"value": 0.5} | arguments)
            return selector

        def tell_of(one: Any = one) -> dict[str, Any]:
            shared = {"likelihood": [1.0, 1.0, 1.0]}
            return {"episode": _asked(one)[1], "value": 0.5} | shared

        def cancel(one: Any = one, **arguments: Any) -> Any:
            selector, _ = _asked(one)
            selector.cancel(**arguments)
            return selector

        def reread(one: Any = one, **arguments: Any) -> Any:
            return one.from_dict(**arguments)

        name = one.__name__
        yield name, Recipe(use, made)
        yield f"{name}.tell", Recipe(tell, tell_of)
        yield f"{name}.cancel", Recipe(cancel, lambda one=one: {"episode": _asked(one)[1]})
        yield f"{name}.ask", Recipe(lambda one=one: _selector(one).ask())
        yield f"{name}.to_dict", Recipe(lambda one=one: _selector(one).to_dict())
        yield f"{name}.to_dict_alone", Recipe(lambda one=one: _selector(one).to_dict_alone())
        yield (
            f"{name}.pending",
            Recipe(lambda one=one, **given: _selector(one).pending(**given), lambda: {"numbers": [0]}),
        )
        yield f"{name}.arm_of", Recipe(lambda one=one, **given: _selector(one).arm_of(**given), lambda: {"number": 0})
        yield f"{name}.start_clipping", Recipe(lambda one=one: _selector(one).start_clipping())
        yield f"{name}.refuses", Recipe(lambda value, one=one: _selector(one).refuses(value), lambda: {"value": 0.5})
        yield (
            f"{name}.regret_guarantee",
            Recipe(lambda at_once, one=one: _selector(one).regret_guarantee(at_once), lambda: {"at_once": 2}),
        )
        yield f"{name}.from_dict", Recipe(reread, lambda one=one: {"state": _selector(one).to_dict()})


def _distances(**more: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"distance": world().distance, "episodes": 100.0, "span": 2.0, "directed": False} | more


def _of_clustering() -> Iterator[tuple[str, Recipe]]:
    labels = [0, 0, 1]
    search = {"rng": 0, "kind": "average", "restarts": 2, "iterations": 30, "variant": "default", "time_limit": 2.0}
    certified = {"certify": True, "certify_seconds": 0.05, "n_jobs": 1, "executor": None, "progress": False}
    yield "clustering_cost", Recipe(pm.clustering_cost, _distances(labels=labels, kind="average"))
    yield "cost_lower_bound", Recipe(pm.cost_lower_bound, _distances(labels=labels, time_limit=0.05))
    yield "exhaustive_clustering", Recipe(pm.exhaustive_clustering, _distances(kind="average"))
    yield "greedy_clustering", Recipe(pm.greedy_clustering, _distances(rng=0, thresholds=[0.0, 2.0]))
    yield (
        "search_clusterings",
        Recipe(pm.search_clusterings, _distances(**search, **certified), frozenset({"restarts", "iterations"})),
    )
    asked = {"rng": 0, "restarts": 1, "iterations": 20}
    yield (
        "search_clusterings, policies",
        Recipe(
            pm.search_clusterings,
            lambda: {"distance": world().distance, "n_clusters": 2, "directed": True, "chain": pm.Chain()} | asked,
            frozenset({"restarts", "iterations"}),
        ),
    )
    yield (
        "search_clusterings, radius",
        Recipe(
            pm.search_clusterings,
            lambda: {"distance": world().distance, "max_radius": 2.0} | asked,
            frozenset({"restarts", "iterations"}),
        ),
    )
    yield (
        "sensitivity",
        Recipe(
            pm.sensitivity,
            lambda: {"distance": world().distance, "episodes": [10, 100], "spans": [1.0]} | asked,
            frozenset({"restarts", "iterations"}),
        ),
    )
    yield "regret_bound", Recipe(pm.regret_bound, lambda: {"c": [1, 4], "episodes": 100, "span": 1.0})
    yield "Chain", Recipe(pm.Chain, lambda: {"ladder": [1, 2], "alpha": 0.1, "beta": 0.8, "up": 0.5, "theta": 1.0})
    yield (
        "clustering.Question",
        Recipe(
            lambda **question: Question(**question).about("example", world().distance),
            lambda: {"episodes": 10.0, "span": 1.0, "n_clusters": 2, "directed": False, "kind": "average"},
        ),
    )
    yield (
        "clustering.Question.about",
        Recipe(
            lambda distance: Question(n_clusters=2).about("example", distance), lambda: {"distance": world().distance}
        ),
    )
    yield (
        "assign",
        Recipe(pm.assign, lambda: {"clustering": world().clustering, "distance_rows": [[8.0, 9.0, 2.0]]}),
    )
    yield "Clustering.from_labels", Recipe(pm.Clustering.from_labels, _distances(labels=labels, kind="average"))
    yield (
        "Clustering.named",
        Recipe(
            lambda **names: world().clustering.named(**names)._repr_html_(),
            lambda: {"tasks": ["a", "b", "c"], "policies": ["d", "e", "f"]},
        ),
    )
    for method, name in (("members", "i"), ("task", "i"), ("policy", "j")):
        yield (
            f"Clustering.{method}",
            Recipe(
                lambda method=method, **index: getattr(world().clustering, method)(**index),
                lambda name=name: {name: 0},
            ),
        )
    told = {"policies": ["d", "e", "f"], "weights": [1, 2, 3], "never_keep": [1], "time_limit": 1.0, "rng": 0}
    told |= {"tasks": ["a", "b", "c"], "must_keep": ["d"], "lower_is_better": False, "certify": True}
    for question in ({"k": 1}, {"max_loss": 5.0}, {"price": 0.5}):
        yield f"keep, {next(iter(question))}", Recipe(pm.keep, lambda q=question: {"scores": world().U} | told | q)
    paper = {"episodes": 10, "span": 1.0, "time_limit": 0.1, "rng": 0}
    measured = {"price": "measured", "episodes": 5}
    yield "keep, measured", Recipe(pm.keep, lambda: {"scores": world().U.tolist()} | measured, weight=0.2)
    yield "keep", Recipe(pm.keep, lambda: {"scores": world().U.tolist()} | paper, weight=0.05)
    yield "keep_curve", Recipe(pm.keep_curve, lambda: {"scores": world().U, "most": 2} | told)
    table = {"tasks": ["a", "b", "c"], "policies": ["d", "e", "f"], "lower_is_better": True}
    yield (
        "Scores",
        Recipe(
            lambda **parts: pm.keep(pm.Scores(**parts), k=1, rng=0).doubts(),
            lambda: {"values": world().U, "standard_errors": world().U} | table,
        ),
    )
    yield "read_aslib", Recipe(pm.read_aslib, lambda: {"folder": world().scenario, "penalty": 10.0})
    yield (
        "Clustering.stability",
        Recipe(
            lambda **asked: pm.keep(pm.Scores(world().U, standard_errors=world().U), k=2, rng=0).stability(**asked),
            lambda: {"resamples": 3, "rng": 0},
        ),
    )
    for method in ("doubts", "served"):
        yield f"Clustering.{method}", Recipe(lambda method=method: getattr(pm.keep(world().U, k=2, rng=0), method)())
    yield "KeepCurve.to_frame", Recipe(lambda: pm.keep_curve(world().U, rng=0).to_frame())
    yield "KeepCurve.plot", Recipe(lambda: pm.keep_curve(world().U, rng=0).plot(), weight=0.05)
    yield "Clustering.table", Recipe(lambda: world().clustering.table())
    yield "Clustering.to_frame", Recipe(lambda: world().clustering.to_frame())
    yield "Clustering.plot", Recipe(lambda: world().clustering.plot(), weight=0.05)
    yield "Assignment.to_frame", Recipe(lambda: pm.assign(world().clustering, [[8, 9, 2]]).to_frame())
    yield (
        "LowerBound.to_frame",
        Recipe(lambda: pm.cost_lower_bound(world().distance, episodes=9, span=1.0, time_limit=0.05).to_frame()),
    )
    yield (
        "Sensitivity.to_frame",
        Recipe(lambda: pm.sensitivity(world().distance, episodes=[9], spans=[1.0], **asked).to_frame()),
    )
    yield (
        "clustering.mhav.minimize",
        Recipe(
            mhav.minimize,
            lambda: {
                "cost": lambda y: 1.0, "propose": lambda y, rng: (rng.random(), 0.0), "initial": 9,
                "ladder": [0.1, 1.0], "iterations": 20, "rng": 0, "weights": [0.0, 0.5], "alpha": 0.1, "beta": 0.8,
                "up": 0.5,
            },
            frozenset({"iterations"}),
        ),
    )  # fmt: skip


def _of_tasks() -> Iterator[tuple[str, Recipe]]:
    yield (
        "TabularMDP",
        Recipe(
            pm.TabularMDP,
            lambda: {
                "next_state": np.array([[[0, 1], [1, 2]]] * 3), "reward": np.array([[[0.0, 1.0], [2.0, 0.0]]] * 3),
                "probability": np.array([[[0.5, 0.5], [0.25, 0.75]]] * 3), "terminated": np.zeros((3, 2, 2), bool),
                "gamma": 0.5, "start": [0.5, 0.5, 0.0], "horizon": 4, "name": "a", "params": {"a": 1},
            },
        ),
    )  # fmt: skip
    yield (
        "TabularMDP, solved",
        Recipe(
            lambda **arguments: pm.solve(pm.TabularMDP(**arguments)),
            lambda: {"next_state": [[0, 1], [1, 1]], "reward": [[0.0, 1.0], [2.0, 0.0]], "gamma": 0.5, "start": 0},
        ),
    )
    yield (
        "TabularMDP.from_gymnasium",
        Recipe(
            pm.TabularMDP.from_gymnasium,
            lambda: {"env": world().mdp.to_gymnasium(), "gamma": 0.5, "horizon": 5, "name": "a"},
        ),
    )
    yield (
        "TabularMDP.to_gymnasium",
        Recipe(lambda **mode: world().mdp.to_gymnasium(**mode), lambda: {"render_mode": "ansi"}),
    )
    for method in ("largest_reward", "model", "outcomes", "start_distribution", "to_frame"):
        yield f"TabularMDP.{method}", Recipe(lambda method=method: getattr(world().random, method)())
    yield "TabularEnv", Recipe(pm.TabularEnv, lambda: {"mdp": world().mdp, "render_mode": "ansi", "picture": None})
    yield "TabularEnv.reset", Recipe(lambda **how: world().mdp.to_gymnasium().reset(**how), lambda: {"seed": 0})
    yield "TabularEnv.step", Recipe(_stepped, lambda: {"action": 1})
    yield "TabularEnv.render", Recipe(_rendered)
    yield (
        "GymTask",
        Recipe(
            lambda **arguments: pm.GymTask(**arguments)().reset(seed=0),
            lambda: {
                "env_id": "pastmaster/CartPole-v0", "kwargs": {"length": 0.7}, "gamma": 0.9, "horizon": 5, "name": "a",
                "reward_range": (0.0, 1.0), "time_limit": 5.0, "wrappers": (),
            },
            weight=0.5,
        ),
    )  # fmt: skip
    yield (
        "GymTask, function",
        Recipe(
            lambda **arguments: pm.GymTask(**arguments),
            lambda: {"env_id": Dice, "kwargs": {}, "gamma": 0.9, "horizon": 5, "time_limit": None},
        ),
    )
    yield "GymTask.watch", Recipe(lambda: world().cart.watch())
    if not JAX:
        return
    yield (
        "JaxTask",
        Recipe(
            lambda **arguments: pm.JaxTask(**arguments)().reset(seed=0),
            lambda: {
                "env": "pastmaster/JaxCartPole-v0", "params": {"length": 0.7}, "gamma": 0.9, "horizon": 5, "name": "a",
                "reward_range": (0.0, 1.0), "time_limit": 5.0,
            },
            weight=0.5,
        ),
    )  # fmt: skip
    yield (
        "JaxTask.variants",
        Recipe(
            pm.JaxTask.variants,
            lambda: {
                "env": world().pole, "params": {"length": [0.5, 0.7]}, "gamma": 0.9, "horizon": 5, "names": ["a", "b"],
            },
            weight=0.5,
        ),
    )  # fmt: skip
    yield (
        "tasks.JaxEnv",
        Recipe(
            lambda **arguments: tasks.JaxEnv(**arguments).reset(seed=0),
            lambda: {"env": world().pole, "params": {"length": 0.7}},
            weight=0.5,
        ),
    )
    yield "tasks.BraxEnv", Recipe(tasks.BraxEnv, lambda: {"env": BraxForm()}, weight=0.5)
    yield "tasks.JaxEnv.reset", Recipe(lambda **how: tasks.JaxEnv(world().pole).reset(**how), lambda: {"seed": 0})


def _stepped(**arguments: Any) -> Any:
    env = world().random.to_gymnasium()
    env.reset(seed=0)
    return env.step(**arguments)


def _rendered() -> Any:
    env = world().mdp.to_gymnasium("ansi")
    env.reset(seed=0)
    return env.render()


def _of_values() -> Iterator[tuple[str, Recipe]]:
    actions = [[0, 0, 0], [1, 0, 1]]
    mixed = np.full((3, 2), 0.5)
    yield "solve", Recipe(pm.solve, lambda: {"task": world().random, "tol": 1e-9})
    yield "Solution.act", Recipe(lambda **given: world().solution.act(**given), lambda: {"observations": [0, 2]})
    yield "Solution.to_frame", Recipe(lambda: world().solution.to_frame())
    yield "evaluate", Recipe(pm.evaluate, lambda: {"task": world().random, "policy": mixed.copy()})
    yield (
        "return_spread",
        Recipe(
            pm.return_spread, lambda: {"tasks": [world().random, world().mdp], "policies": [[0, 1, 0], mixed.copy()]}
        ),
    )
    yield "evaluate, actions", Recipe(pm.evaluate, lambda: {"task": world().mdp, "policy": [0, 1, 0]})
    yield (
        "cross_values",
        Recipe(
            pm.cross_values,
            lambda: {
                "tasks": list(world().tasks), "policies": [*copy.deepcopy(actions), mixed.copy()], "n_jobs": 1,
                "executor": None, "progress": False,
            },
        ),
    )  # fmt: skip
    yield "cross_values, own", Recipe(pm.cross_values, lambda: {"tasks": list(world().tasks), "save": None})
    yield "policy_distance", Recipe(pm.policy_distance, lambda: {"U": world().U, "directed": False, "paired": True})
    yield "return_bounds", Recipe(pm.return_bounds, lambda: {"tasks": list(world().tasks), "kind": "exact"})
    yield "values.task_bounds", Recipe(task_bounds, lambda: {"task": world().cart})
    yield "model_difference", Recipe(pm.model_difference, lambda: {"one": world().mdp, "other": world().random})
    yield "Bounds.to_frame", Recipe(lambda: pm.Bounds(0.0, 1.0).to_frame())
    yield "Bounds.with_span", Recipe(lambda: pm.Bounds(0.0, 0.0).with_span())
    yield "values.CrossValues", Recipe(CrossValues, lambda: {"U": world().U, "paired": True})


def _of_estimation() -> Iterator[tuple[str, Recipe]]:
    def cheap(**more: Any) -> dict[str, Any]:
        return {"budget": 60, "rng": 0, "n_jobs": 1, "executor": None, "progress": False} | more

    clustered = {"clustering": {"episodes": 100, "restarts": 1, "iterations": 20}, "paired": True}
    yield (
        "estimate_cross_values",
        Recipe(
            pm.estimate_cross_values,
            lambda: cheap(
                tasks=[world().random, world().random], policies=[[0, 0, 0], [1, 1, 1]], bounds=(-9.0, 9.0),
                allocation="uniform", confidence=0.9, precision=0.1, **copy.deepcopy(clustered),
            ),
            frozenset({"budget"}), weight=1.0,
        ),
    )  # fmt: skip
    yield (
        "estimate_cross_values, environments",
        Recipe(
            pm.estimate_cross_values,
            lambda: cheap(tasks=[world().chance], policies=[[0, 0, 0], lambda x: 1]),
            frozenset({"budget"}),
        ),
    )
    yield (
        "estimation.estimate_values",
        Recipe(
            estimation.estimate_values,
            lambda: {"task": world().random, "policies": [[0, 0, 0], np.full((3, 2), 0.5)], "episodes": 5, "seed": 0},
            frozenset({"episodes"}),
        ),
    )
    yield (
        "estimation.episode_returns",
        Recipe(
            estimation.episode_returns,
            lambda: {
                "task": world().random, "policies": [policies.TablePolicy([0, 0, 0])],
                "ranges": [estimation.EpisodeRange(0, 0, 3)], "seed": 0,
            },
        ),
    )  # fmt: skip
    yield (
        "CrossValueEstimate.distance",
        Recipe(lambda **how: world().estimate.distance(**how), lambda: {"directed": True}),
    )
    yield (
        "CrossValueEstimate.intervals",
        Recipe(lambda **how: world().estimate.intervals(**how), lambda: {"confidence": 0.9}),
    )
    yield "CrossValueEstimate.gap", Recipe(lambda **how: world().estimate.gap(**how), lambda: {"time_limit": 0.05})
    yield "CrossValueEstimate.to_frame", Recipe(lambda: world().estimate.to_frame())
    yield "CrossValueEstimate.scores", Recipe(lambda: world().estimate.scores())
    yield "CrossValueEstimate.plot", Recipe(lambda: world().estimate.plot(), weight=0.05)


def _of_reuse() -> Iterator[tuple[str, Recipe]]:
    def given(**more: Any) -> dict[str, Any]:
        sources = {"left": [0, 0, 0], "right": np.full((3, 2), 0.5)}
        return {
            "task": world().mdp, "sources": sources, "episodes": 5, "rng": 0, "bounds": (-9.0, 9.0),
            "selector": "tsallis-inf", "learner": pm.QLearning(), "trials": 1, "share": False, "on_violation": "raise",
            "n_jobs": 1, "executor": None, "save": None, "progress": False,
        } | more  # fmt: skip

    work = frozenset({"episodes", "trials"})
    yield "transfer", Recipe(pm.transfer, given, work)
    known = {"values": [[0.9, 0.1], [0.2, 0.8]], "errors": [[0.1, 0.1], [0.0, 0.2]], "spread": [[0.0, 0.5], [0.1, 0.3]]}
    yield "Experience", Recipe(pm.Experience, lambda: known | {"best": [1.0, 0.9], "sources": ["left", "right"]})
    yield "Experience.to_dict", Recipe(lambda: pm.Experience(**known).to_dict())
    yield (
        "transfer, experience",
        Recipe(pm.transfer, lambda: given(selector=None, experience=pm.Experience(**known)), work),
    )
    yield (
        "transfer, environment",
        Recipe(
            pm.transfer,
            lambda: given(task=Dice(), sources=[[0, 0, 0], lambda x: 1], gamma=0.9, horizon=3, bounds="running"),
            work,
        ),
    )
    yield "transfer, task", Recipe(pm.transfer, lambda: given(task=world().chance, bounds=None, selector=None), work)
    for method, name in (("curve", "window"), ("shares", "window")):
        yield (
            f"TransferRun.{method}",
            Recipe(lambda method=method, **w: getattr(world().run, method)(**w), lambda name=name: {name: 2}),
        )
    yield (
        "TransferRun.plot",
        Recipe(lambda **how: world().run.plot(**how), lambda: {"optimum": 1.0}, weight=0.05),
    )
    yield "TransferRun.to_frame", Recipe(lambda: world().run.to_frame())
    yield (
        "plot_curves",
        Recipe(pm.plot_curves, lambda: {"runs": {"a": world().run}, "optimum": 1.0}, weight=0.05),
    )
    yield (
        "QLearning",
        Recipe(
            pm.QLearning,
            lambda: {"step_size": [0.5, 0.1], "epsilon": pm.decay(0.1, 5), "initial": 0.0, "learn_from": "own"},
            weight=0.5,
        ),
    )

    def spaces() -> dict[str, Any]:
        return {
            "observations": gym.spaces.Discrete(3), "actions": gym.spaces.Discrete(2), "gamma": 0.5,
            "rng": np.random.default_rng(0),
        }  # fmt: skip

    yield "QLearning.start", Recipe(pm.QLearning().start, spaces)
    yield "FixedPolicy", Recipe(pm.FixedPolicy, lambda: {"policy": [0, 1, 1]})
    yield "FixedPolicy.start", Recipe(pm.FixedPolicy([0, 1, 1]).start, spaces)
    yield "FixedPolicy.act", Recipe(pm.FixedPolicy([0, 1, 1]).act, lambda: {"observation": 1})
    yield "FixedPolicy.end_own_episode", Recipe(pm.FixedPolicy([0, 1, 1]).end_own_episode)
    yield (
        "FixedPolicy.learn",
        Recipe(
            pm.FixedPolicy([0, 1, 1]).learn,
            lambda: {"observation": 0, "action": 0, "reward": 0.0, "next_observation": 1, "terminated": False},
        ),
    )
    yield (
        "SB3Learning",
        Recipe(
            pm.SB3Learning,
            lambda: {"algorithm": "DQN", "learn_from": "own"},
        ),
    )
    box = gym.spaces.Box(-1.0, 1.0, (2,))
    yield (
        "SB3Learning.start",
        Recipe(pm.SB3Learning("DQN").start, lambda: spaces() | {"observations": copy.deepcopy(box)}, weight=0.05),
    )
    yield "decay", Recipe(pm.decay, lambda: {"first": 0.1, "half": 5.0})
    yield "reuse.QLearner.act", Recipe(lambda **how: _learner().act(**how), lambda: {"state": 1, "epsilon": 0.5})
    yield (
        "reuse.QLearner.likelihood",
        Recipe(lambda **how: _learner().likelihood(**how), lambda: {"state": 1, "action": 0}),
    )
    yield (
        "reuse.QLearner.learn",
        Recipe(
            lambda **how: _learner().learn(**how),
            lambda: {"state": 0, "action": 0, "reward": 0.0, "next_observation": 1, "terminated": False},
        ),
    )
    yield "reuse.QLearner.end_own_episode", Recipe(lambda: _learner().end_own_episode())


def _learner() -> QLearner:
    return QLearner(pm.QLearning(), 3, 2, 0.5, np.random.default_rng(0))


def _of_policies() -> Iterator[tuple[str, Recipe]]:
    yield "policies.TablePolicy", Recipe(policies.TablePolicy, lambda: {"table": np.full((3, 2), 0.5)})
    yield "policies.TablePolicy, actions", Recipe(policies.TablePolicy, lambda: {"table": [0, 1, 1]})
    yield (
        "policies.TablePolicy.act",
        Recipe(
            policies.TablePolicy(np.full((3, 2), 0.5)).act, lambda: {"observations": [0, 2], "uniforms": [0.5, 0.1]}
        ),
    )
    yield (
        "policies.FunctionPolicy",
        Recipe(policies.FunctionPolicy, lambda: {"function": lambda x: 0, "batched": False}),
    )
    yield (
        "policies.FunctionPolicy.act",
        Recipe(policies.FunctionPolicy(lambda x: 0).act, lambda: {"observations": [[1.0], [2.0]]}),
    )
    yield (
        "policies.NetworkPolicy",
        Recipe(
            policies.NetworkPolicy,
            lambda: {
                "layers": [(np.eye(2), np.zeros(2))], "activation": "relu", "head": "argmax", "start": 0, "nvec": (),
                "one_hot": False, "normalise": {"mean": [0.0, 0.0], "var": [1.0, 1.0]},
            },
        ),
    )  # fmt: skip
    yield (
        "policies.NetworkPolicy, box",
        Recipe(
            policies.NetworkPolicy,
            lambda: {"layers": [(np.eye(2), np.zeros(2))], "head": "clip", "low": [-1.0, -1.0], "high": [1.0, 1.0]},
        ),
    )
    for method in ("act", "outputs"):
        yield (
            f"policies.NetworkPolicy.{method}",
            Recipe(
                lambda method=method, **how: getattr(world().network, method)(**how),
                lambda: {"observations": np.ones((2, 4))},
            ),
        )
        yield (
            f"policies.NetworkStack.{method}",
            Recipe(
                lambda method=method, **how: getattr(world().network.stack, method)(**how),
                lambda: {"observations": np.ones((1, 2, 4))},
            ),
        )
    yield (
        "policies.NetworkPolicy.from_data",
        Recipe(
            policies.NetworkPolicy.from_data,
            lambda: {"settings": world().box.settings, "weights": world().box.weights},
        ),
    )
    yield (
        "policies.as_policy",
        Recipe(lambda policy: policies.as_policy(policy, "example: policy"), lambda: {"policy": [0, 1, 1]}),
    )
    yield (
        "policies.NetworkPolicy.from_params",
        Recipe(
            policies.NetworkPolicy.from_params,
            lambda: {
                "tree": {"a": {"kernel": np.eye(2), "bias": np.zeros(2)}, "b": {"kernel": np.eye(2)}},
                "layers": ["b", "a"], "activation": "relu", "head": "argmax", "start": 0,
            },
        ),
    )  # fmt: skip
    yield (
        "policies.OnnxPolicy",
        Recipe(policies.OnnxPolicy, lambda: {"model": world().onnx.model, "settings": world().onnx.settings}),
    )
    for method in ("act", "outputs"):
        yield (
            f"policies.OnnxPolicy.{method}",
            Recipe(
                lambda method=method, **how: getattr(world().onnx, method)(**how) if ONNX else how,
                lambda: {"observations": np.ones((2, 4), np.float32)},
            ),
        )
    yield "policies.OnnxPolicy.begin_episode", Recipe(lambda: world().onnx.begin_episode())
    yield "policies.stacked", Recipe(policies.stacked, lambda: {"policies": [world().network, world().network]})
    yield "policies.PredictPolicy", Recipe(policies.PredictPolicy, lambda: {"model": _Model()})
    yield (
        "policies.PredictPolicy.act",
        Recipe(policies.PredictPolicy(_Model()).act, lambda: {"observations": np.ones((2, 4))}),
    )


class _Model:
    """What PredictPolicy takes: an object with ``predict``."""

    def predict(self, observation: Any, deterministic: bool = True) -> tuple[Any, None]:
        return np.zeros(len(observation), np.int64), None


def _of_testing() -> Iterator[tuple[str, Recipe]]:
    spaces = {"observation_space": gym.spaces.Discrete(3), "action_space": gym.spaces.Discrete(2)}
    yield "testing.check_task", Recipe(testing.check_task, lambda: {"task": world().random, "episodes": 1, "seed": 0})
    yield (
        "testing.check_policy",
        Recipe(testing.check_policy, lambda: {"policy": [0, 1, 1], "task": world().mdp, "seed": 0}),
    )
    yield (
        "testing.check_learner",
        Recipe(
            testing.check_learner,
            lambda: {"settings": pm.QLearning(), "steps": 5, "seed": 0} | copy.deepcopy(spaces),
            frozenset({"steps"}),
        ),
    )
    yield (
        "testing.check_selector",
        Recipe(
            testing.check_selector,
            lambda: {"factory": pm.TsallisINF, "n_sources": 2, "episodes": 5, "seed": 0},
            frozenset({"episodes", "n_sources"}),
        ),
    )


def _of_domains() -> Iterator[tuple[str, Recipe]]:
    place = "domains.surveillance"
    s, g, w, c = domains.surveillance, domains.coloured_grid, domains.windy_corridor, domains.cart_pole
    yield f"{place}.groups", Recipe(s.groups, lambda: {"complex": True})
    yield f"{place}.locations", Recipe(s.locations, lambda: {"complex": True})
    yield f"{place}.stand_ins", Recipe(s.stand_ins, lambda: {"location": 3, "complex": True})
    settings = {"gamma": 0.9, "horizon": 5, "escape_ends": True}
    yield f"{place}.task", Recipe(s.task, lambda: {"sequence": [3, 4], "complex": False, **settings})
    many = {"n_tasks": 2, "n_targets": 1, "n_sequences": 2, "rng": 0, "complex": False, **settings}
    yield f"{place}.family", Recipe(s.family, lambda: dict(many))
    yield f"{place}.stream", Recipe(s.stream, lambda: dict(many))
    yield (
        f"{place}.new_tasks",
        Recipe(s.new_tasks, lambda: {"tasks": _surveilled(), "n_tasks": 1, "rng": 0}),
    )
    yield f"{place}.group_sequences", Recipe(s.group_sequences, lambda: {"tasks": _surveilled()})
    place = "domains.coloured_grid"
    yield f"{place}.family", Recipe(g.family, lambda: {"weights": [[1.0, 0.5]], "size": 3, "seed": 0, "gamma": 0.9})
    yield f"{place}.new_tasks", Recipe(g.new_tasks, lambda: {"n_tasks": 2, "rng": 0, "size": 3}, frozenset({"n_tasks"}))
    yield f"{place}.task", Recipe(g.task, lambda: {"weights": (0.2, 0.9), "size": 3, "seed": 0, "horizon": 5})
    yield f"{place}.colours", Recipe(g.colours, lambda: {"size": 3, "seed": 0})
    place = "domains.windy_corridor"
    yield f"{place}.family", Recipe(w.family, lambda: {"corridor": 1, "gamma": 0.9, "horizon": 5}, weight=0.1)
    yield (
        f"{place}.new_tasks",
        Recipe(w.new_tasks, lambda: {"n_tasks": 2, "rng": 0, "corridor": 1}, frozenset({"n_tasks"})),
    )
    yield (
        f"{place}.task",
        Recipe(w.task, lambda: {"goal": 3, "wind": 0.25, "corridor": 1, "horizon": 5, "terminating": True}),
    )
    place = "domains.cart_pole"
    yield (
        f"{place}.family",
        Recipe(c.family, lambda: {"n_tasks": 1, "rng": 0, "gamma": 0.9, "horizon": 5}, frozenset({"n_tasks"})),
    )
    yield (
        f"{place}.task",
        Recipe(c.task, lambda: {"gravity": 9.8, "length": 0.5, "force_mag": 10.0, "gamma": 0.9, "horizon": 5}),
    )


@cache
def _surveilled() -> list[pm.TabularMDP]:
    return [domains.surveillance.task([0]), domains.surveillance.task([1])]


def _of_repository() -> Iterator[tuple[str, Recipe]]:
    def on(method: str) -> Callable[..., Any]:
        return lambda **arguments: getattr(world().stored, method)(**arguments)

    def opened(**arguments: Any) -> Any:
        with pm.Repository(**arguments) as repository:
            return repr(repository)

    def settled(**arguments: Any) -> Any:
        with world().repository() as fresh:
            fresh.add(world().random)
            fresh.set_max_loss(**arguments)

    def imported(**arguments: Any) -> Any:
        with world().repository() as fresh:
            return fresh.import_(**arguments)

    yield (
        "Repository",
        Recipe(opened, lambda: {"url_or_path": world().folder / "0.db", "create": True, "max_loss": None}, weight=0.5),
    )
    yield (
        "Repository.add_many",
        Recipe(on("add_many"), lambda: {"tasks": [world().random], "batch": 2}, frozenset({"batch"})),
    )
    yield "Repository.set_max_loss", Recipe(settled, lambda: {"max_loss": 0.5}, weight=0.5)
    yield (
        "Repository.add",
        Recipe(
            on("add"),
            lambda: {
                "task": world().random, "policy": [0, 1, 1], "name": "a", "source": "a.zip", "provenance": "learned",
                "evaluation_episodes": None, "run": world().run,
            },
            frozenset({"evaluation_episodes"}),
        ),
    )  # fmt: skip
    yield (
        "Repository.replace_policy",
        Recipe(on("replace_policy"), lambda: {"number": 1, "policy": [0, 1, 1], "name": "a", "provenance": "learned"}),
    )
    yield "Repository.remove", Recipe(lambda number: world().stored.remove(number), lambda: {"number": 3})
    yield "Repository.check_family", Recipe(on("check_family"), lambda: {"task": world().mdp})
    for method in ("record", "task"):
        yield f"Repository.{method}", Recipe(on(method), lambda: {"number": 1})
    yield "Repository.policy", Recipe(on("policy"), lambda: {"number": world().own_policy})
    yield "Repository.policy_records", Recipe(on("policy_records"), lambda: {"numbers": [world().own_policy]})
    yield "Repository.experience", Recipe(on("experience"), lambda: {"policies": [world().own_policy]})
    told = {"weights": None, "must_keep": [0], "never_keep": None, "certify": True, "time_limit": 1.0}
    yield "Repository.keep", Recipe(on("keep"), lambda: {"k": 1, "rng": 0} | told)
    asked = {"max_loss": None, "price": 0.1, "episodes": None, "span": None, "rng": 0}
    yield "Repository.keep, price", Recipe(on("keep"), lambda: dict(asked))
    yield (
        "Repository.cluster",
        Recipe(
            on("cluster"),
            lambda: {
                "episodes": 10, "span": 1.0, "directed": True, "method": "search", "rng": 0, "restarts": 1,
                "iterations": 20,
            },
            frozenset({"restarts", "iterations"}),
        ),
    )  # fmt: skip
    yield (
        "Repository.stream",
        Recipe(on("stream"), lambda: {"name": "a", "settings": {"a": 1}, "fresh": {"b": 2}}),
    )
    yield (
        "repository.Stream.sources",
        Recipe(lambda which: world().stored.stream("s", {}, {}).sources(which), lambda: {"which": "all"}),
    )
    for method in ("clusterings", "runs", "to_frame"):
        yield (
            f"repository.Stream.{method}",
            Recipe(lambda method=method: getattr(world().stored.stream("s", {}, {}), method)()),
        )
    yield "repository.Records.to_frame", Recipe(lambda: world().stored.records().to_frame())
    yield (
        "Repository.export",
        Recipe(on("export"), lambda: {"folder": world().folder / f"{next(NUMBERS)}.export"}, weight=0.5),
    )
    yield (
        "Repository.backup",
        Recipe(lambda path: world().stored.backup(path), lambda: {"path": world().folder / f"{next(NUMBERS)}.backup"}),
    )
    yield "Repository.import_", Recipe(imported, lambda: {"folder": world().exported}, weight=0.5)
    for method in (
        "check", "remove_damaged", "cell_policies", "cells", "clustering", "clusterings", "cross_values",
        "named_sources", "policies", "records", "return_bounds", "runs", "source_ids", "sources", "tasks", "to_frame",
    ):  # fmt: skip
        yield f"Repository.{method}", Recipe(on(method), weight=0.1)
    yield "Repository.close", Recipe(lambda: world().repository().close(), weight=0.05)


def _of_continual() -> Iterator[tuple[str, Recipe]]:
    def agent(stream: Any, **arguments: Any) -> Any:
        with world().repository() as repository:
            made = pm.ContinualTransfer(**{"repository": repository} | arguments)
            return made.run(stream)

    yield (
        "ContinualTransfer",
        Recipe(
            lambda **arguments: agent(world().tasks[:2], **arguments),
            lambda: {
                "episodes": 2, "recluster_every": 2, "rng": 0, "sources": "clusters", "bounds": (-9.0, 9.0),
                "model": True, "evaluation_episodes": 2, "name": "a", "hooks": [], "n_jobs": 1,
                "selector": "tsallis-inf",
            } | copy.deepcopy(CHEAP),
            frozenset({"episodes", "evaluation_episodes"}), weight=0.5,
        ),
    )  # fmt: skip
    yield (
        "ContinualTransfer.run",
        Recipe(
            lambda stream: agent(stream, episodes=2, recluster_every=2, rng=0, **CHEAP),
            lambda: {"stream": list(world().tasks[:2])},
            frozenset({"stream"}),
            weight=0.5,
        ),
    )
    yield "ContinualRun.to_frame", Recipe(lambda: world().continual.to_frame())
    yield "ContinualRun.plot", Recipe(lambda: world().continual.plot(), weight=0.05)
    yield "plot_streams", Recipe(pm.plot_streams, lambda: {"runs": {"a": world().continual}}, weight=0.05)
    for hook, name in ((JsonLines, "path"), (TensorBoard, "folder")):
        yield (
            f"continual.{hook.__name__}",
            Recipe(
                lambda hook=hook, **where: hook(**where).close(),
                lambda name=name, hook=hook: {name: world().folder / hook.__name__},
            ),
        )
        yield (
            f"continual.{hook.__name__}.close",
            Recipe(lambda hook=hook: hook(world().folder / hook.__name__).close(), weight=0.05),
        )
    yield "continual.Progress", Recipe(lambda total: Progress(total).close(), lambda: {"total": 3})
    yield "continual.Progress.close", Recipe(lambda: Progress(3).close(), weight=0.05)


def _of_service() -> Iterator[tuple[str, Recipe]]:
    def on(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **arguments: function(**{"repository": world().stored} | arguments)

    def calling(method: str) -> Callable[..., Any]:
        return lambda **arguments: getattr(world().client, method)(**arguments)

    def site(**settings: Any) -> dict[str, Any]:
        return {"name": f"site {next(NUMBERS)}", "sources": ["a", "b"], "bounds": [0.0, 1.0], "seed": 0} | settings

    def a_site() -> str:
        name: str = site()["name"]
        service.make_task(world().stored, **site(name=name))
        return name

    def a_token() -> str:
        name = f"token {next(NUMBERS)}"
        service.add_token(world().stored, name, "read")
        return name

    def an_episode() -> dict[str, Any]:
        return {"task": "site", "episode": world().client.ask("site").number}

    def a_served_site() -> dict[str, Any]:
        made: dict[str, Any] = world().client.make_task(**site())
        return {"name": made["name"]}

    def started(**arguments: Any) -> str:
        with service.started(world().stored, **arguments) as url:
            return url

    def inside(**arguments: Any) -> None:
        with world().client.episode(**arguments) as episode:
            episode.value = 0.5

    settings = {"clip": True, "lease": 5.0, "expired_return": 0.0, "most_open": 10, "learner": "l", "episodes": 5}
    yield "service.make_task", Recipe(on(service.make_task), lambda: site(selector="tsallis-inf", **settings))
    yield "service.remove_task", Recipe(on(service.remove_task), lambda: {"name": a_site()}, weight=0.3)
    yield (
        "service.add_token",
        Recipe(on(service.add_token), lambda: {"name": f"token {next(NUMBERS)}", "role": "read"}, weight=0.5),
    )
    yield "service.revoke_token", Recipe(on(service.revoke_token), lambda: {"name": a_token()}, weight=0.3)
    yield "service.list_tokens", Recipe(service.list_tokens, lambda: {"repository": world().stored}, weight=0.2)
    yield "service.started", Recipe(started, lambda: {"port": 0, "rate": 100.0}, weight=0.1)
    yield (
        "client.Client",
        Recipe(
            lambda **arguments: Client(**arguments).close(),
            lambda: {"url": "http://localhost:1", "token": "t", "timeout": 1.0, "patience": 0.0},
        ),
    )
    asked = {"task": "site"}
    yield "client.Client.ask", Recipe(calling("ask"), lambda: asked | {"lease": 5.0})
    yield "client.Client.ask_many", Recipe(calling("ask_many"), lambda: asked | {"count": 2, "lease": 5.0})
    yield "client.Client.tell", Recipe(calling("tell"), lambda: an_episode() | {"value": 0.5})
    yield (
        "client.Client.tell_many",
        Recipe(calling("tell_many"), lambda: asked | {"returns": {an_episode()["episode"]: 0.5}}),
    )
    yield "client.Client.cancel", Recipe(calling("cancel"), an_episode)
    yield "client.Client.episode", Recipe(inside, lambda: asked | {"lease": 5.0})
    yield "client.Client.state", Recipe(calling("state"), lambda: dict(asked), weight=0.3)
    yield "client.Client.make_task", Recipe(calling("make_task"), site)
    yield "client.Client.remove_task", Recipe(calling("remove_task"), a_served_site, weight=0.3)
    yield "client.Client.policy", Recipe(calling("policy"), lambda: {"digest": world().digest}, weight=0.3)
    yield "client.Client.tasks", Recipe(calling("tasks"), weight=0.1)
    yield "client.Client.close", Recipe(lambda: Client("http://localhost:1").close(), weight=0.05)


@cache
def recipes() -> dict[str, Recipe]:
    """All recipes by the public name; "name, variant" is another one for the same name."""
    groups = (
        _of_selectors, _of_clustering, _of_tasks, _of_values, _of_estimation, _of_reuse, _of_policies, _of_testing,
        _of_domains, _of_repository, _of_continual, _of_service,
    )  # fmt: skip
    return {name: recipe for group in groups for name, recipe in group()}
