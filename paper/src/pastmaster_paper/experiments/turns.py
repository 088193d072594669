"""Why a sentence fails: one thing at a time is turned from one reading into the other, and all sentences are measured.

Turned readings are run with fewer targets and trials, and shorter searches; so are the two readings they start from.
The same machinery tries the paper's loose ends that are readings: elimination at every episode, equal numbers of
sequences, a greedy clustering with few thresholds, and tasks that begin anew until the step limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from pastmaster import figures
from pastmaster_paper.experiments import panels, surveillance_runs as runs
from pastmaster_paper.experiments.charts import Columns
from pastmaster_paper.experiments.pooled import VERDICTS
from pastmaster_paper.experiments.readings import PRINTED, UNDISCOUNTED, Reading
from pastmaster_paper.experiments.scale import Scale
from pastmaster_paper.experiments.sentences import SENTENCES, Judged, judge
from pastmaster_paper.experiments.setting import COMPLEX, SETTINGS
from pastmaster_paper.experiments.unit import Draws, Experiment, Pictures, Tables, Unit, UnitArrays
from pastmaster_paper.experiments.ways import EXP3, Way

LESS = {"targets": 5, "trials": 2, "restarts": 5, "iterations": 20_000}
"""At most so much is run of a turned reading."""
EQUAL = tuple((one.name, 16) for one in SETTINGS)
WHY = (
    PRINTED.but("why-printed", "printed"),
    PRINTED.but("why-no-discount", "printed, gamma = 1", gamma=1.0),
    PRINTED.but("why-goes-on", "printed, a wrong surveil goes on", escape_ends=False),
    PRINTED.but("why-wide", "printed, the paper's span", bounds="paper"),
    PRINTED.but("why-small-step", "printed, step 0.1", step_size=0.1),
    UNDISCOUNTED.but("why-undiscounted", "undiscounted"),
    UNDISCOUNTED.but("why-discount", "undiscounted, gamma = 0.9", gamma=0.9),
    UNDISCOUNTED.but("why-ends", "undiscounted, a wrong surveil ends", escape_ends=True),
    UNDISCOUNTED.but("why-large-step", "undiscounted, step 0.5", step_size=0.5),
    UNDISCOUNTED.but("why-drawn", "undiscounted, sequences as printed", sequences=()),
)
LOOSE = (
    PRINTED.but("loose-l-1", "printed, l = 1", check_every=1),
    UNDISCOUNTED.but("loose-l-1-undiscounted", "undiscounted, l = 1", check_every=1),
    PRINTED.but("loose-equal", "printed, 16 sequences everywhere", sequences=EQUAL),
    UNDISCOUNTED.but("loose-equal-undiscounted", "undiscounted, 16 sequences everywhere", sequences=EQUAL),
    PRINTED.but("loose-greedy", "printed, greedy with 5 thresholds, one order", thresholds=5),
    UNDISCOUNTED.but("loose-greedy-undiscounted", "undiscounted, greedy with 5 thresholds, one order", thresholds=5),
    UNDISCOUNTED.but("loose-repeats", "undiscounted, the task begins anew", repeats=True),
)


def units(readings: Sequence[Reading]) -> list[Unit]:
    """The settings under turned readings, with less of everything."""
    found = []
    for one in (unit for reading in readings for unit in runs.units(reading)):
        found.append(replace(one, run=partial(_less, one), settings=f"{one.settings} {LESS}"))
    return found


def _less(unit: Unit, rng: np.random.Generator, scale: Scale) -> UnitArrays:
    return unit.run(rng, replace(scale, **{name: min(most, getattr(scale, name)) for name, most in LESS.items()}))


def judged(draws: Draws, readings: Sequence[Reading]) -> dict[str, list[Judged]]:
    """Each sentence about surveillance under each turned reading, by the reading's words."""
    chosen = [sentence for sentence in SENTENCES if sentence.of_reading]
    return {one.words: [judge(sentence, draws.results, one) for sentence in chosen] for one in readings}


def told(found: Judged) -> str:
    """A verdict, and the mean of the figures that decided."""
    means = [case.figure.mean for case in found.judged()]
    return f"{found.verdict}: {np.mean(means):.3g}"


def tables_of(readings: Sequence[Reading], title: str, draws: Draws) -> Tables:
    """A row for each sentence, a column for each turned reading; then counts of verdicts, and Table 3."""
    found = judged(draws, readings)
    chosen = [sentence for sentence in SENTENCES if sentence.of_reading]
    rows = [
        [f"{sentence.id}. {sentence.words}", *(told(column[i]) for column in found.values())]
        for i, sentence in enumerate(chosen)
    ]
    yield "sentences", Columns(["sentence", *found], rows, f"{title}: verdict, and the mean figure over its cases")
    counts = [[words, *(sum(one.verdict == v for one in column) for v in VERDICTS)] for words, column in found.items()]
    yield "counts", Columns(["reading", *VERDICTS], counts, f"{title}: how many of {len(chosen)} sentences")
    yield (
        "table-3",
        Columns(
            ["reading", *(f"{how}, {one.short}" for one in COMPLEX for how in (runs.SEARCH, runs.GREEDY))],
            [[reading.words, *_table_3(Draws(draws.results, reading))] for reading in readings],
            f"{title}: the paper's Table 3 (871, 837; 837, 381), in reward an episode",
        ),
    )


def _table_3(draws: Draws) -> list[str]:
    return [
        panels.told(panels.reward(draws, one, Way(EXP3, how))) for one in COMPLEX for how in (runs.SEARCH, runs.GREEDY)
    ]


def pictures_of(readings: Sequence[Reading], draws: Draws) -> Pictures:
    """How many sentences hold under each turned reading."""
    figure, axes = figures.new_figure(9, 0.45 * len(readings) + 1.5)
    found, left = judged(draws, readings), np.zeros(len(readings))
    for place, verdict in enumerate(VERDICTS):
        counts = np.array([sum(one.verdict == verdict for one in column) for column in found.values()], np.float64)
        axes.barh(list(found), counts, left=left, label=verdict, color=figures.COLOURS[(2, 4, 5, 1)[place]])
        left += counts
    axes.invert_yaxis()
    axes.set(xlabel="sentences")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    yield "sentences", figure


def experiment(name: str, title: str, readings: Sequence[Reading]) -> Experiment:
    """An experiment of turned readings: it does not depend on the readings that are judged."""
    return Experiment(
        name, title, partial(tables_of, readings, title), partial(pictures_of, readings), common=units(readings),
        wants_name=True, ours=True,
    )  # fmt: skip


EXPERIMENTS = [
    experiment("why", "One thing turned at a time", WHY),
    experiment("loose-ends", "Loose ends of the paper", LOOSE),
]
