"""A new task of the service: who its arms are, and the selector that chooses among them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from pastmaster.checks import LARGEST_SEED, called_as, chosen, flag, is_whole, is_word, listed, text, whole, within
from pastmaster.errors import InvalidInputError
from pastmaster.repository import Repository, rows
from pastmaster.repository.names import distinct_names
from pastmaster.reuse import RECOMMENDED
from pastmaster.reuse.selector import Selector
from pastmaster.service import store
from pastmaster.service.decider import SERVED
from pastmaster.service.operations import Refused
from pastmaster.service.schema import opened
from pastmaster.tables import shown
from pastmaster.texts import printable
from pastmaster.values.bounds import checked_bounds

CALLER = "make_task"
LONGEST_NAME = 100
MOST_SOURCES = 1000
MOST_TASKS = 1000
MOST_OPEN = 1_000_000
LONGEST_LEASE = 366 * 86400.0


def make_task(
    repository: Repository,
    name: str,
    *,
    sources: Any = "kept",
    selector: str | None = None,
    episodes: int | None = None,
    bounds: Sequence[float] | None = None,
    clip: bool = False,
    lease: float = 3600.0,
    expired_return: float | None = None,
    most_open: int = 100_000,
    learner: str = "learner",
    seed: int | None = None,
) -> bool:
    """Store a task that the service then decides for.

    The same again changes nothing, so a call whose outcome is not known can be made again. Other arguments for a name
    that a task has are refused.

    Parameters
    ----------
    repository : Repository
        Where the policies and what they were worth are, and where the task is stored.
    name : str
        What requests call it: 1 to 100 letters, none of them a slash.
    sources : "kept" or list
        The kept policies of the repository, or ids of stored policies, or names of whatever the client runs.
    selector : str, optional
        By default "informed" where the sources are stored policies, and the recommended one where they are names.
    episodes : int, optional
        How many episodes there will be, for selectors that need to know.
    bounds : (float, float), optional
        The least and the greatest return; by default those of the stored tasks.
    clip : bool
        Whether returns outside the bounds are moved onto them instead of being refused.
    lease : float
        Seconds after which an episode that was not told is forgotten.
    expired_return : float, optional
        The return that such an episode counts as, instead of being forgotten.
    most_open : int
        The most episodes that may be open at once.
    learner : str
        What the last arm is called, which is no source.
    seed : int, optional
        Of the selector's random numbers.

    Returns
    -------
    bool
        Whether it was made now; False if it had been made before, with the same arguments.
    """
    with called_as(CALLER):
        name = checked_name(name, "name")
        wanted = {
            "sources": _given_sources(sources),
            "selector": None if selector is None else chosen(CALLER, "selector", selector, SERVED),
            "episodes": None if episodes is None else whole(CALLER, "episodes", episodes, at_least=1),
            "bounds": None if bounds is None else checked_bounds(CALLER, bounds),
            "clip": flag(CALLER, "clip", clip),
            "lease": within(CALLER, "lease", lease, 0.001, LONGEST_LEASE),
            "expired_return": None,
            "most_open": whole(CALLER, "most_open", most_open, at_least=1, at_most=MOST_OPEN),
            "learner": checked_name(learner, "learner"),
            "seed": None if seed is None else whole(CALLER, "seed", seed, at_least=0, at_most=LARGEST_SEED),
        }
        if expired_return is not None:
            wanted["expired_return"] = within(CALLER, "expired_return", expired_return, -math.inf, math.inf) + 0.0
        content = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()
        with opened(repository) as database:
            if content in database.read(lambda connection: _contents(connection, name)):  # whatever is kept by now
                return False
            made, arms = _selector(repository, wanted)
            settings = {key: wanted[key] for key in ("lease", "most_open", "expired_return")}
            settings |= {"arms": arms, "content": content}
            return database.write(lambda connection: _store(connection, name, settings, made))


def remove_task(repository: Repository, name: str) -> None:
    """Remove a task with all its episodes."""
    with called_as("remove_task"):
        name = checked_name(name, "name")

    def work(connection: sa.Connection) -> None:
        row = store.task_rows(connection, [name], locked=True).get(name)
        if row is None:
            raise Refused(404, "no_task", f"remove_task: there is no task {name}")
        store.remove_task(connection, row["id"])

    with called_as("remove_task"), opened(repository) as database:
        database.write(work)


def checked_name(name: Any, argument: str) -> str:
    """A name that can stand in an address and on a page."""
    word = text(CALLER, argument, name)
    fits = 0 < len(word) <= LONGEST_NAME and word == word.strip() and word not in (".", "..")
    if not fits or any(letter in "/\\" for letter in word) or printable(word) != word:
        raise InvalidInputError(
            f"{CALLER}: {argument} is {shown(name)}, must have 1 to {LONGEST_NAME} letters: no slash, no control "
            "character, no space at either end"
        )
    return word


def _given_sources(sources: Any) -> str | list[Any]:
    """The word "kept", or a list of names or of ids."""
    if is_word(sources, ["kept"]):
        return "kept"
    given = listed(sources, f"{CALLER}: sources", "'kept' or a list", MOST_SOURCES)
    named = all(isinstance(source, str) for source in given)
    for i, source in enumerate(given):
        if named:
            checked_name(source, f"sources[{i}]")
        elif not is_whole(source):
            raise InvalidInputError(
                f"{CALLER}: sources[{i}] is {shown(source)}, must be the id of a stored policy, or all be names"
            )
    if len(set(given)) < len(given):
        raise InvalidInputError(f"{CALLER}: sources is {shown(given)}, must be different ones")
    return [str(source) if named else int(source) for source in given]


def _store(connection: sa.Connection, name: str, settings: dict[str, Any], selector: Selector) -> bool:
    """Store a new task; False if it is there already."""
    there = store.task_names(connection)
    if name in there:
        if settings["content"] in _contents(connection, name):
            return False
        raise Refused(
            409,
            "task_exists",
            f"{CALLER}: name is {name}, which a task with other settings has, must be one that no task has",
        )
    if len(there) >= MOST_TASKS:
        raise Refused(409, "too_many_tasks", f"{CALLER}: there are {len(there)} tasks, must be fewer: remove some")
    store.make_task(connection, name, settings, selector)
    return True


def _contents(connection: sa.Connection, name: str) -> list[str]:
    """What the task of this name was asked for with, if there is one."""
    rows = store.task_rows(connection, [name], locked=False).values()
    return [json.loads(row["settings"])["content"] for row in rows]


def _selector(repository: Repository, wanted: dict[str, Any]) -> tuple[Selector, list[dict[str, Any]]]:
    """The selector of a new task, and its arms by name, with the digests of stored policies."""
    arms, ids = _sources(repository, wanted["sources"])
    learner, expired_return = wanted["learner"], wanted["expired_return"]
    if learner in [arm["name"] for arm in arms]:
        raise InvalidInputError(f"{CALLER}: learner is {learner}, must be a name that none of the sources has")
    usual = "informed" if ids and len(repository) else str(RECOMMENDED["selector"])
    kind: Any = SERVED[wanted["selector"] or usual]
    if kind.informed and not ids:
        raise InvalidInputError(f"{CALLER}: selector is 'informed', must have stored policies as sources")
    known = {"experience": repository.experience(ids)} if kind.informed else {}
    bounds = wanted["bounds"]
    if bounds is None:
        if not len(repository):
            raise InvalidInputError(
                f"{CALLER}: bounds is not given, must be the least and the greatest return: no stored tasks tell them"
            )
        bounds = repository.return_bounds()
    options = {"bounds": bounds, "clip": wanted["clip"], "rng": wanted["seed"]} | known
    made: Selector = kind(len(arms), wanted["episodes"], **options)
    if expired_return is not None and made.refuses(expired_return):
        raise InvalidInputError(
            f"{CALLER}: expired_return is {expired_return:g}, must be within the bounds "
            f"{made.bounds.lower:g} .. {made.bounds.upper:g}"
        )
    return made, [*arms, {"name": learner, "policy": None}]


def _sources(repository: Repository, sources: Any) -> tuple[list[dict[str, Any]], list[int]]:
    """The sources by name, with the digests of stored policies; and the ids of these."""
    ids: list[int] = repository.source_ids() if sources == "kept" else sources
    if sources == "kept" and not ids:
        raise InvalidInputError(
            f"{CALLER}: sources is 'kept', but no policies are kept yet: `pastmaster repo keep`, or give names"
        )
    if all(isinstance(source, str) for source in ids):
        return [{"name": name, "policy": None} for name in sources], []
    there = repository.database.read(lambda connection: set(rows.numbers(connection, "policies")))
    for i, source in enumerate(ids):
        if source not in there:
            raise InvalidInputError(f"{CALLER}: sources[{i}] is {source}, must be the id of a stored policy")
    records = repository.policy_records(ids)
    names = distinct_names(records)
    return [{"name": n, "policy": record.digest} for n, record in zip(names, records, strict=True)], ids
