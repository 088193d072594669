"""Twenty robots at once: what they earn on one selector, beside one robot alone and beside twenty selectors.

Every robot takes one step at a tick. When its episode is over it tells the return, asks, and begins the next. Robots
share the learner, which learns from every step of its own episodes as they happen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.measure import machine, write_table
from benchmarks.selectors import Repository, surveilled, windy
from pastmaster import QLearning, TabularMDP, decay, solve
from pastmaster.reuse import SELECTORS

ROBOTS, TRIALS = 20, 1
SCHEDULE = decay(0.1, 500)


class Robot:
    """A robot in its world: one episode after the other, a step at a tick."""

    def __init__(self, task: TabularMDP, sources: list[Any], seed: int) -> None:
        self.env, self.sources, self.gamma = task.to_gymnasium(), sources, task.gamma
        self.state, _ = self.env.reset(seed=seed)
        self.episode: Any = None

    def begin(self, selector: Any) -> None:
        self.episode, self.total, self.discount = selector.ask(), 0.0, 1.0
        self.state, _ = self.env.reset()

    def step(self, learner: Any) -> bool:
        """One step; whether the episode is over."""
        own = self.episode.arm == len(self.sources)
        action = learner.act(self.state) if own else int(self.sources[self.episode.arm][self.state])
        following, reward, terminated, truncated, _ = self.env.step(action)
        self.total += self.discount * float(reward)
        self.discount *= self.gamma
        if own:
            learner.learn(self.state, action, float(reward), following, terminated)
        self.state = following
        return terminated or truncated


def earned(task: TabularMDP, repository: Repository, name: str, episodes: int, robots: int, seed: list[int]) -> float:
    """The summed return of so many episodes, by so many robots on one selector."""
    rng = np.random.default_rng(seed)
    made: Any = SELECTORS[name]
    selector = made(len(repository.kept), episodes, bounds=repository.bounds, rng=rng)
    if selector.bounded:
        selector.start_clipping()
    fleet = [Robot(task, repository.kept, int(rng.integers(2**31))) for _ in range(min(robots, episodes))]
    env = fleet[0].env
    learner = QLearning(epsilon=SCHEDULE).start(env.observation_space, env.action_space, task.gamma, rng)
    for robot in fleet:
        robot.begin(selector)
    total = 0.0
    while fleet:
        for robot in list(fleet):
            if robot.step(learner):
                total += robot.total
                selector.tell(robot.episode, robot.total)
                if robot.episode.arm == len(repository.kept):
                    learner.end_own_episode()
                if selector.n_asked < episodes:
                    robot.begin(selector)
                else:
                    fleet.remove(robot)
    return total


def share(repositories: list[Repository], name: str, episodes: int, seed: int) -> tuple[float, float, float]:
    """What twenty robots earn on one selector and on twenty, in percent of one robot alone; and that one's score."""
    alone = together = apart = best = 0.0
    for i, repository in enumerate(repositories):
        for j, target in enumerate(repository.targets):
            best += TRIALS * episodes * (solve(target).start_value - repository.bounds.lower)
            for trial in range(TRIALS):
                place = [seed, i, j, trial]
                least = episodes * repository.bounds.lower
                alone += earned(target, repository, name, episodes, 1, place) - least
                together += earned(target, repository, name, episodes, ROBOTS, place) - least
                each = episodes // ROBOTS
                apart += sum(earned(target, repository, name, each, 1, [*place, k]) for k in range(ROBOTS)) - least
    return 100 * together / alone, 100 * apart / alone, 100 * alone / best


def run() -> None:
    settings = {"surveillance 96, 2 targets": surveilled(96, 2, 6)[:3], "windy 60": windy(60)[:3]}
    lines = []
    for name in ("regret-balancing", "tsallis-inf", "exp3-transfer"):
        for episodes in (2000, 10_000):
            cells = [share(repositories, name, episodes, 2027) for repositories in settings.values()]
            told = [f"{one:.1f} | {many:.1f} | {score:.0f}" for one, many, score in cells]
            lines.append(f"| {name}, {episodes:,} episodes | " + " | ".join(told) + " |")
            print(lines[-1], flush=True)
    header = "selector | " + " | ".join(
        f"{name}: one selector, % of one robot | twenty selectors | one robot's score" for name in settings
    )
    write_table("robots", machine(), header, lines)
