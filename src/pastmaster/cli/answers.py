"""Which few policies to keep: the options of the question, and the answer as ``keep`` and ``repo keep`` print it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from pastmaster.cli import options, printing
from pastmaster.cli.printing import number
from pastmaster.tables import counted

if TYPE_CHECKING:
    from pastmaster.clustering import Clustering, Stability

MOST_ROWS = 40  # tasks up to which each has its line
WORST = 20  # tasks that have one where there are more
MOST_DOUBTS = 5  # scores to be measured again that are named
OPTIONS = (
    click.option("-k", "k", type=int, metavar="NUMBER", help="Exactly so many policies, with the least mean loss."),
    click.option("--max-loss", type=float, help="Or: the fewest policies such that no task loses more."),
    options.price_option("Or: the least price x policies + mean loss."),
    click.option("--episodes", type=int, help="Or: the paper's cost, for tasks that will get so many episodes."),
    options.pin_options,
    click.option("--certify/--no-certify", default=True, show_default=True, help="Prove how good the answer is."),
    click.option(
        "--time-limit", type=float, default=30.0, show_default=True, help="Seconds for search and proof, about."
    ),
    options.seed_option("Random seed of the search."),
    click.option("--all", "every", is_flag=True, help="A line for every task, also where there are many."),
    options.output_options("Print only the kept policies, a line each; no bars."),
)


def question_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What is asked of a table or a repository, and how the answer is given."""
    return options.applied(command, OPTIONS)


def print_answer(
    answer: Clustering,
    kept: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str],
    stability: Stability | None,
    every: bool,
) -> None:
    """The kept policies, what each task loses, how sure that is, and what is proven."""
    printing.print_records(columns, kept)
    printing.say("")
    _print_tasks(answer, every)
    _print_doubts(answer)
    printing.say("")
    if stability is not None:
        printing.say(stability)
    printing.say(f"{answer}, seed {answer.seed}")


def stability_of(answer: Clustering, seed: int) -> Stability | None:
    """How sure the choice is: which policies stay in resamples, and where the mean loss lies; not of the paper's."""
    from pastmaster.clustering.partition import KEPT

    return answer.stability(rng=seed) if answer.kind in KEPT else None


def stability_json(found: Stability | None) -> dict[str, Any] | None:
    """The same for scripts."""
    if found is None:
        return None
    if not found.resamples:
        return {"resamples": 0, "mean_loss": None, "kept": None}
    shares = {str(name): share for name, share in found.kept.items()}
    return {"resamples": found.resamples, "mean_loss": [found.low, found.high], "kept": shares}


def _print_tasks(answer: Clustering, every: bool) -> None:
    """A line to each task, worst first; of many tasks the worst, and a count of the rest."""
    rows = sorted(answer.table(), key=lambda row: -row.loss)
    n_shown = len(rows) if every or len(rows) <= MOST_ROWS else WORST
    printing.print_table(
        ("task", "policy", "loss"), [(row.task, row.policy, number(row.loss)) for row in rows[:n_shown]]
    )
    rest = rows[n_shown:]
    if rest:
        nothing = sum(row.loss == 0 for row in rest)
        printing.say(
            f"... and {counted(len(rest), 'task')} more, which lose {number(rest[0].loss)} at most, {nothing:,} of "
            "them nothing (--all shows them)"
        )


def _print_doubts(answer: Clustering) -> None:
    """Which scores should be measured again, where some were measured several times."""
    doubts = answer.doubts()
    if not doubts:
        return
    printing.say("", "measure again first, to be sure of the mean loss:")
    printing.print_table(
        ("task", "policy", "standard error", "shifts the mean loss by"),
        [(one.task, one.policy, number(one.standard_error), number(one.shift)) for one in doubts[:MOST_DOUBTS]],
    )
    if len(doubts) > MOST_DOUBTS:
        printing.say(f"... and {counted(len(doubts) - MOST_DOUBTS, 'score')} more (--json has all)")
