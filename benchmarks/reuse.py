"""Policy reuse: episodes against a C loop and a Gymnasium loop, selectors against river and MABWiser."""

from __future__ import annotations

import ctypes
import gc
import itertools
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from mabwiser.mab import MAB, LearningPolicy
from numba import njit
from river import bandit

from benchmarks.measure import Row, machine, show, write
from pastmaster import TabularMDP, return_bounds, solve
from pastmaster.domains import surveillance
from pastmaster.reuse import (
    Exp3Transfer,
    QLearning,
    RegretBalancing,
    TransferRun,
    TsallisINF,
    _layout as layout,
    _selector_kernels as kernels,
    transfer,
)
from pastmaster.reuse.episodes import CompiledEpisodes

EPISODES = 10_000
SEED = 1
SOURCE = Path(__file__).parent / "episodes.c"
Call = Callable[[], Callable[[], Any]]
FLAGS = ("-O3", "-march=native", "-ffp-contract=off")  # the last forbids fused multiply-add, which rounds differently


class Setting(NamedTuple):
    """A new task, the sources to reuse in it, and bounds of a return."""

    name: str
    task: TabularMDP
    sources: list[Any]
    bounds: Any

    def run(self, **options: Any) -> TransferRun:
        sources, rng = options.pop("sources", self.sources), np.random.default_rng(SEED)
        paper = {"selector": "exp3-transfer", "learner": QLearning()}
        settings = {"episodes": EPISODES, "bounds": self.bounds} | paper | options
        return transfer(settings.pop("task", self.task), sources, rng=rng, **settings)


def run() -> None:
    with ExitStack() as stack:
        loop = c_loop(stack)
        rows = [*whole_runs(loop), *plain_loop(), *asking(), *many_tells(), *selectors(), *trials(), *starting()]
    write("reuse", machine("river", "mabwiser"), rows)


def settings() -> list[Setting]:
    """Two targets: 16 sources of which one stands in for the new task, 16 of which none does, and no sources."""
    tasks = surveillance.family(18, 2, rng=np.random.default_rng(0), n_sequences=17)
    kinds = [tuple(order) for order in surveillance.group_sequences(tasks).tolist()]
    (twin,) = (kind for kind in set(kinds) if kinds.count(kind) == 2)
    new, stand_in = (task for task, kind in zip(tasks, kinds, strict=True) if kind == twin)
    policies = [solve(task).policy for task, kind in zip(tasks, kinds, strict=True) if kind != twin]
    bounds = return_bounds(tasks)
    return [
        Setting("16 sources, one of them good", new, [*policies[:15], solve(stand_in).policy], bounds),
        Setting("16 sources, all useless", new, policies, bounds),
        Setting("Q-learning alone", new, [], bounds),
    ]


def race(*calls: Call, rounds: int = 15, clock: Callable[[], float] = time.thread_time) -> list[float]:
    """The best processor time of each call, run in turn; each is made anew for every round, which is not timed."""
    best = [math.inf] * len(calls)
    for i in range(rounds + 1):
        for place, make in enumerate(calls):
            call = make()
            gc.disable()
            begun = clock()
            call()
            took = clock() - begun
            gc.enable()
            if i:  # the first round may compile
                best[place] = min(best[place], took)
    return best


class Seed(ctypes.Structure):
    """The state of a PCG64."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("state_high", "state_low", "inc_high", "inc_low"))

    @classmethod
    def of(cls, rng: np.random.Generator) -> Seed:
        numbers = rng.bit_generator.state["state"]
        return cls(*(half for key in ("state", "inc") for half in divmod(numbers[key], 2**64)))


class Problem(ctypes.Structure):
    """``Problem`` in episodes.c."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("n_states", "n_actions", "start", "horizon")),
        ("gamma", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("next_state", "reward", "terminated")),
        ("n_sources", ctypes.c_int64),
        ("sources", ctypes.c_void_p),
        *((name, ctypes.c_double) for name in ("lower", "upper", "beta", "delta")),
        ("check_every", ctypes.c_int64),
        *((name, ctypes.c_double) for name in ("step_size", "epsilon")),
        ("episodes", ctypes.c_int64),
        *((name, Seed) for name in ("selector", "environment", "learner")),
    )


