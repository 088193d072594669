"""``pastmaster keep``: which few columns of a table of scores to keep."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pastmaster.cli import options, printing
from pastmaster.cli.answers import print_answer, question_options, stability_json, stability_of
from pastmaster.cli.printing import Output, number
from pastmaster.errors import InvalidInputError
from pastmaster.tables import counted

if TYPE_CHECKING:
    from pastmaster.clustering import Clustering, KeepCurve, Scores

ANSWER = ("mean_loss", "largest_loss", "cost", "price", "lower_bound", "gap")
BAR = 30  # letters of the longest bar of a curve
STANDARD_INPUT = "standard input"
COLUMNS = {"policy": "kept policy", "serves": "serves tasks", "mean_loss": "mean loss", "largest_loss": "most lost"}


@click.command()
@click.argument("scores", metavar="SCORES")
@question_options
@click.option("--span", type=float, help="With --episodes: greatest less least return of an episode.")
@click.option("--curve", is_flag=True, help="Or: the least mean loss with 1, 2, 3, ... (at most -k) policies.")
@click.option("--lower-is-better", is_flag=True, help="Scores are costs, such as run times.")
@options.path_option("--weights", "A .csv file: a line to each task, with its name and how much it counts.")
def keep(scores: str, weights: Path | None, seed: int, every: bool, output: Output, curve: bool, **asked: Any) -> None:
    """Which few policies to keep, and what each task loses by it.

    SCORES is a .csv file, or - for standard input. Wide: a row to each task, a column to each policy, in the cells the
    scores, higher is better, empty where a policy was not tried. Long: columns task, policy and score, a row to each
    trial. Policies are told by name, or by column from 0 on. Ctrl-C ends the search with the best so far; the exit
    code is then 130.

    \b
    pastmaster keep scores.csv -k 3
    pastmaster keep scores.csv --curve --picture curve.png
    pastmaster keep times.csv --max-loss 60 --lower-is-better --json
    pastmaster keep scores.csv --price measured --episodes 100
    """
    from pastmaster import clustering, keeping

    if curve:
        questions = [asked.pop(name) for name in ("max_loss", "price", "episodes", "span")]
        if any(value is not None for value in questions):
            raise click.UsageError("--curve is given with another question, must be alone, or with -k at most")
        asked["most"] = asked.pop("k")
    else:
        with options.usage():
            clustering.keeping.asked("keep", **{name: asked[name] for name in clustering.keeping.QUESTIONS})
    with _named(scores):
        table = _read(scores)
        for name in ("must_keep", "never_keep"):
            asked[name] = _columns(table, asked[name])
        asked["weights"] = _weights(weights)
        ask: Any = clustering.keep_curve if curve else keeping.keep
        with printing.waiting("searching and proving", asked["time_limit"], output.bars):
            answer: Clustering | KeepCurve = ask(table, rng=seed, **asked)
    if isinstance(answer, clustering.KeepCurve):
        _give_curve(answer, output)
        interrupted = any(one.interrupted for one in answer.answers)
    else:
        _give(answer, seed, every, output)
        interrupted = answer.interrupted
    if interrupted:
        raise SystemExit(options.INTERRUPTED)


@contextmanager
def _named(scores: str) -> Iterator[None]:
    """Errors about what is in the table begin with its file."""
    try:
        yield
    except InvalidInputError as error:
        source = STANDARD_INPUT if scores == "-" else scores
        text = re.sub(r"^\w+: scores(?=:| has )", lambda _: source, str(error))
        raise InvalidInputError(re.sub(r"^\w+: (?=scores\[)", lambda _: f"{source}: ", text)) from None


def _read(scores: str) -> Scores:
    """The table in a file or on standard input."""
    from pastmaster.clustering.csv_table import from_csv
    from pastmaster.clustering.scores import read_scores
    from pastmaster.files import LARGEST

    if scores != "-":
        return read_scores("keep", scores)
    content = sys.stdin.buffer.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise InvalidInputError(f"keep: scores has more than {LARGEST:,} bytes, must have fewer")
    return read_scores("keep", from_csv("keep: scores", content, STANDARD_INPUT))


def _columns(table: Scores, names: Sequence[str]) -> list[str | int]:
    """Policies as ``keep`` takes them: names where the table has them, else numbers."""
    return [int(name) if name not in table.policies and name.isdecimal() else name for name in names]


def _weights(path: Path | None) -> dict[str, float] | list[float] | None:
    """How much each task counts: a table with one column, by name where it has names."""
    from pastmaster.clustering.scores import read_scores

    if path is None:
        return None
    try:
        read = read_scores("keep", path)
    except InvalidInputError as error:
        raise InvalidInputError(re.sub(r"^keep: scores", "keep: weights", str(error))) from None
    if read.values.shape[1] != 1:
        raise InvalidInputError(
            f"keep: weights has {counted(read.values.shape[1], 'column')} of numbers, must have one, after the names"
        )
    numbers = read.values[:, 0].tolist()
    if len(set(read.tasks)) < len(read.tasks):
        twice = next(name for name in read.tasks if read.tasks.count(name) > 1)
        raise InvalidInputError(f"keep: weights has {twice!r} twice, must have a line to each task")
    return dict(zip(read.tasks, numbers, strict=True)) if read.tasks else numbers


def _kept(answer: Clustering) -> list[dict[str, Any]]:
    """Each kept policy, the tasks it is best for, and what they lose; cells may share a policy."""
    import numpy as np

    best, losses = answer.served()
    columns = answer.columns[best]
    weights = np.ones(len(losses)) if answer.weights is None else answer.weights
    kept = []
    for column in dict.fromkeys(answer.columns.tolist()):
        served = np.flatnonzero(columns == column)
        lost, counts = losses[served], weights[served]
        kept.append(
            {
                "policy": answer.policy(column),
                "column": column,
                "serves": [answer.task(i) for i in served.tolist()],
                "mean_loss": float(np.average(lost, weights=counts)) if counts.any() else None,
                "largest_loss": float(lost.max()) if len(served) else None,
            }
        )
    return kept


def _give(answer: Clustering, seed: int, every: bool, output: Output) -> None:
    """The kept policies, what each task loses, and what is proven."""
    kept = _kept(answer)
    if output.quiet and not output.as_json:
        output.give(None, lambda: printing.say(*(policy["policy"] for policy in kept)), answer.plot)
        return
    stability = stability_of(answer, seed)
    value = {
        "n_tasks": len(answer.labels),
        "n_policies": answer.distance.shape[1],
        "kept": kept,
        **{name: getattr(answer, name) for name in ANSWER},
        "optimal": answer.is_optimal,
        "interrupted": answer.interrupted,
        "seed": answer.seed,
        "tasks": [{"task": row.task, "policy": row.policy, "loss": row.loss} for row in answer.table()],
        "measure_again": [doubt._asdict() for doubt in answer.doubts()],
        "stability": stability_json(stability),
    }
    output.give(value, lambda: print_answer(answer, kept, COLUMNS, stability, every), answer.plot)


def _give_curve(curve: KeepCurve, output: Output) -> None:
    """The least mean loss for each number of policies, with a bar to each."""
    rows = []
    for row, answer in zip(curve.table(), curve.answers, strict=True):
        policies = row.pop("policies")
        rows.append(row | {"optimal": answer.is_optimal, "policies": policies})

    def words() -> None:
        if output.quiet:
            printing.say(curve.elbow)
            return
        largest = max(curve.mean_loss.max(), 5e-324)
        lines = []
        for row in rows:
            losses = row["mean_loss"], row["lower_bound"] or 0.0, row["largest_loss"]
            bar = "#" * math.ceil(BAR * min(1.0, row["mean_loss"] / largest))
            lines.append((row["k"], *map(number, losses), bar, ", ".join(map(str, row["policies"]))))
        printing.print_table(("policies", "mean loss", "at least", "most lost", "mean loss", "which"), lines)
        if curve.begins:
            printing.say("", curve.begins)
        printing.say("", f"{curve.elbow} would do: after that a further policy saves little (seed {curve.seed})")

    value = {"curve": rows, "elbow": curve.elbow, "begins": curve.begins or None, "seed": curve.seed}
    output.give(value, words, curve.plot)
