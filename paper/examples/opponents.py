"""Sixty opponents at poker: how many counter-strategies do they need, and how soon do we play a new one well?

The game is Leduc hold'em: two players, six cards, two rounds of betting. Against an opponent that always plays by the
same probabilities, the best way to play, its best response, is found exactly. Sixty opponents of six kinds (rocks,
calling stations, maniacs, ...) have sixty best responses. A few of them are kept. Then new opponents sit down, of whom
nothing is known but the chips that are won or lost, hand by hand: and a hand is mostly luck.

    python paper/examples/opponents.py [--quick] [--out FOLDER]

Under two minutes on one core.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import pastmaster
from pastmaster import figures
from pastmaster_paper import leduc

GOOD = 0.9  # of the way from the worst of the sixty policies to the best response: to play an opponent well
ENOUGH = 0.02  # of that way: what an opponent may cost, on average, by the policies kept
SIZES = (1, 2, 3, 4, 6, 8, 12, 16)
HANDS = (30, 100, 300, 1_000, 10_000)  # after which earnings are told
WIDTHS = (10, 7, 7)  # of the columns for the ways to meet an opponent


def few(losses: np.ndarray, winnable: np.ndarray) -> tuple[np.ndarray, dict[int, float]]:
    """The fewest policies that cost little of what can be won, and the mean loss by the number of policies."""
    print(f"\n{'policies':>8}{'mean loss':>11}{'largest':>9}{'of what can be won':>20}")
    means, enough = {}, None
    for size in (size for size in SIZES if size < len(losses)):
        found = pastmaster.search_clusterings(losses, n_clusters=size, directed=True, rng=0, iterations=20_000)
        kept = np.unique(found.representatives)
        lost = losses[:, kept].min(axis=1)
        means[size], share = lost.mean(), (lost / winnable).mean()
        enough = kept if enough is None and share < ENOUGH else enough
        print(f"{size:8}{lost.mean():11.3f}{lost.max():9.3f}{share:20.1%}")
    return kept if enough is None else enough, means


def expected(run: pastmaster.TransferRun, worth: np.ndarray) -> np.ndarray:
    """What each hand was worth [trials, T]: with a source what it wins on average, with the learner what it won."""
    return np.where(run.arms < len(worth), np.append(worth, 0.0)[run.arms], run.returns)


def curve(hands: np.ndarray) -> np.ndarray:
    """For t = 1 .. T hands, the mean over trials of the later half of them: of hands t / 2 to t."""
    total = np.append(0.0, hands.mean(axis=0).cumsum())
    t = np.arange(1, len(total))
    return (total[t] - total[t // 2]) / (t - t // 2)


def first_at(hands: np.ndarray) -> float:
    """After how many hands the curve is at GOOD, and stays there; inf: it does not."""
    below = np.flatnonzero(curve(hands) < GOOD)
    first = below[-1] + 2 if len(below) else 1
    return float(first) if first <= hands.shape[1] else np.inf


def told(first: float, hands: int) -> str:
    """A number of hands as a table shows it."""
    return f"{first:,.0f}" if np.isfinite(first) else f"> {hands // 1000}k" if hands >= 1000 else f"> {hands}"


def meet(
    new: list, policies: list, kept: np.ndarray, ways: dict[str, dict], hands: int, trials: int
) -> tuple[dict[str, list], float]:
    """Play new opponents in three ways; what each hand was worth by way, 0 the worst policy and 1 the best response.

    Also what the best of the kept policies is worth, on this scale.
    """
    learner = pastmaster.QLearning(step_size=lambda n: 1 / (n + 1), epsilon=pastmaster.decay(0.3, 500))  # for noise
    columns = "".join(f"{way:>{width}}" for way, width in zip(("informed", "not", "alone"), WIDTHS, strict=True))
    print(f"\n{'':30}{'best':>9}{'best':>7}{'chips won':>{sum(WIDTHS)}}{f'{GOOD:.0%} after':>{sum(WIDTHS)}}")
    print(f"{'a new':30}{'response':>9}{'kept':>7}{columns}{columns}")
    shares: dict[str, list[np.ndarray]] = {way: [] for way in ways}
    ceilings = []
    for i, task in enumerate(new):
        worth = pastmaster.cross_values([task], policies)[0]
        best, worst, best_kept = pastmaster.solve(task).start_value, worth.min(), worth[kept].max()
        for way, settings in ways.items():
            run = pastmaster.transfer(task, episodes=hands, trials=trials, learner=learner, rng=i, **settings)
            shares[way].append((expected(run, worth[kept[: run.n_sources]]) - worst) / (best - worst))
        last = list(zip([rows[-1] for rows in shares.values()], WIDTHS, strict=True))
        won = "".join(f"{worst + (best - worst) * row.mean():{width}.2f}" for row, width in last)
        after = "".join(f"{told(first_at(row), hands):>{width}}" for row, width in last)
        print(f"{task.name.removeprefix('Leduc, '):30}{best:9.2f}{best_kept:7.2f}{won}{after}", flush=True)
        ceilings.append((best_kept - worst) / (best - worst))
    for way, rows in shares.items():
        median, mean = np.median([first_at(one) for one in rows]), np.mean(rows, axis=(0, 1))
        percent = ", ".join(f"{mean[:T].mean():.0%} in {T:,}" for T in HANDS if hands >= T)
        print(f"all, {way}: {GOOD:.0%} after {told(median, hands)} hands (median); {percent} hands")
    return shares, float(np.mean(ceilings))


def draw(
    path: Path, tasks: list, losses: np.ndarray, kept: np.ndarray, means: dict[int, float],
    shares: dict[str, list], ceiling: float,
) -> None:  # fmt: skip
    """Left what each opponent costs by each policy, in the middle how many are needed, right the new opponents."""
    figure, (left, middle, right) = figures.new_figure(16, 5, ncols=3, width_ratios=[1.1, 0.8, 1.2])
    kinds = [task.params["kind"] for task in tasks]
    figures.matrix(
        left, losses, title=f"{len(tasks)} opponents, {len(kept)} policies kept (marks)", rows="opponent",
        columns="best response to", scale="chips a hand below its best response",
    )  # fmt: skip
    left.plot(kept, np.full(len(kept), -1.6), "v", color="#d55e00", clip_on=False)
    left.set_ylim(len(tasks) - 0.5, -0.5)
    firsts = [kinds.index(kind) for kind in dict.fromkeys(kinds)]
    middles = [first + kinds.count(kinds[first]) / 2 - 0.5 for first in firsts]
    names = [kinds[first] for first in firsts]
    left.set_xticks(middles, names, rotation=35, ha="right", rotation_mode="anchor")
    left.set_yticks(middles, names)
    left.set_title(left.get_title(), pad=12)
    for first in firsts[1:]:
        left.axhline(first - 0.5, color="white", linewidth=0.5)
        left.axvline(first - 0.5, color="white", linewidth=0.5)
    middle.plot(list(means), list(means.values()), marker="o", **figures.line_style(0))
    middle.plot(len(kept), means[len(kept)], "o", markersize=12, color="#d55e00", label="kept")
    middle.set(xlabel="policies", ylabel="mean loss, chips a hand", ylim=(0, None), title="What a few policies lose")
    middle.set_xticks(list(means))
    middle.grid(alpha=0.3)
    middle.legend()
    for i, (label, rows) in enumerate(shares.items()):
        percent = 100 * np.mean([curve(hands) for hands in rows], axis=0)
        right.plot(np.arange(10, len(percent) + 1), percent[9:], linewidth=2, label=label, **figures.line_style(i))
    right.axhline(100 * ceiling, color="0.5", linewidth=1, label="the best policy kept, if it were known")
    right.axhline(100 * GOOD, color="black", linewidth=1, linestyle=":", label=f"{GOOD:.0%}")
    right.set(
        xscale="log", xlabel="hands t", ylim=(0, 105), ylabel="won in hands t/2 to t, % from worst to best response"
    )
    right.set_title(f"{len(rows)} new opponents, {len(rows[0])} trials each")
    right.grid(alpha=0.3)
    right.legend(loc="lower right", fontsize="small")
    figures.save(figure, path)


def main() -> None:
    """The story, from sixty known opponents to new ones."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--quick", action="store_true", help="few opponents, few hands")
    options.add_argument("--out", type=Path, default=Path("opponents"), help="folder for the picture")
    chosen = options.parse_args()
    n, n_new, hands, trials = (12, 2, 500, 4) if chosen.quick else (60, 20, 10_000, 40)

    # Known opponents, the best response to each, and what each of these wins from every other
    tasks, new = leduc.family(n, rng=1), leduc.new_tasks(n_new, rng=2)
    policies = [pastmaster.solve(task).policy for task in tasks]
    U = pastmaster.cross_values(tasks, policies)
    best, worst = U.max(axis=1), U.min(axis=1)
    print(f"{'chips a hand from a':24}{'best response':>14}{'all policies':>14}{'the worst':>11}")
    for kind in leduc.KINDS:
        those = [i for i, task in enumerate(tasks) if task.params["kind"] == kind]
        print(f"{kind:24}{best[those].mean():14.2f}{U[those].mean():14.2f}{worst[those].mean():11.2f}")

    # How many stand for all?
    losses = pastmaster.policy_distance(U, directed=True)
    kept, means = few(losses, best - worst)
    print(f"kept: the best responses to {', '.join(tasks[i].name.removeprefix('Leduc, ') for i in kept)}")

    # New opponents: with the policies kept and what each won from the sixty, without that, and without policies
    sources = {tasks[i].name: policies[i] for i in kept}
    spread = pastmaster.return_spread(tasks, sources.values())  # of one hand: luck
    experience = pastmaster.Experience(U[:, kept], spread=spread, best=best, sources=list(sources))
    ways = {
        f"{len(kept)} policies, informed, and Q-learning": {"sources": sources, "experience": experience},
        f"{len(kept)} policies, not informed, and Q-learning": {"sources": sources},
        "Q-learning alone": {"sources": {}},
    }
    shares, ceiling = meet(new, policies, kept, ways, hands, trials)
    draw(chosen.out / "opponents.png", tasks, losses, kept, means, shares, ceiling)
    print(f"picture: {chosen.out / 'opponents.png'}")


if __name__ == "__main__":
    main()
