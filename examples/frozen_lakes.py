"""Five frozen lakes, met every winter: which routes are worth remembering, and what are they worth next winter?

Each winter the ice differs a little from the last: one hole has closed, another has opened. For 40 maps a good route
is known. They go into a repository, which finds the few that stand for all; then the lakes are met in a new winter, and
one lake for the first time. To the library maps are black boxes: it runs episodes and never looks at the ice.

    python examples/frozen_lakes.py [--quick] [--out FOLDER]

About three minutes on two cores.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium.envs.toy_text.frozen_lake import generate_random_map, is_valid
from matplotlib.figure import Figure

import pastmaster

SIZE, GAMMA, WINDOW = 8, 0.99, 100  # WINDOW: episodes over which a learning curve is averaged
MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # FrozenLake's actions, as (down, right)
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3b08", "#5e3c99", "#333333", "#8f8f00")


def another_winter(lake: list[str], rng: np.random.Generator) -> list[str]:
    """The lake with one hole closed and another opened, so that one can still get across."""
    while True:
        ice = np.array([list(row) for row in lake])
        closes, opens = (rng.choice(np.flatnonzero(ice.ravel() == what)) for what in "HF")
        ice.flat[closes], ice.flat[opens] = "F", "H"
        if is_valid(ice.tolist(), SIZE):
            return ["".join(row) for row in ice]


def crossing(ice: list[str], name: str) -> pastmaster.GymTask:
    """The task of getting across, as a black box: a tenth of all steps go astray, the goal pays 1."""
    return pastmaster.GymTask("FrozenLake-v1", {"desc": ice, "success_rate": 0.9}, gamma=GAMMA, name=name)


def solved(task: pastmaster.GymTask) -> pastmaster.Solution:
    """The best route by the map: for old winters to be remembered, for new ones only to be compared with."""
    return pastmaster.solve(pastmaster.TabularMDP.from_gymnasium(gym.make(task.env_id, **task.kwargs), gamma=GAMMA))


def curves(returns: np.ndarray) -> np.ndarray:
    """For every trial and episode, the mean return of the WINDOW episodes that begin with it."""
    return np.array([np.convolve(row, np.full(WINDOW, 1 / WINDOW), "valid") for row in returns])


def first_at(returns: np.ndarray, wanted: float) -> str:
    """How many episodes went by before WINDOW episodes in a row earned ``wanted`` on average: the median of trials."""
    reached = curves(returns) >= wanted
    median = np.median(np.where(reached.any(axis=1), reached.argmax(axis=1), np.inf))
    return f"{median:,.0f}" if np.isfinite(median) else f"> {reached.shape[1] - 1:,}"


def walk(ice: list[str], policy: np.ndarray) -> np.ndarray:
    """The places that a route leads through if no step goes astray."""
    places = [0]
    while "".join(ice)[places[-1]] not in "GH" and len(places) < 3 * SIZE:
        place = np.divmod(places[-1], SIZE) + np.array(MOVES[policy[places[-1]]])
        places.append(int(np.clip(place, 0, SIZE - 1) @ (SIZE, 1)))
    return np.array(places)


def draw_maps(figure: Figure, maps: list[list[str]], n_lakes: int, kept: pastmaster.Clustering, policies: list) -> None:
    """Every old map with the route that is kept for it, a colour to each."""
    grid = figure.subplots(nrows=n_lakes, ncols=len(maps) // n_lakes)
    routes = list(dict.fromkeys(kept.representatives.tolist()))  # cells may share one
    serving = kept.representatives[kept.served()[0]].tolist()  # the column of the policy that is best for each map
    for task, (axes, ice, policy) in enumerate(zip(grid.ravel(), maps, serving, strict=True)):
        shades = {"H": (0.3, 0.35, 0.45), "G": (0.45, 0.8, 0.5)}
        axes.imshow([[shades.get(place, (0.93, 0.96, 1.0)) for place in row] for row in ice])
        rows, columns = np.divmod(walk(ice, policies[policy]), SIZE)
        route, made_for_it = routes.index(policy), task == policy
        colour = COLOURS[route % len(COLOURS)]
        axes.plot(columns, rows, color=colour, linewidth=2.5, linestyle="-" if route < len(COLOURS) else ":")
        axes.set(xticks=[], yticks=[])
        for side in axes.spines.values():
            side.set(color=colour if made_for_it else "0.8", linewidth=3.5 if made_for_it else 1)
    for lake, axes in enumerate(grid[:, 0]):
        axes.set_ylabel(f"lake {lake}")
    figure.suptitle(f"{len(maps)} maps, {len(routes)} routes kept: a colour to each (bold frame: made for this map)")


def draw_curves(figure: Figure, shares: dict[str, list[np.ndarray]], wide: int) -> None:
    """The learning curves in percent of what the best route earns."""
    axes = figure.subplots()
    for (label, rows), colour, dash in zip(shares.items(), COLOURS, ("-", "--", "-.", ":"), strict=False):
        axes.plot(curves(np.array(rows)).mean(axis=0), color=colour, linestyle=dash, linewidth=2, label=label)
    axes.set(xlabel="episode", ylabel=f"mean return of the next {WINDOW} episodes, % of the best route", ylim=(0, 125))
    axes.set_title(f"A new winter (means over lakes and {wide} trials each)")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", fontsize="small")


def main() -> None:
    """The story, from old winters to a new one."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--quick", action="store_true", help="few maps, few episodes: nothing is learned from scratch")
    options.add_argument("--out", type=Path, default=Path("frozen-lakes"), help="folder for repository and picture")
    chosen = options.parse_args()
    n_lakes, n_winters, episodes, trials, n_jobs = (2, 3, 200, 1, 1) if chosen.quick else (5, 8, 2000, 4, 2)
    chosen.out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)

    # Old winters: maps, and a good route for each
    *lakes, unknown = (generate_random_map(SIZE, seed=seed) for seed in range(n_lakes + 1))
    maps = [another_winter(lake, rng) for lake in lakes for _ in range(n_winters)]
    tasks = [crossing(ice, f"lake {i // n_winters}, winter {i % n_winters}") for i, ice in enumerate(maps)]
    policies = [solved(task).policy for task in tasks]

    # Which are worth keeping? The repository values every route on every map by episodes, then clusters the maps.
    with pastmaster.Repository(chosen.out / f"{len(tasks)}-maps.db") as repository:
        for task, policy in zip(tasks, policies, strict=True):
            repository.add(task, policy)
        clustering = repository.cluster(episodes=episodes, span=1.0, directed=True, rng=rng)
        policies, kept = list(repository.policies()), repository.named_sources()
        experience = repository.experience()  # what the routes kept earned on every map, and how sure that is
    print(
        f"{len(kept)} of {len(tasks)} routes stand for all; a map loses {clustering.mean_radius:.2f} or less on average"
    )
    serving = clustering.representatives[clustering.served()[0]].tolist()
    for policy in dict.fromkeys(clustering.representatives.tolist()):
        covered = "; ".join(task.name for task, best in zip(tasks, serving, strict=True) if best == policy)
        print(f"  the route of {tasks[policy].name}: {covered}")

    # A new winter, with the routes kept and without
    new = [crossing(another_winter(lake, rng), f"lake {i}, new winter") for i, lake in enumerate(lakes)]
    new.append(crossing(unknown, "a lake never met"))
    learner = pastmaster.QLearning(
        step_size=0.2, epsilon=pastmaster.decay(0.1, 500), initial=1.0
    )  # hopes to find the goal
    settings = {"learner": learner, "bounds": (0.0, 1.0), "episodes": episodes, "trials": trials, "n_jobs": n_jobs}
    print(f"\n{'':20}{'best':>6}{'mean return of':>22}{'90% of best after':>24}")
    print(f"{'':20}{'route':>6}{'reuse':>11}{'learning':>11}{'reuse':>12}{'learning':>12}")
    shares: dict[str, list[np.ndarray]] = {}
    for i, task in enumerate(new):
        best, row = solved(task).start_value, []
        ways = ((f"Q-learning and the {len(kept)} routes", kept, experience), ("Q-learning alone", {}, None))
        for way, sources, known in ways:
            run = pastmaster.transfer(
                task, sources, experience=known, rng=np.random.default_rng([1, i]), **settings
            )  # fmt: skip
            row.append((run.returns.mean(), first_at(run.returns, 0.9 * best)))
            place = "a lake never met" if i == n_lakes else "lakes met before"
            shares.setdefault(f"{place}: {way}", []).extend(100 * run.returns / best)
        (reuse, reuse_at), (alone, alone_at) = row
        print(f"{task.name:20}{best:6.2f}{reuse:11.2f}{alone:11.2f}{reuse_at:>12}{alone_at:>12}", flush=True)

    figure = Figure(figsize=(14, 6), layout="constrained")
    left, right = figure.subfigures(ncols=2, width_ratios=[1.3, 1])
    draw_maps(left, maps, n_lakes, clustering, policies)
    draw_curves(right, shares, trials)
    figure.savefig(chosen.out / "frozen-lakes.png", dpi=110)
    print(f"\npicture: {chosen.out / 'frozen-lakes.png'}")


if __name__ == "__main__":
    main()
