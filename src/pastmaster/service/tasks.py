"""A new task of the service: who its arms are, and the selector that chooses among them."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from pastmaster.checks import called_as, flag, is_whole, is_word, listed, text, whole, within
from pastmaster.errors import InvalidInputError
from pastmaster.repository import Repository, rows
from pastmaster.repository.database import Database
from pastmaster.repository.names import distinct_names
from pastmaster.reuse import RECOMMENDED
from pastmaster.reuse.selector import Selector
from pastmaster.service import store
from pastmaster.service.decider import SERVED
from pastmaster.service.operations import Refused
from pastmaster.service.schema import TURN, prepare
from pastmaster.tables import shown
from pastmaster.texts import printable
from pastmaster.values.bounds import Bounds, checked_bounds

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
        database, name = opened(repository), checked_name(name, "name")
        wanted: dict[str, Any] = {
            "sources": _given_sources(sources), "selector": _given_selector(selector), "seed": seed,
            "episodes": None if episodes is None else whole(CALLER, "episodes", episodes, at_least=1),
            "bounds": None if bounds is None else checked_bounds(CALLER, bounds), "clip": flag(CALLER, "clip", clip),
            "lease": within(CALLER, "lease", lease, 0.001, LONGEST_LEASE),
            "expired_return": None if expired_return is None
            else within(CALLER, "expired_return", expired_return, -math.inf, math.inf) + 0.0,
            "most_open": whole(CALLER, "most_open", most_open, at_least=1, at_most=MOST_OPEN),
            "learner": checked_name(learner, "learner"),
        }  # fmt: skip
        content = _digest(wanted)
        if content in database.read(lambda c: _contents(c, name)):  # whatever the repository has come to since
            return False
        arms, ids = _arms(repository, wanted["sources"])
        if wanted["learner"] in {arm["name"] for arm in arms}:
            raise InvalidInputError(f"{CALLER}: learner is {learner}, must be a name that none of the sources has")
        kind = {key: wanted[key] for key in ("selector", "episodes", "bounds", "clip", "seed")}
        made = _selector(repository, ids, len(arms), **kind)
        if expired_return is not None and made.refuses(expired_return):
            raise InvalidInputError(
                f"{CALLER}: expired_return is {expired_return:g}, must be within the bounds "
                f"{made.bounds.lower:g} .. {made.bounds.upper:g}"
            )
        settings = {key: wanted[key] for key in ("lease", "most_open", "expired_return")} | {
            "arms": [*arms, {"name": wanted["learner"], "policy": None}],
            "content": content,
        }
    return database.write(lambda connection: _store(connection, name, settings, made), TURN)


def remove_task(repository: Repository, name: str) -> None:
    """Remove a task with all its episodes."""
    with called_as("remove_task"):
        database, name = opened(repository), checked_name(name, "name")

    def work(connection: sa.Connection) -> None:
        row = store.task_rows(connection, [name], locked=True).get(name)
        if row is None:
            raise Refused(404, "no_task", f"remove_task: there is no task {name}")
        store.remove_task(connection, row["id"])

    database.write(work, TURN)


def opened(repository: Any) -> Database:
    """The database of a repository, with the tables of the service."""
    if not isinstance(repository, Repository):
        raise InvalidInputError(f"{CALLER}: repository is {shown(repository)}, must be a Repository")
    prepare(repository.database)
    return repository.database


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
    if isinstance(sources, str):
        if sources != "kept":
            raise InvalidInputError(f"{CALLER}: sources is {shown(sources)}, must be 'kept' or a list")
        return "kept"
    given = listed(sources, f"{CALLER}: sources", "'kept' or a list", MOST_SOURCES)
    if all(isinstance(source, str) for source in given):
        names = [checked_name(source, f"sources[{i}]") for i, source in enumerate(given)]
        if len(set(names)) < len(names):
            raise InvalidInputError(f"{CALLER}: sources has a name twice, must be different ones")
        return names
    for i, source in enumerate(given):
        if not is_whole(source):
            raise InvalidInputError(
                f"{CALLER}: sources[{i}] is {shown(source)}, must be the id of a stored policy, or all be names"
            )
    ids = [int(source) for source in given]
    if len(set(ids)) < len(ids):
        raise InvalidInputError(f"{CALLER}: sources has an id twice, must be different ones")
    return ids


def _given_selector(selector: Any) -> str | None:
    if selector is not None and not is_word(selector, SERVED):
        raise InvalidInputError(f"{CALLER}: selector is {shown(selector)}, must be one of {', '.join(SERVED)}")
    return None if selector is None else str(selector)


def _digest(wanted: dict[str, Any]) -> str:
    """What a task was asked for with: the same for equal arguments, whether they came as JSON or from Python."""
    if wanted["seed"] is not None and not is_whole(wanted["seed"]):  # a generator: another one each time
        return secrets.token_hex(32)
    plain = wanted | {"seed": None if wanted["seed"] is None else int(wanted["seed"])}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _store(connection: sa.Connection, name: str, settings: dict[str, Any], selector: Selector) -> bool:
    """Store a new task; False if it is there already."""
    there = store.task_names(connection)
    if name in there:
        if settings["content"] in _contents(connection, name):
            return False
        raise Refused(
            409, "task_exists",
            f"{CALLER}: name is {name}, which a task with other settings has, must be one that no task has",
        )  # fmt: skip
    if len(there) >= MOST_TASKS:
        raise Refused(409, "too_many_tasks", f"{CALLER}: there are {len(there)} tasks, must be fewer: remove some")
    store.make_task(connection, name, settings, selector)
    return True


def _contents(connection: sa.Connection, name: str) -> list[str | None]:
    """What the task of this name was asked for with, if there is one; None of one made by an earlier version."""
    rows = store.task_rows(connection, [name], locked=False).values()
    return [json.loads(row["settings"]).get("content") for row in rows]


def _arms(repository: Repository, sources: Any) -> tuple[list[dict[str, Any]], list[int] | None]:
    """The sources by name, with the digests of stored policies; and the ids of these."""
    if sources == "kept":
        ids = repository.source_ids()
        if not ids:
            raise InvalidInputError(
                f"{CALLER}: sources is 'kept', but no policies are kept yet: `pastmaster repo keep`, or give names"
            )
    else:
        if all(isinstance(source, str) for source in sources):
            return [{"name": name, "policy": None} for name in sources], None
        ids = list(sources)
        there = set(repository.database.read(lambda connection: rows.numbers(connection, "policies")))
        for i, source in enumerate(ids):
            if source not in there:
                raise InvalidInputError(f"{CALLER}: sources[{i}] is {source}, must be the id of a stored policy")
    records = repository.policy_records(ids)
    names = distinct_names(records)
    return [{"name": n, "policy": record.digest} for n, record in zip(names, records, strict=True)], ids


def _selector(
    repository: Repository, ids: list[int] | None, n_sources: int, *, selector: str | None, episodes: int | None,
    bounds: Bounds | None, clip: bool, seed: int | None,
) -> Selector:  # fmt: skip
    usual = "informed" if ids and len(repository) else str(RECOMMENDED["selector"])
    chosen = usual if selector is None else selector
    kind: Callable[..., Selector] = SERVED[chosen]
    known = {}
    if SERVED[chosen].informed:
        if not ids:
            raise InvalidInputError(f"{CALLER}: selector is 'informed', must have stored policies as sources")
        known["experience"] = repository.experience(ids)
    if bounds is None and not len(repository):
        raise InvalidInputError(
            f"{CALLER}: bounds is not given, must be the least and the greatest return: no stored tasks tell them"
        )
    limits = repository.return_bounds() if bounds is None else bounds
    return kind(n_sources, episodes, bounds=limits, clip=clip, rng=seed, **known)
