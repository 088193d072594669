"""``pastmaster keep``: which few columns of a table of scores to keep, and what each row loses by it."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pastmaster.cli import options, printing
from pastmaster.cli.losses import number, stability_json, tell_doubts, tell_stability, tell_tasks
from pastmaster.errors import InvalidInputError
from pastmaster.tables import counted

if TYPE_CHECKING:
    from pastmaster.clustering import Clustering, KeepCurve, Scores

BAR = 30  # letters of the longest bar of a curve
STANDARD_INPUT = "standard input"


@dataclass(frozen=True)
class Asked:
    """What is asked about a table: exactly one question, or the curve."""

    k: int | None
    max_loss: float | None
    price: float | str | None
    episodes: float | None
    span: float | None
    curve: bool

    def question(self) -> dict[str, Any]:
        """The question as ``keep`` takes it, or what the curve may be told; anything else is a wrong command line."""
        names = ("k", "max_loss", "price", "episodes", "span")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.curve:
            if set(given) - {"k"}:
                raise click.UsageError("--curve is given with another question, must be alone, or with -k at most")
            return {"most": self.k}
        if self.price == options.MEASURED:
            if tuple(given) != ("price", "episodes"):
                raise click.UsageError(options.MEASURED_ALONE)
            episodes = given["episodes"]
            return given | {"episodes": int(episodes) if episodes.is_integer() else episodes}
        if tuple(given) not in (("k",), ("max_loss",), ("price",), ("episodes", "span")):
            wanted = "-k, --max-loss, --price, --episodes with --span, and --curve"
            raise click.UsageError(f"one question is needed, and one only, of {wanted}")
        return given


QUESTIONS = (
    click.option("-k", "k", type=int, metavar="NUMBER", help="Exactly so many policies, with the least mean loss."),
    click.option("--max-loss", type=float, help="Or: the fewest policies such that no task loses more."),
    options.price_option("Or: the least price x policies + mean loss."),
    click.option("--episodes", type=float, help="Or, with --span, the paper's cost: episodes of a new task."),
    click.option("--span", type=float, help="Greatest less least return of an episode."),
    click.option("--curve", is_flag=True, help="Or: the least mean loss with 1, 2, 3, ... (at most -k) policies."),
)


@click.command()
@click.argument("scores", metavar="SCORES")
@options.grouped(Asked, "asked", QUESTIONS)
@click.option("--lower-is-better", is_flag=True, help="Scores are costs, such as run times.")
@click.option("--must-keep", multiple=True, metavar="POLICY", help="Keep this column in any case; may be repeated.")
@click.option("--never-keep", multiple=True, metavar="POLICY", help="Do not keep this column; may be repeated.")
@options.path_option("--weights", "A .csv file: a line to each task, with its name and how much it counts.")
@click.option(
    "--time-limit", type=float, default=30.0, show_default=True, help="Seconds for search and proof, about."
)  # fmt: skip
@options.seed_option("Random seed of the search.")
@click.option("--all", "every", is_flag=True, help="A line for every task, also where there are many.")
@options.json_option
@options.picture_option
@options.quiet_option("Print only the kept policies, a line each (--curve: the elbow); no bars.")
def keep(
    scores: str, asked: Asked, must_keep: Sequence[str], never_keep: Sequence[str], weights: Path | None,
    every: bool, as_json: bool, picture: Path | None, quiet: bool, seed: int, **told: Any,
) -> None:  # fmt: skip
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

    question = asked.question()
    with _naming(scores):
        table = _read(scores)
        told["must_keep"], told["never_keep"] = _columns(table, must_keep), _columns(table, never_keep)
        told |= {"weights": _weights(weights), "rng": seed}
        with printing.waiting("searching and proving", told["time_limit"], printing.bars_wanted(quiet)):
            answer: Clustering | KeepCurve
            if asked.curve:
                answer = clustering.keep_curve(table, **question, **told)
            else:
                answer = keeping.keep(table, **question, **told)
    if isinstance(answer, clustering.KeepCurve):
        _tell_curve(answer, as_json, quiet)
        interrupted = any(one.interrupted for one in answer.answers)
    else:
        _tell(answer, every, as_json, quiet)
        interrupted = answer.interrupted
    if picture is not None:
        printing.save_picture(answer.plot(), picture)
    if interrupted:
        raise SystemExit(options.INTERRUPTED)


@contextmanager
def _naming(scores: str) -> Iterator[None]:
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
    found = read.values[:, 0].tolist()
    if len(set(read.tasks)) < len(read.tasks):
        twice = next(name for name in read.tasks if read.tasks.count(name) > 1)
        raise InvalidInputError(f"keep: weights has {twice!r} twice, must have a line to each task")
    return dict(zip(read.tasks, found, strict=True)) if read.tasks else found


def _finite(value: float | None) -> float | None:
    """A number as JSON has it."""
    return None if value is None or not math.isfinite(value) else value


def _kept(answer: Clustering) -> list[dict[str, Any]]:
    """Each kept policy, the tasks it is best for, and what they lose; cells may share a policy."""
    import numpy as np

    best, losses = answer.served()
    columns = answer.columns[best]
    weights = np.ones(len(losses)) if answer.weights is None else answer.weights
    kept = []
    for column in dict.fromkeys(answer.columns.tolist()):
        served = np.flatnonzero(columns == column)
        counts = weights[served].any()
        kept.append(
            {
                "policy": answer.policy(column), "column": column, "serves": [answer.task(i) for i in served.tolist()],
                "mean_loss": float(np.average(losses[served], weights=weights[served])) if counts else None,
                "largest_loss": float(losses[served].max()) if len(served) else None,
            }
        )  # fmt: skip
    return kept


def _tell(answer: Clustering, every: bool, as_json: bool, quiet: bool) -> None:
    """The kept policies, what each task loses, and what is proven."""
    kept = _kept(answer)
    if as_json:
        printing.print_json(_as_json(answer, kept))
    elif quiet:
        printing.say(*(policy["policy"] for policy in kept))
    else:
        lines = [
            (
                policy["policy"], len(policy["serves"]),
                *("-" if policy[loss] is None else number(policy[loss]) for loss in ("mean_loss", "largest_loss")),
            )
            for policy in kept
        ]  # fmt: skip
        printing.print_table(("kept policy", "serves tasks", "mean loss", "most lost"), lines)
        printing.say("")
        tell_tasks(answer, every)
        tell_doubts(answer)
        printing.say("")
        tell_stability(answer, answer.seed or 0)
        printing.say(f"{answer}, seed {answer.seed}")


def _as_json(answer: Clustering, kept: list[dict[str, Any]]) -> dict[str, Any]:
    again = [doubt._asdict() | {"standard_error": _finite(doubt.standard_error)} for doubt in answer.doubts()]
    return {
        "n_tasks": len(answer.labels),
        "n_policies": answer.distance.shape[1],
        "kept": kept,
        "mean_loss": answer.mean_loss,
        "largest_loss": answer.largest_loss,
        "cost": answer.cost,
        "price": answer.price,
        "lower_bound": _finite(answer.lower_bound),
        "gap": _finite(answer.gap),
        "optimal": answer.is_optimal,
        "interrupted": answer.interrupted,
        "seed": answer.seed,
        "tasks": [{"task": row.task, "policy": row.policy, "loss": row.loss} for row in answer.table()],
        "measure_again": again,
        "stability": stability_json(answer, answer.seed or 0),
    }


def _tell_curve(curve: KeepCurve, as_json: bool, quiet: bool) -> None:
    """The least mean loss for each number of policies, with a bar to each."""
    if as_json:
        answers = [
            {
                "k": one.n_clusters, "mean_loss": one.mean_loss, "lower_bound": _finite(one.lower_bound),
                "largest_loss": one.largest_loss, "optimal": one.is_optimal, "policies": one.policies,
            }
            for one in curve.answers
        ]  # fmt: skip
        told = {"elbow": curve.elbow, "begins": curve.begins or None, "seed": curve.seed}
        printing.print_json({"curve": answers} | told)
    elif quiet:
        printing.say(curve.elbow)
    else:
        largest = max(curve.mean_loss.max(), 5e-324)
        lines = [
            (
                one.n_clusters, number(one.mean_loss), number(one.lower_bound or 0.0), number(one.largest_loss),
                "#" * math.ceil(BAR * min(1.0, one.mean_loss / largest)), ", ".join(map(str, one.policies)),
            )
            for one in curve.answers
        ]  # fmt: skip
        printing.print_table(("policies", "mean loss", "at least", "most lost", "mean loss", "which"), lines)
        if curve.begins:
            printing.say("", curve.begins)
        printing.say("", f"{curve.elbow} would do: after that a further policy saves little (seed {curve.seed})")
