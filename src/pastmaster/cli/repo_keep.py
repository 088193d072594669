"""``pastmaster repo keep``: which few of the stored policies to keep, and what each task loses by it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pastmaster.cli import options, printing
from pastmaster.cli.losses import number, tell_doubts, tell_stability, tell_tasks

if TYPE_CHECKING:
    from pastmaster.clustering import Clustering
    from pastmaster.repository import Repository

QUESTIONS = ("k", "max_loss", "price", "episodes")
NEEDED = "one of -k, --max-loss, --price and --episodes is needed"
PAPERS = {"k": "n_clusters", "max_loss": "max_radius", "episodes": "episodes"}  # as ``Repository.cluster`` calls them


@click.command()
@options.repository_argument
@click.option("-k", "--n-clusters", "k", type=int, help="Exactly so many policies, with the least mean loss.")
@click.option("--max-loss", "--max-radius", "max_loss", type=float, help="Or: the fewest such that no task loses more.")
@options.price_option("Or: what a policy must earn a task, on average, to be kept.")
@click.option("--episodes", type=int, help="Or: the paper's cost, for tasks that will get so many episodes.")
@options.bounds_option
@click.option("--must-keep", multiple=True, metavar="POLICY", help="Keep the policy of this name in any case.")
@click.option("--never-keep", multiple=True, metavar="POLICY", help="Do not keep the policy of this name.")
@click.option(
    "--directed/--symmetric", default=True, show_default=True,
    help="Count what each task loses with a policy, or (the paper's) what two tasks lose if they swap policies.",
)  # fmt: skip
@click.option("--certify/--no-certify", default=True, show_default=True, help="Prove how close to the optimum it is.")
@click.option("--time-limit", type=float, default=30.0, show_default=True, help="About how many seconds a proof takes.")
@click.option("--restarts", type=int, default=20, show_default=True, help="With --episodes or --symmetric: walks.")
@options.seed_option("Random seed of the search.")
@click.option("--all", "every", is_flag=True, help="A line for every task, also where there are many.")
@options.jobs_option
@options.workers_option
@options.json_option
@options.picture_option
@options.quiet_option("No bars.")
def keep(place: str, every: bool, as_json: bool, picture: Path | None, **asked: Any) -> None:
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
    given = [name for name in QUESTIONS if asked[name] is not None]
    if asked["price"] == options.MEASURED:
        if given != ["price", "episodes"]:
            raise click.UsageError(options.MEASURED_ALONE)
    elif not given or (asked["directed"] and len(given) > 1):
        raise click.UsageError(NEEDED)
    with options.opened(place) as repository:
        found = _answer(repository, asked)
        kept, lost = _kept(repository, found), _lost(repository, found)
    if as_json:
        names = ("cost", "lower_bound", "mean_loss", "largest_loss", "mean_radius", "directed", "seed")
        told = {name: getattr(found, name) for name in names} | {"price": found.price}
        told["over_all"] = None if found.over_all is None else found.over_all.told()
        printing.print_json(told | {"kept": kept, "tasks": lost})
    else:
        _print(kept)
        tell_tasks(found, every)
        tell_doubts(found)
        printing.say("")
        if found.standard_errors is not None:  # else values are exact
            tell_stability(found, asked["seed"])
        printing.say(f"{found}, seed {asked['seed']}")
    if picture is not None:
        printing.save_picture(found.plot(), picture)
    if found.interrupted:
        raise SystemExit(130)


def _answer(repository: Repository, asked: dict[str, Any]) -> Clustering:
    """The answer to what was asked; the paper's questions have settings of the search."""
    from pastmaster.values.bounds import checked_bounds

    told: dict[str, Any] = {name: list(asked[name]) for name in ("must_keep", "never_keep") if asked[name]}
    span = None if asked["bounds"] is None else checked_bounds("--bounds", asked["bounds"]).span
    if asked["directed"] and (told or asked["episodes"] is None or asked["price"] is not None):
        question = {name: asked[name] for name in (*QUESTIONS, "certify", "time_limit")}
        return repository.keep(rng=asked["seed"], span=span, **question, **told)
    if told or asked["price"] is not None:
        raise click.UsageError("--symmetric is given with --price, --must-keep or --never-keep, must be left out")
    question = {name: asked[name] for name in ("directed", "restarts", "certify")}
    question |= {paper: asked[name] for name, paper in PAPERS.items()}
    with options.workers(asked["jobs"], asked["workers"]) as workers:
        return repository.cluster(
            rng=asked["seed"],
            span=span,
            certify_seconds=asked["time_limit"],
            progress=printing.bars_wanted(asked["quiet"]),
            **workers,
            **question,
        )


def _print(kept: list[dict[str, Any]]) -> None:
    """The kept policies."""
    files = any(cell["source"] for cell in kept)
    lines = [
        (cell["name"], *([cell["source"] or "-"] if files else []), cell["size"], number(cell["radius"]))
        for cell in kept
    ]
    printing.print_table(("policy", *(["file"] if files else []), "serves tasks", "most lost"), lines)
    printing.say("")


def _kept(repository: Repository, found: Clustering) -> list[dict[str, Any]]:
    """The policy that serves each cell: its name and file, the task it came with, and the cell's size and radius."""
    policies, ids = repository.policy_records(repository.cell_policies()), [*repository.cells()]
    came_with = {record.own_policy: record.id for record in repository.records()}
    tasks = [[ids[i] for i in found.members(cell).tolist()] for cell in range(found.n_clusters)]
    return [
        {
            "policy": policy.id, "name": policy.name, "source": policy.source, "task": came_with.get(policy.id),
            "serves": served, "size": len(served), "radius": radius,
        }
        for policy, served, radius in zip(policies, tasks, found.radii.tolist(), strict=True)
    ]  # fmt: skip


def _lost(repository: Repository, found: Clustering) -> list[dict[str, Any]]:
    """What each task loses, by id and name, under the kept policy that is best for it."""
    ids = list(repository.cells())
    return [
        {"id": number, "name": str(row.task), "policy": str(row.policy), "loss": row.loss}
        for number, row in zip(ids, found.table(), strict=True)
    ]
