"""``pastmaster repo keep``: which few of the stored policies to keep, and what each task loses by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pastmaster.cli import options, printing
from pastmaster.cli.answers import print_answer, question_options, stability_of
from pastmaster.cli.printing import Output

if TYPE_CHECKING:
    from pastmaster.clustering import Clustering
    from pastmaster.repository import Repository

COLUMNS = {"name": "policy", "source": "file", "size": "serves tasks", "radius": "most lost"}
ANSWER = ("cost", "lower_bound", "mean_loss", "largest_loss", "mean_radius", "directed", "seed", "price")
PAPERS = {"k": "n_clusters", "max_loss": "max_radius", "episodes": "episodes"}  # as ``Repository.cluster`` calls them


@click.command()
@options.repository_argument
@question_options
@options.bounds_option
@click.option(
    "--directed/--symmetric",
    default=True,
    show_default=True,
    help="Count what each task loses with a policy, or (the paper's) what two tasks lose if they swap policies.",
)
@click.option("--restarts", type=int, default=20, show_default=True, help="With --episodes or --symmetric: walks.")
@options.jobs_option
@options.workers_option
def keep(place: str, every: bool, output: Output, **asked: Any) -> None:
    """Find the few policies that serve all tasks, and what each task loses by it; the answer is stored.

    Any stored policy may be kept, and is named with the file it came from. A task's loss is what the best stored policy
    is worth in it, less what the best kept one is. Ctrl-C ends the search early and keeps the best so far; the exit
    code is then 130.

    \b
    pastmaster repo keep tasks.db -k 3
    pastmaster repo keep tasks.db --max-loss 0.1 --must-keep ppo.zip
    pastmaster repo keep tasks.db --price measured --episodes 1000
    pastmaster repo keep tasks.db --episodes 10000 --picture kept.png
    """
    with options.usage():
        _check_question(**asked)
    with options.opened(place) as repository:
        answer = _answer(repository, asked, output.bars)
        kept, ids = _kept(repository, answer), list(repository.cells())
    value = {name: getattr(answer, name) for name in ANSWER}
    value["over_all"] = None if answer.over_all is None else answer.over_all.told()
    value["kept"] = kept
    value["tasks"] = [
        {"id": number, "name": str(row.task), "policy": str(row.policy), "loss": row.loss}
        for number, row in zip(ids, answer.table(), strict=True)
    ]

    def words() -> None:
        if output.quiet:
            printing.say(*(cell["name"] for cell in kept))
            return
        exact = answer.standard_errors is None
        stability = None if exact else stability_of(answer, asked["seed"])
        print_answer(answer, kept, COLUMNS, stability, every)

    output.give(value, words, answer.plot)
    if answer.interrupted:
        raise SystemExit(options.INTERRUPTED)


def _check_question(
    *, k: int | None, max_loss: float | None, price: Any, episodes: int | None, directed: bool, **settings: Any
) -> None:
    """Refuse what is not one question; the span of returns is known by default."""
    from pastmaster.clustering import Question, keeping

    if directed or price is not None:
        alone = (k, max_loss, price) == (None, None, None)
        span = 1.0 if alone and episodes is not None else None
        keeping.asked("Repository.keep", k=k, max_loss=max_loss, price=price, episodes=episodes, span=span)
    else:
        Question(episodes, n_clusters=k, max_radius=max_loss).check_asked("Repository.cluster")


def _answer(repository: Repository, asked: dict[str, Any], bars: bool) -> Clustering:
    """The answer to what was asked; the paper's questions have settings of the search."""
    from pastmaster.values.bounds import checked_bounds

    pins: dict[str, Any] = {name: list(asked[name]) for name in ("must_keep", "never_keep") if asked[name]}
    span = None if asked["bounds"] is None else checked_bounds("--bounds", asked["bounds"]).span
    is_papers = asked["episodes"] is not None and asked["price"] is None and not pins
    if asked["directed"] and not is_papers:
        question = {name: asked[name] for name in ("k", "max_loss", "price", "episodes", "certify", "time_limit")}
        return repository.keep(rng=asked["seed"], span=span, **question, **pins)
    if pins or asked["price"] is not None:
        raise click.UsageError("--symmetric is given with --price, --must-keep or --never-keep, must be left out")
    question = {name: asked[name] for name in ("directed", "restarts", "certify")}
    question |= {papers: asked[name] for name, papers in PAPERS.items()}
    with options.workers(asked["jobs"], asked["workers"]) as workers:
        return repository.cluster(
            rng=asked["seed"],
            span=span,
            certify_seconds=asked["time_limit"],
            progress=bars,
            **workers,
            **question,
        )


def _kept(repository: Repository, answer: Clustering) -> list[dict[str, Any]]:
    """The policy that serves each cell: its name and file, the task it came with, and the cell's size and radius."""
    policies, ids = repository.policy_records(repository.cell_policies()), [*repository.cells()]
    came_with = {record.own_policy: record.id for record in repository.records()}
    kept = []
    for cell, (policy, radius) in enumerate(zip(policies, answer.radii.tolist(), strict=True)):
        served = [ids[i] for i in answer.members(cell).tolist()]
        kept.append(
            {
                "policy": policy.id,
                "name": policy.name,
                "source": policy.source,
                "task": came_with.get(policy.id),
                "serves": served,
                "size": len(served),
                "radius": radius,
            }
        )
    return kept