def c_loop(stack: ExitStack) -> Any:
    """The function ``play`` of episodes.c, or None where there is no compiler."""
    gcc = shutil.which("gcc")
    if gcc is None:
        return None
    library = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "episodes.so"
    subprocess.run([gcc, *FLAGS, "-shared", "-fPIC", SOURCE, "-o", library, "-lm"], check=True)
    play = ctypes.CDLL(str(library)).play
    play.restype, play.argtypes = ctypes.c_int64, [ctypes.c_void_p] * 4
    return play


class Caught(Exception):  # noqa: N818  no error
    """Carries the engine of a ``transfer`` away before its first episode."""

    def __init__(self, engine: CompiledEpisodes) -> None:
        self.engine = engine


def engine(setting: Setting) -> CompiledEpisodes:
    """What ``transfer`` makes of the setting and the seed before the first episode."""

    def catch(engine: CompiledEpisodes, first: int) -> None:
        raise Caught(engine)

    with patch.object(CompiledEpisodes, "play", catch):
        try:
            setting.run()
        except Caught as caught:
            return caught.engine
    raise AssertionError("transfer did not compile")


class ByHand:
    """The same run for the C loop."""

    def __init__(self, loop: Any, setting: Setting) -> None:
        ours, task = engine(setting), setting.task
        selector, learner = ours.trial.selector, ours.trial.learner
        assert isinstance(selector, Exp3Transfer)
        self.loop, self.Q = loop, learner.Q
        self.returns, self.arms = ours.trial.returns, ours.trial.arms
        self.kept: list[Any] = [ours.task.next_state, ours.task.reward, ours.task.terminated, ours.sources.actions]
        assert all(x.flags.c_contiguous for x in self.kept)
        assert [x.dtype for x in self.kept] == [np.int32, np.float64, np.bool_, np.int32]
        *tables, actions = (x.ctypes.data for x in self.kept)
        self.problem = Problem(
            task.n_states, task.n_actions, int(task.start_states[0]), ours.task.horizon, task.gamma, *tables,
            len(setting.sources), actions, *setting.bounds, selector.beta, selector.delta,
            int(selector._settings[layout.CHECK_EVERY]), float(learner.steps[0]), learner.epsilon, EPISODES,
            Seed.of(selector._rng), Seed.of(ours.rng), Seed.of(ours.learner_rng),
        )  # fmt: skip
        self.places = [x.ctypes.data for x in (self.Q, self.returns, self.arms)]

    def play(self) -> int:
        """The learner's steps."""
        steps: int = self.loop(ctypes.addressof(self.problem), *self.places)
        return steps


def count_steps(setting: Setting) -> int:
    """The learner's steps: a schedule of step sizes, here a constant one, makes it count its updates."""
    run = setting.run(learner=QLearning(step_size=[0.5, 0.5]))
    return int(run.learners[0].visits.sum())


def whole_runs(loop: Any) -> Iterator[Row]:
    for setting in settings():
        run, steps, alone = setting.run(), count_steps(setting), not setting.sources
        calls: list[Call] = [partial(ready, setting), partial(partial, setting.run)]
        if loop is not None:
            check_identical(loop, setting, run, steps)
            calls.append(partial(by_hand, loop, setting))
        kernel, call, *c = race(*calls, rounds=60)
        peer, ratio, within = "gcc is missing", "", None
        if c:
            peer, ratio, within = show(c[0]), f"{kernel / c[0]:.2f} times C", kernel <= 1.5 * c[0]
        name = f"{EPISODES:,} episodes, {setting.name}"
        goal, met = ("", None) if alone else ("< 50 ms", call < 0.05)
        yield Row(f"{name}: `transfer`, all in all", show(call), "", "", goal, met)
        ours = f"{show(kernel)}, {steps:,} steps of the learner"
        yield Row(f"{name}: the compiled loop alone", ours, peer, ratio, "<= 1.5 times C", within)
        if alone:
            rate, peer = steps / kernel, f"{steps / c[0]:,.0f}" if c else peer
            what = "the learner's steps per second and core"
            yield Row(what, f"{rate:,.0f}", peer, ratio, ">= 20,000,000", rate >= 20e6)


def ready(setting: Setting) -> Callable[[], Any]:
    return partial(engine(setting).play, 0)


