"""The first screen of a repository's page: what each task loses under what is kept, and how returns went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pastmaster.arrays import FloatArray
from pastmaster.clustering import Clustering
from pastmaster.report.page import Bar, Bars, Table, Trend
from pastmaster.repository import Repository, StoredRun
from pastmaster.tables import counted, cut, told_apart
from pastmaster.values import policy_distance

MOST_BARS = 6  # on the first screen
MOST_ROWS = 500  # of the table of losses
LONGEST_NAME = 40
LOSSES = "What each task loses"
ABOUT_LOSSES = "What the best stored policy earns in the task, less what the best kept one earns."


class Losses(NamedTuple):
    """What each task loses under the kept policy that is best for it, that policy's name, and the best value known."""

    tasks: list[str]
    policies: list[str]
    lost: FloatArray
    best: FloatArray

    @classmethod
    def of(cls, repository: Repository, clustering: Clustering, numbers: list[int], kept: Sequence[str]) -> Losses:
        """Of a stored clustering; symmetric distances are only bounds, so the losses are read from the values."""
        best = {record.id: record.value for record in repository.records()}
        tasks, values = [str(clustering.task(i)) for i in range(len(numbers))], np.array([best[n] for n in numbers])
        if clustering.directed:
            cells, lost = clustering.served()
        else:
            places = [list(best).index(number) for number in numbers]
            losses = policy_distance(repository.cross_values(), directed=True)[np.ix_(places, places)]
            under = losses[:, clustering.representatives]
            cells, lost = under.argmin(axis=1), under.min(axis=1)
        return cls(tasks, [kept[cell] for cell in cells.tolist()], lost, values)

    def facts(self) -> list[tuple[str, str]]:
        """The mean and the largest loss, in units and as shares of what could be earned."""
        mean, best, worst = float(self.lost.mean()), float(self.best.mean()), int(self.lost.argmax())
        share = f" ({100 * mean / best:.2g}% of {best:.4g})" if best > 0 and mean > 0 else ""
        largest = f"{self.lost[worst]:.4g}, {self.short_names()[worst]}" if self.lost[worst] > 0 else "0"
        return [("Mean loss", f"{mean:.4g}{share}"), ("Largest loss", largest)]

    def short_names(self) -> list[str]:
        """What there is room for of the tasks' names: what tells them apart."""
        return told_apart(self.tasks, LONGEST_NAME)

    def order(self) -> list[int]:
        """The tasks, those that lose most first."""
        return [int(i) for i in np.argsort(-self.lost, kind="stable")]

    def table(self) -> Table:
        """All tasks, or those that lose most."""
        rows = [
            (self.tasks[i], self.policies[i], f"{self.best[i]:.4g}", f"{self.lost[i]:.4g}")
            for i in self.order()[:MOST_ROWS]
        ]
        which = f" (the {MOST_ROWS} that lose most)" if len(self.tasks) > MOST_ROWS else ""
        head = ("task", "best kept policy", "best known value", "loses")
        return Table(f"{LOSSES}{which}", head, rows, numeric=(2, 3))


def losses_panel(losses: Losses, later: int) -> Bars:
    """The tasks that lose most, as bars; ``later`` tasks came after the policies were chosen."""
    order, most = losses.order(), float(losses.lost.max())
    losing = int((losses.lost > 0).sum())
    uncounted = f" Tasks that came later are not counted: {later:,}." if later > 0 else ""
    if not losing:
        nothing = "Nothing: for every task the best policy that is known is among those kept."
        return Bars(LOSSES, ABOUT_LOSSES, (), f"{nothing}{uncounted}")
    tasks, policies = losses.short_names(), told_apart(losses.policies, LONGEST_NAME)
    bars = [
        Bar(
            tasks[i],
            f"served by {policies[i]}",
            f"{losses.lost[i]:.4g}",
            float(losses.lost[i]) / most,
        )
        for i in order[: min(MOST_BARS, losing)]
    ]
    rest, none = losing - len(bars), len(losses.tasks) - losing
    parts = [f"{counted(rest, 'more task')} lose{'s' if rest == 1 else ''} no more than these"] if rest else []
    parts += [f"{counted(none, 'task')} lose{'s' if none == 1 else ''} nothing"] if none else []
    rest_of_them = f"{'; '.join(parts)}." if parts else ""
    return Bars(LOSSES, ABOUT_LOSSES, bars, f"{rest_of_them}{uncounted}".strip())


def stream_panel(runs: Sequence[StoredRun]) -> Trend | None:
    """The mean return in each task of the latest stream, beside what the policy stored for the task was worth then."""
    met = [run for run in runs if run.stream_id is not None and len(run.returns)]
    if not met:
        return None
    latest = max(met, key=lambda run: run.id).stream_id
    own = sorted((run for run in met if run.stream_id == latest), key=lambda run: run.position or 0)
    values, reference = [float(run.returns.mean()) for run in own], [run.value for run in own]
    name = own[0].stream_name or str(latest)
    mean, could = float(np.mean(values)), float(np.mean(reference))
    return Trend(
        heading="How returns went",
        note=f"The stream {cut(name, LONGEST_NAME)}: {counted(len(own), 'task')}, mean return {mean:.4g} where the "
        f"best stored policies earn {could:.4g}.",
        axis="tasks in the order they were met",
        names=[run.name or f"task {i + 1}" for i, run in enumerate(own)],
        label="mean return of an episode",
        values=values,
        reference_label="best stored policy",
        reference=reference,
    )


def returns_fact(panel: Trend) -> tuple[str, str]:
    """The mean return over a stream, and what could be earned."""
    mean, could = float(np.mean(panel.values)), float(np.mean(panel.reference))
    return "Mean return", f"{mean:.4g} of {could:.4g}"
