"""A website that shapes itself to its visitors: twelve layouts, two hundred visitors at once, returns late and lost.

The site has five pages between the door and the purchase. A layout shows each page in one of three designs. Visitors
are of hidden kinds, and like some designs better than others: for each kind the site is a Markov decision process.
Twelve kinds were studied before, and the best layout for each was kept, with what it sells to all the others. Today's
visitors are a mixture that nobody has seen. A service decides over HTTP which layout each of them meets.

    pip install 'pastmaster[serve]'
    python examples/website.py [--quick] [--out FOLDER]

It takes about two minutes on two cores.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import pastmaster
from pastmaster.client import Client

PAGES, DESIGNS, KINDS = 5, 3, 12
LIKED, OTHER = 0.9, 0.62  # the chance that a visitor goes on, with a design that the kind likes, and with another
AT_ONCE, LOST, GAMMA = 200, 0.1, 0.999
OURS, EXP3, TEST, EVEN = "pastmaster serve", "EXP-3", "A/B test, then the winner", "even split"
COLOURS = {OURS: "#0072b2", EXP3: "#d55e00", TEST: "#009e73", EVEN: "#7f7f7f"}


def tastes(rng: np.random.Generator) -> np.ndarray:
    """The design that each kind likes on each page [KINDS, PAGES]: four families of three kinds that are much alike."""
    families = rng.integers(DESIGNS, size=(4, PAGES))
    liked = families[np.arange(KINDS) % 4]
    for kind in range(KINDS):
        page = rng.integers(PAGES)
        liked[kind, page] = (liked[kind, page] + kind // 4) % DESIGNS
    return liked


def site(liked: np.ndarray, name: str) -> pastmaster.TabularMDP:
    """The site for one kind of visitor: on to the next page, or away; a purchase is worth 1."""
    shape = (PAGES, DESIGNS, 2)
    following, reward, chance = np.zeros(shape, int), np.zeros(shape), np.zeros(shape)
    terminated = np.zeros(shape, bool)
    for page in range(PAGES):
        following[page] = [min(page + 1, PAGES - 1), page]
        terminated[page] = [page == PAGES - 1, True]
        reward[page, :, 0] = page == PAGES - 1
        on = np.where(np.arange(DESIGNS) == liked[page], LIKED, OTHER)
        chance[page] = np.stack([on, 1 - on], axis=1)
    return pastmaster.TabularMDP(following, reward, gamma=GAMMA, probability=chance, terminated=terminated, name=name)


def buys(layout: np.ndarray, liked: np.ndarray, luck: np.ndarray) -> bool:
    """Whether a visitor of a kind gets through to the purchase; the same luck for every layout."""
    return bool((luck < np.where(layout == liked, LIKED, OTHER)).all())


@dataclass
class Day:
    """The visitors of one day: what each of them likes, and the luck on each page."""

    liked: np.ndarray  # [visitors, PAGES]
    luck: np.ndarray
    lost: np.ndarray  # whether the return is never told

    @classmethod
    def draw(cls, known: np.ndarray, visitors: int, rng: np.random.Generator) -> Day:
        shares = rng.dirichlet(np.full(KINDS, 0.15))  # mostly two or three kinds
        kinds = rng.choice(KINDS, size=visitors, p=shares)
        return cls(known[kinds], rng.random((visitors, PAGES)), rng.random(visitors) < LOST)


@dataclass
class Split:
    """An even split of the first visitors; all others get the layout that has sold most of them by then."""

    until: int
    told: list[list[bool]] = field(default_factory=lambda: [[] for _ in range(KINDS)])
    met: int = 0
    winner: int | None = None

    def ask(self) -> int:
        self.met += 1
        if self.met <= self.until:
            return self.met % KINDS
        if self.winner is None:
            self.winner = max(range(KINDS), key=lambda arm: float(np.mean(self.told[arm] or [False])))
        return self.winner


def lateness(i: int) -> float:
    """The seconds after which the return of a visitor comes."""
    return random.Random(i).expovariate(20.0)


async def visit_by_rule(split: Split, day: Day, i: int, layouts: list[np.ndarray]) -> bool:
    """One visitor without a service."""
    arm = split.ask()
    bought = buys(layouts[arm], day.liked[i], day.luck[i])
    await asyncio.sleep(lateness(i))
    if not day.lost[i]:
        split.told[arm].append(bought)
    return bought


async def visit(client: Client, task: str, day: Day, i: int, layouts: list[np.ndarray]) -> bool:
    """One visitor: ask for a layout, click through the site, come back late with the return, or never."""
    asked = await client.in_thread(client.ask, task)
    bought = buys(layouts[asked.arm], day.liked[i], day.luck[i])
    await asyncio.sleep(lateness(i))
    if not day.lost[i]:
        await client.in_thread(client.tell, task, asked, float(bought))
    return bought


async def spend(day: Day, one_visit) -> np.ndarray:
    """All visitors of a day, so many at once."""
    room, bought = asyncio.Semaphore(AT_ONCE), np.zeros(len(day.lost), bool)

    async def enter(i: int) -> None:
        async with room:
            bought[i] = await one_visit(day, i)

    await asyncio.gather(*(enter(i) for i in range(len(day.lost))))
    return bought


async def days(client: Client, layouts: list[np.ndarray], known: np.ndarray, n_days: int, visitors: int) -> dict:
    """What was bought on each day under each way of choosing: the same visitors each time [days, visitors]."""
    found: dict[str, list[np.ndarray]] = {way: [] for way in COLOURS}
    worn = [*layouts, np.zeros(PAGES, int)]  # the last arm is the site as it was before there were layouts
    for number in range(n_days):
        day = Day.draw(known, visitors, np.random.default_rng([1, number]))
        common = {"bounds": [0, 1], "seed": number, "lease": 5.0, "learner": "as it was", "episodes": visitors}
        for way, settings in ((OURS, {"sources": "kept"}), (EXP3, {"sources": "kept", "selector": "exp3-transfer"})):
            task = f"{way}, day {number + 1}"
            await client.in_thread(client.make_task, task, **common, **settings)
            found[way].append(await spend(day, lambda d, i, t=task: visit(client, t, d, i, worn)))
        for way, until in ((TEST, visitors // 5), (EVEN, visitors)):
            split = Split(until)
            found[way].append(await spend(day, lambda d, i, s=split: visit_by_rule(s, d, i, layouts)))
    return {way: np.array(bought) for way, bought in found.items()}


def interval(values: np.ndarray, rng: np.random.Generator) -> tuple[float, float, float]:
    """The mean over days, and its 95% interval by resampling days."""
    means = rng.choice(values, size=(4000, len(values))).mean(axis=1)
    return float(values.mean()), *map(float, np.percentile(means, [2.5, 97.5]))


def draw(bought: dict[str, np.ndarray]) -> Figure:
    """Purchases per hundred visitors over the day, and what each way sold beside the even split."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    n = bought[OURS].shape[1]
    steps, rng = np.arange(1, n + 1), np.random.default_rng(0)
    width = max(1, n // 10)
    for way, colour in COLOURS.items():
        sums = np.cumsum(bought[way].mean(axis=0))
        recent = (sums[width:] - sums[:-width]) / width
        left.plot(steps[width:], 100 * recent, color=colour, label=way)
    left.set(xlabel="visitors", ylabel=f"purchases per 100 of the last {width} visitors")
    left.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    rows = [(way, interval(100 * bought[way].mean(axis=1), rng)) for way in COLOURS]
    for y, (way, (mean, low, high)) in enumerate(reversed(rows)):
        right.plot([low, high], [y, y], color=COLOURS[way], linewidth=3)
        right.plot(mean, y, "o", color=COLOURS[way])
        right.annotate(f"{mean:.1f}", (mean, y), (0, 8), textcoords="offset points", ha="center")
    right.set_yticks(range(len(rows)), [way.replace(", ", ",\n") for way, _ in reversed(rows)])
    right.set(xlabel="purchases per 100 visitors (95% over days)", ylim=(-0.5, len(rows) - 0.3))
    return figure


def main() -> None:
    """Spend the days, print the purchases, draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two short days")
    parser.add_argument("--out", type=Path, default=Path("website"), help="where the picture goes")
    options = parser.parse_args()
    n_days, visitors = (2, 150) if options.quick else (10, 1000)
    known = tastes(np.random.default_rng(0))
    with tempfile.TemporaryDirectory() as folder, pastmaster.Repository(f"{folder}/site.db") as repository:
        for kind in range(KINDS):
            repository.add(site(known[kind], f"kind {kind + 1}"), name=f"layout {kind + 1}")
        kept = repository.keep(max_loss=0.0)
        layouts = [np.asarray(policy) for policy in repository.sources()]
        while len(layouts) < KINDS:  # two kinds may like the same
            layouts.append(layouts[-1])
        print(f"{len(kept.policies)} layouts for {KINDS} kinds; {visitors:,} visitors a day, {AT_ONCE} at once")
        with pastmaster.service.started(repository) as url, Client(url) as client:
            bought = asyncio.run(days(client, layouts, known, n_days, visitors))
            state = client.state(f"{OURS}, day {n_days}")
    rng, even = np.random.default_rng(0), bought[EVEN].mean(axis=1)
    for way in COLOURS:
        mean, low, high = interval(100 * bought[way].mean(axis=1), rng)
        more, least, most = interval(100 * (bought[way].mean(axis=1) - even), rng)
        beside = f"{more:+.1f} ({least:+.1f} to {most:+.1f}) beside the even split"
        print(f"{way:26} {mean:5.1f} purchases per 100 ({low:.1f} to {high:.1f}), {beside}")
    print(f"last day: {state['told']} of {state['asked']} returns told, {state['open'] + state['expired']} lost")
    options.out.mkdir(parents=True, exist_ok=True)
    draw(bought).savefig(options.out / "website.png", dpi=130)
    print(f"picture: {options.out / 'website.png'}")


if __name__ == "__main__":
    main()