def by_hand(loop: Any, setting: Setting) -> Callable[[], Any]:
    return ByHand(loop, setting).play


def check_identical(loop: Any, setting: Setting, run: TransferRun, steps: int) -> None:
    """The C loop gives the arms, returns, Q and steps of ``transfer``, bit for bit."""
    c = ByHand(loop, setting)
    assert c.play() == steps
    for ours, theirs in ((run.arms[0], c.arms), (run.returns[0], c.returns), (run.learners[0].Q, c.Q)):
        assert ours.tobytes() == theirs.tobytes(), setting.name


def plain_loop() -> Iterator[Row]:
    """All the same episodes, once, by the plain loop over the Gymnasium environment."""
    for setting in settings():
        env = {"task": setting.task.to_gymnasium(), "gamma": setting.task.gamma}
        setting.run(**env, episodes=10)  # asking and telling may have to be compiled
        begun = time.thread_time()
        run = setting.run(**env)
        plain = time.thread_time() - begun
        assert run.returns.tobytes() == setting.run().returns.tobytes()
        (ours,) = race(partial(partial, setting.run))
        ratio = plain / ours
        yield Row(
            f"an episode, {setting.name}, against a loop over the environment", show(ours / EPISODES),
            show(plain / EPISODES), f"{ratio:,.0f}x", ">= 100x", ratio >= 100,
        )  # fmt: skip


def asking() -> Iterator[Row]:
    """ask + tell on average, elimination's checks included, over a run in which every arm has been tried."""
    payoffs = np.random.default_rng(0).random(1000).tolist()
    kinds, rounds = (Exp3Transfer, TsallisINF, RegretBalancing), 5000
    for n_arms, goal, fewer in ((10, 5e-6, 2000), (1000, 20e-6, 100)):
        calls = [partial(told, kind, n_arms, payoffs, rounds) for kind in kinds]
        rivals = (partial(partial, rival, n_arms, payoffs, fewer) for rival in (river_rounds, mabwiser_rounds))
        *ours, river, mabwiser = race(*calls, *rivals, rounds=5)
        river, mabwiser = river / fewer, mabwiser / fewer
        for kind, took in zip(kinds, ours, strict=True):
            each, what = took / rounds, f"ask + tell, {n_arms:,} arms, {kind.__name__}"
            if kind is Exp3Transfer:
                peer = f"river Exp3 {show(river)}, MABWiser Softmax {show(mabwiser)}"
                yield Row(what, show(each), peer, f"{river / each:,.0f}x river", f"< {show(goal)}", each < goal)
            else:
                yield Row(what, show(each), "", "", "", None)


def told(kind: Any, n_arms: int, payoffs: list[float], rounds: int) -> Callable[[], None]:
    """Rounds of a selector that has tried every arm some ten times."""
    selector = kind(n_arms - 1, 100_000, bounds=(0.0, 1.0), rng=np.random.default_rng(0))
    our_rounds(selector, payoffs, 10 * n_arms)
    return partial(our_rounds, selector, payoffs, rounds)


def our_rounds(selector: Any, payoffs: list[float], rounds: int) -> None:
    for _ in range(rounds):
        episode = selector.ask()
        selector.tell(episode, payoffs[episode.arm])


def river_rounds(n_arms: int, payoffs: list[float], rounds: int) -> None:
    policy: Any = bandit.Exp3(gamma=0.05, seed=0)
    arms = list(range(n_arms))
    for _ in range(rounds):
        arm = policy.pull(arms)
        policy.update(arm, payoffs[arm])


def mabwiser_rounds(n_arms: int, payoffs: list[float], rounds: int) -> None:
    policy = MAB(list(range(n_arms)), LearningPolicy.Softmax(tau=1.0), seed=0)
    policy.fit([0], [payoffs[0]])
    for _ in range(rounds):
        arm = policy.predict()
        policy.partial_fit([arm], [payoffs[arm]])


