"""A website that shapes itself to its visitors: twelve layouts, two hundred visitors at once, returns late and lost.

The site has five pages between the door and the purchase. A layout shows each page in one of three designs. Visitors
are of hidden kinds, and like some designs better than others: for each kind the site is a Markov decision process.
Twelve kinds were studied before, and the best layout for each was kept, with what it sells to all the others. Today's
visitors are a mixture that nobody has seen. A service decides over HTTP which layout each of them meets.

    pip install 'pastmaster[serve]'
    python examples/website.py [--quick] [--out FOLDER]

It takes less than a minute on two cores, and a minute more the first time.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import pastmaster
from pastmaster import Client
from pastmaster.errors import ServiceError

PAGES, DESIGNS, KINDS = 5, 3, 12
LIKED, OTHER = 0.9, 0.62  # the chance that a visitor goes on, with a design that the kind likes, and with another
AT_ONCE, LOST, GAMMA = 200, 0.1, 0.999
OURS, EXP3, TEST, EVEN = "pastmaster serve", "EXP-3", "A/B test,\nthen the winner", "even split"
BEST = "the day's best layout,\nknown beforehand"
COLOURS = {OURS: "#0072b2", EXP3: "#d55e00", TEST: "#009e73", EVEN: "#7f7f7f", BEST: "#000000"}
STYLES = {BEST: ":"}


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
    """An even split until so many returns are in; from then on everybody gets the layout that has sold most."""

    until: int
    told: list[list[bool]] = field(default_factory=lambda: [[] for _ in range(KINDS)])
    met: int = 0
    winner: int | None = None

    def ask(self) -> int:
        self.met += 1
        if self.winner is None and sum(map(len, self.told)) >= self.until:
            self.winner = max(range(KINDS), key=lambda arm: float(np.mean(self.told[arm] or [False])))
        return self.met % KINDS if self.winner is None else self.winner


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
        try:
            await client.in_thread(client.tell, task, asked, float(bought))
        except ServiceError as error:
            if error.code != "expired":  # on a computer that is very busy a return may come after its lease
                raise
    return bought


async def rehearse(client: Client, **settings: Any) -> None:
    """One visitor before the doors open: on a new machine, the selector is compiled first."""
    await client.in_thread(client.make_task, "rehearsal", bounds=[0, 1], **settings)
    async with client.episode("rehearsal") as episode:
        episode.value = 0.0
    await client.in_thread(client.remove_task, "rehearsal")


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
    ways = {OURS: {"sources": "kept"}, EXP3: {"sources": "kept", "selector": "exp3-transfer"}}
    for settings in ways.values():
        await rehearse(client, episodes=visitors, **settings)
    for number in range(n_days):
        day = Day.draw(known, visitors, np.random.default_rng([1, number]))
        common = {"bounds": [0, 1], "seed": number, "lease": 5.0, "learner": "as it was", "episodes": visitors}
        sites = {}
        for way, settings in ways.items():
            task = f"{way}, day {number + 1}"
            await client.in_thread(client.make_task, task, **common, **settings)
            sites[way] = spend(day, lambda d, i, t=task: visit(client, t, d, i, worn))
        for way, split in ((TEST, Split(visitors // 5)), (EVEN, Split(visitors))):
            sites[way] = spend(day, lambda d, i, s=split: visit_by_rule(s, d, i, layouts))
        for way, bought in zip(sites, await asyncio.gather(*sites.values()), strict=True):
            found[way].append(bought)
        sold = [(day.luck < np.where(layout == day.liked, LIKED, OTHER)).all(axis=1) for layout in layouts]
        found[BEST].append(max(sold, key=np.mean))
    return {way: np.array(bought) for way, bought in found.items()}


def interval(values: np.ndarray, rng: np.random.Generator) -> tuple[float, float, float]:
    """The mean over days, and its 95% interval by resampling days."""
    means = rng.choice(values, size=(4000, len(values))).mean(axis=1)
    return float(values.mean()), *map(float, np.percentile(means, [2.5, 97.5]))


def draw(bought: dict[str, np.ndarray]) -> Figure:
    """Purchases per hundred visitors over the day, and over all days with their intervals."""
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    n_days, n = bought[OURS].shape
    width, rng = max(1, n // 5), np.random.default_rng(0)
    for way, colour in COLOURS.items():
        sums = np.concatenate([[0], np.cumsum(bought[way].mean(axis=0))])
        recent = 100 * (sums[width:] - sums[:-width]) / width
        left.plot(np.arange(width, n + 1), recent, STYLES.get(way, "-"), color=colour, linewidth=2)
        left.annotate(
            way.partition(",")[0], (n, recent[-1]), (5, 0), textcoords="offset points", color=colour, va="center"
        )
    left.set_title("As the day goes on", loc="left")
    left.set(xlabel="visitors so far", ylabel=f"purchases per 100 visitors (of the last {width})", xlim=(width, n))
    rows = sorted(((interval(100 * bought[way].mean(axis=1), rng), way) for way in COLOURS), reverse=True)
    for y, ((mean, low, high), way) in enumerate(reversed(rows)):
        right.plot([low, high], [y, y], color=COLOURS[way], linewidth=3)
        right.plot(mean, y, "o", color=COLOURS[way], markersize=8)
        right.annotate(f"{mean:.1f}", (mean, y), (0, 9), textcoords="offset points", ha="center")
    right.set_yticks(range(len(rows)), [way for _, way in reversed(rows)])
    for label, (_, way) in zip(right.get_yticklabels(), reversed(rows), strict=True):
        label.set(color=COLOURS[way], fontweight="bold" if way == OURS else "normal")
    right.set_title("The whole day", loc="left")
    right.set(xlabel=f"purchases per 100 visitors\n(mean of {n_days} days, 95% interval)", ylim=(-0.6, len(rows) - 0.3))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="x" if axes is right else "y", color="#dddddd", linewidth=0.8)
        axes.set_axisbelow(True)
    figure.suptitle(
        f"Which of {KINDS} layouts does a visitor see? {AT_ONCE} on the site at once, returns late, one in ten lost",
        fontweight="bold", ha="left", x=0.01,
    )  # fmt: skip
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
        name = way.replace("\n", " ")
        print(f"{name:40} {mean:5.1f} purchases per 100 ({low:.1f} to {high:.1f}), {beside}")
    more, least, most = interval(100 * (bought[OURS] - 1.0 * bought[TEST]).mean(axis=1), rng)
    print(f"the service beside the A/B test, day by day: {more:+.1f} ({least:+.1f} to {most:+.1f})")
    print(f"last day: {state['told']} of {state['asked']} returns told, {state['open'] + state['expired']} lost")
    options.out.mkdir(parents=True, exist_ok=True)
    draw(bought).savefig(options.out / "website.png", dpi=130)
    print(f"picture: {options.out / 'website.png'}")


if __name__ == "__main__":
    main()
