"""Twenty cart-poles at once: a fleet meets a new planet, and one service tells each robot which controller to run.

Controllers for eight variants of CartPole are found by trial and error and stored, and the few worth keeping are kept.
Then twenty robots meet a variant that nobody has seen. Each runs one episode after the other. Before each it asks the
service over HTTP who is to run it: one of the kept controllers, which it downloads by its content, or the learner,
which all robots share. Beside them, twenty robots that draw controllers by lot, and twenty that only learn.

    pip install 'pastmaster[serve]'
    python examples/fleet.py [--quick] [--out FOLDER]

It takes a quarter of a minute on two cores, and a minute more the first time.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
from matplotlib.figure import Figure

import pastmaster
from pastmaster import Client
from pastmaster.domains import cart_pole
from pastmaster.policies import NetworkPolicy

ROBOTS, HORIZON, GAMMA = 20, 200, 0.99
FLEET, LOT, ALONE = "the service decides", "by lot", "only learning"
COLOURS = {FLEET: "#0072b2", LOT: "#7f7f7f", ALONE: "#d55e00"}
Gains = np.ndarray


def controller(gains: Gains) -> NetworkPolicy:
    """Push to the right where a weighted sum of position, speed, angle and angular speed is positive."""
    return NetworkPolicy([(np.stack([-gains, gains]), np.zeros(2))])


def episode(env: gym.Env, actor: Actor, seed: int | None = None) -> float:
    """The discounted return of one episode."""
    observation, _ = env.reset(seed=seed)
    total, discount = 0.0, 1.0
    while True:
        action = actor.act(observation)
        following, reward, terminated, truncated, _ = env.step(action)
        actor.see(observation, action, terminated, following)
        observation, total, discount = following, total + discount * float(reward), discount * GAMMA
        if terminated or truncated:
            return total


class Actor:
    """A controller with fixed gains."""

    def __init__(self, gains: Gains) -> None:
        self.gains = gains

    def act(self, observation: np.ndarray) -> int:
        return int(self.gains @ observation > 0)

    def see(self, observation: np.ndarray, action: int, terminated: bool, following: np.ndarray) -> None:
        """Fixed gains learn nothing."""


class Learner(Actor):
    """Q-learning on a grid of states, which all robots of a fleet share."""

    EDGES = (np.array([-0.8, 0.8]), np.array([-0.5, 0.5]), np.array([-0.1, -0.03, 0, 0.03, 0.1]), np.array([-0.9, 0.9]))

    def __init__(self, seed: int) -> None:
        self.rng, self.Q = np.random.default_rng(seed), np.zeros((3, 3, 6, 3, 2))

    def _cell(self, observation: np.ndarray) -> tuple[int, ...]:
        return tuple(int(np.searchsorted(edges, x)) for edges, x in zip(self.EDGES, observation, strict=True))

    def act(self, observation: np.ndarray) -> int:
        if self.rng.random() < 0.05:
            return int(self.rng.integers(2))
        return int(self.Q[self._cell(observation)].argmax())

    def see(self, observation: np.ndarray, action: int, terminated: bool, following: np.ndarray) -> None:
        cell = (*self._cell(observation), action)
        target = 1.0 + (0.0 if terminated else GAMMA * self.Q[self._cell(following)].max())
        self.Q[cell] += 0.2 * (target - self.Q[cell])


def trained(task: pastmaster.GymTask, tries: int, seed: int) -> Gains:
    """Gains found by trial and error, three episodes each."""
    env, rng = gym.make(task.env_id, max_episode_steps=HORIZON, **task.kwargs), np.random.default_rng(seed)
    best, value = np.zeros(4), -1.0
    for number in range(tries):
        gains = best + rng.normal(size=4) * [1, 2, 10, 5]
        found = float(np.mean([episode(env, Actor(gains), 3 * number + k) for k in range(3)]))
        if found > value:
            best, value = gains, found
    env.close()
    return best


def fleet(
    task: pastmaster.GymTask, each: int, choose: Callable[[], Any], actor_of: Callable[[Any], Actor]
) -> list[float]:
    """The returns of all robots' episodes, in the order in which they ended."""
    returns: list[float] = []

    def robot(number: int) -> None:
        env = gym.make(task.env_id, max_episode_steps=HORIZON, **task.kwargs)
        env.reset(seed=number)
        for _ in range(each):
            with choose() as asked:
                asked.value = episode(env, actor_of(asked))
            returns.append(asked.value)
        env.close()

    with ThreadPoolExecutor(ROBOTS) as robots:
        list(robots.map(robot, range(ROBOTS)))
    return returns


class Downloaded:
    """Who runs an episode that the service decides: a controller, downloaded once by its content, or the learner."""

    def __init__(self, client: Client) -> None:
        self.client, self.learner = client, Learner(0)
        self.known: dict[str, Actor] = {}

    def __call__(self, asked: Any) -> Actor:
        if asked.policy is None:
            return self.learner
        if asked.policy not in self.known:
            self.known[asked.policy] = Actor(gains_of(self.client.policy(asked.policy)))
        return self.known[asked.policy]