@njit
def tell_many(arms, memory, settings, rng, n):  # type: ignore[no-untyped-def]
    """n asks and tells, arm 0 paying 1 and the others 0; returns arm 0's log-weight, its rounding made good."""
    nobody, exact, lost = np.empty(0), 0.0, 0.0
    for _ in range(n):
        arm = kernels.choose(arms, memory, settings, rng.random())
        if arm == 0:
            term = settings[layout.BETA] * (1.0 / arms[layout.PROBABILITY, 0]) / arms.shape[1] - lost
            grown = exact + term
            lost, exact = (grown - exact) - term, grown
        kernels.record(arms, memory, settings, arm, 1.0 if arm == 0 else 0.0, nobody)
    return exact


def many_tells() -> Iterator[Row]:
    """10^7 tells with an arm that always pays 1, and how many river's Exp3 takes with the same rate."""
    n_tells, rate = 10_000_000, 0.1
    for n_arms in (2, 10):
        selector = Exp3Transfer(
            n_arms - 1, EPISODES, bounds=(0.0, 1.0), beta=rate, elimination="none", rng=np.random.default_rng(0)
        )
        exact = tell_many(selector._arms, selector._memory, selector._settings, selector._rng, n_tells)
        error = abs(float(selector._arms[layout.LOG_WEIGHT, 0]) / exact - 1.0)
        assert selector.n_told == n_tells
        state = np.concatenate([selector._arms.ravel(), selector._memory, selector.probabilities])
        sane = bool(np.isfinite(state).all()) and abs(float(selector.probabilities.sum()) - 1.0) < 1e-12
        yield Row(
            f"10,000,000 tells, {n_arms} arms, one always paying 1, beta {rate}",
            f"{'all finite' if sane else 'broken'}, log-weight {exact:,.0f} within {error:.0e}",
            f"river Exp3: {river_life(n_arms, rate)}", "", "no overflow", sane and error < 1e-9,
        )  # fmt: skip


def river_life(n_arms: int, rate: float, limit: int = 1_000_000) -> str:
    policy: Any = bandit.Exp3(gamma=rate, seed=0)
    arms = list(range(n_arms))
    for n in range(limit):
        try:
            arm = policy.pull(arms)
            policy.update(arm, 1.0 if arm == 0 else 0.0)
        except (OverflowError, ValueError) as error:
            return f"{type(error).__name__} after {n:,}"
        if not all(map(math.isfinite, policy._probabilities.values())):
            return f"NaN after {n:,}"
    return f"alive after {limit:,}"


def selectors() -> Iterator[Row]:
    setting = settings()[0]
    sharing_ones = ("exp3-transfer", "tsallis-inf")
    cases = [*itertools.product(sharing_ones, (False, True)), ("regret-balancing", False), ("ppr", False)]
    calls = [partial(partial, setting.run, selector=name, share=share) for name, share in cases]
    for (name, share), took in zip(cases, race(*calls, rounds=5), strict=True):
        sharing = ", share=True" if share else ""
        yield Row(f"{EPISODES:,} episodes, {setting.name}, {name}{sharing}", show(took), "", "", "", None)


def trials() -> Iterator[Row]:
    setting = settings()[0]
    calls = (partial(partial, setting.run, trials=100, n_jobs=n_jobs) for n_jobs in (1, 2))
    one, two = race(*calls, rounds=3, clock=time.perf_counter)
    yield Row(f"100 trials of {EPISODES:,} episodes, {setting.name}, one worker", show(one), "", "", "", None)
    yield Row("the same, two workers", show(two), "", f"{one / two:.2f}x", "", None)


def starting() -> Iterator[Row]:
    """The first ``transfer`` of a process, with an empty cache and then a full one."""
    code = (
        "import time, numpy as np, pastmaster\n"
        "from pastmaster.domains import surveillance as s; from pastmaster.reuse import transfer\n"
        "task, rng = s.task([5, 40]), np.random.default_rng(0); policy = rng.integers(5, size=task.n_states)\n"
        "begun = time.perf_counter(); transfer(task, [policy], episodes=10, bounds=(-30.0, 200.0), rng=rng)\n"
        "print(time.perf_counter() - begun)"
    )
    with tempfile.TemporaryDirectory() as cache:
        for name in ("first `transfer` of all, compiling", "first `transfer` of a later process, from the cache"):
            environment = os.environ | {"NUMBA_CACHE_DIR": cache}
            took = float(subprocess.check_output([sys.executable, "-c", code], env=environment, text=True))
            yield Row(name, show(took), "", "", "", None)