def gains_of(policy: NetworkPolicy) -> Gains:
    """The gains of a stored controller."""
    return np.asarray(policy.stack.weights[0][0])[:, 1]


def draw(returns: dict[str, list[float]], state: dict[str, Any], new: pastmaster.GymTask) -> Figure:
    """Returns in the order of episodes, and who ran those that the service decided."""
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    most = (1 - GAMMA**HORIZON) / (1 - GAMMA)
    left.axhline(most, color="black", linestyle=":")
    left.annotate("the pole never falls", (1, most), (2, 5), textcoords="offset points")
    for way, colour in COLOURS.items():
        n, sums = len(returns[way]), np.concatenate([[0], np.cumsum(returns[way])])
        ends = np.arange(1, n + 1)
        starts = np.maximum(0, ends - 2 * ROBOTS)
        smooth = (sums[ends] - sums[starts]) / (ends - starts)
        left.plot(ends, smooth, color=colour, linewidth=2)
        left.annotate(way, (n, smooth[-1]), (5, 0), textcoords="offset points", color=colour, va="center")
    left.set(xlabel="episodes of the whole fleet so far", ylabel=f"mean return of the last {2 * ROBOTS} episodes")
    left.set(xlim=(1, n), ylim=(0, 1.12 * most))
    left.set_title("What the fleet earns", loc="left")
    arms = sorted((arm for arm in state["arms"] if arm["told"]), key=lambda arm: arm["mean"])
    right.barh(range(len(arms)), [arm["mean"] for arm in arms], color=COLOURS[FLEET], height=0.6)
    names = [arm["name"].removeprefix("cart-pole, ").replace(", l", ",\nl", 1) for arm in arms]
    right.set_yticks(range(len(arms)), names)
    for y, arm in enumerate(arms):
        times = f"{arm['told']} episodes" if arm["told"] > 1 else "1 episode"
        right.annotate(times, (arm["mean"], y), (5, 0), textcoords="offset points", va="center")
    right.axvline(most, color="black", linestyle=":")
    right.set(xlabel="mean return on the new planet", ylabel="controller made for", xlim=(0, 1.45 * most))
    right.set_title("What the service chose", loc="left")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    name = new.name.removeprefix("cart-pole, ")
    figure.suptitle(f"{ROBOTS} cart-poles meet a planet nobody knows: {name}", fontweight="bold", ha="left", x=0.01)
    return figure


def main() -> None:
    """Train and keep controllers, send out the fleets, print what they earn, draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="three variants, few episodes")
    parser.add_argument("--out", type=Path, default=Path("fleet"), help="where the picture goes")
    options = parser.parse_args()
    variants, tries, each, valued = (3, 25, 3, 4) if options.quick else (8, 40, 20, 10)
    *old, new = cart_pole.family(variants + 1, rng=5, horizon=HORIZON)
    with tempfile.TemporaryDirectory() as folder, pastmaster.Repository(f"{folder}/fleet.db") as repository:
        for number, task in enumerate(old):
            gains = trained(task, tries, number)
            repository.add(task, controller(gains), name=task.name, evaluation_episodes=valued)
        kept = repository.keep(k=min(4, variants), rng=0)
        print(f"{len(kept.policies)} of {variants} controllers kept; the new variant: {new.name}")
        with pastmaster.service.started(repository) as url, Client(url) as client:
            client.make_task("new planet", bounds=[0, 100], lease=60.0, seed=0)
            downloaded = Downloaded(client)
            returns = {FLEET: fleet(new, each, lambda: client.episode("new planet"), downloaded)}
            state = client.state("new planet")
        actors = [Actor(gains_of(policy)) for policy in repository.sources()]
    rng, alone = np.random.default_rng(0), Learner(0)
    nobody = lambda: nullcontext(SimpleNamespace(value=0.0))  # noqa: E731  no service is asked
    returns[LOT] = fleet(new, each, nobody, lambda asked: actors[int(rng.integers(len(actors)))])
    returns[ALONE] = fleet(new, each, nobody, lambda asked: alone)
    for way, values in returns.items():
        mean, error, last = np.mean(values), np.std(values) / np.sqrt(len(values)), np.mean(values[-len(values) // 4 :])
        print(f"{way:20} {mean:5.1f} an episode (+- {1.96 * error:.1f}), last quarter {last:5.1f}")
    best, n = state["arms"][state["best"]["arm"]], len(downloaded.known)
    print(f"{state['told']} episodes told, {n} controllers downloaded; best: {best['name']}, {best['mean']:.1f}")
    options.out.mkdir(parents=True, exist_ok=True)
    draw(returns, state, new).savefig(options.out / "fleet.png", dpi=130)
    print(f"picture: {options.out / 'fleet.png'}")


if __name__ == "__main__":
    main()
