"""What threads may share: every public method is called by several at once, and what is there afterwards is true.

A method that has no case here fails the first test. A call may be refused, but only by an error of the library.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import WHOLES, canonical, small_task
from repository_reference import constant_policy, wrong_values
from seams import Selector
from together import at_once, public_names

from pastmaster import Client, PastmasterError, Repository, TransferRun, reuse, service, transfer

pytestmark = pytest.mark.usefixtures("quick_switches")

THREADS, TURNS, STORED = 3, 2, 12
SOURCES = ["left", "right", "straight"]


def calling(case: Callable[..., Any], *shared: Any, outcomes: list[Any] | None = None) -> list[Callable[[], None]]:
    """For each thread: call ``case(*shared, call)`` some times, ``call`` being another number each time.

    What is not refused is added to the ``outcomes``.
    """

    def call_often(thread: int) -> None:
        for call in range(thread, THREADS * TURNS, THREADS):
            try:
                found = case(*shared, call)
            except PastmasterError:
                continue
            if outcomes is not None:
                outcomes.append(found)

    return [functools.partial(call_often, thread) for thread in range(THREADS)]


# A repository


@functools.cache
def a_run() -> TransferRun:
    return transfer(small_task(0), {"still": constant_policy(0)}, episodes=5, rng=0)


def _imported(repository: Repository, folder: Path, call: int) -> int:
    """Into one new repository, by all threads."""
    with Repository(folder / "new.db") as new:
        return new.import_(folder / "exported")


def _entered(repository: Repository) -> int:
    with repository as entered:
        return len(entered)


REPOSITORY: dict[str, Callable[[Repository, Path, int], Any]] = {
    "__enter__": lambda r, folder, call: _entered(r),
    "__exit__": lambda r, folder, call: _entered(r),
    "__len__": lambda r, folder, call: len(r),
    "__repr__": lambda r, folder, call: repr(r),
    "add": lambda r, folder, call: r.add(small_task(100 + call // 2), run=a_run()),
    "add_many": lambda r, folder, call: r.add_many(map(small_task, range(100 + 2 * call, 103 + 2 * call)), batch=2),
    "backup": lambda r, folder, call: r.backup(folder / f"backup {call // 2}.db"),
    "cell_policies": lambda r, folder, call: r.cell_policies(),
    "cells": lambda r, folder, call: r.cells(),
    "check": lambda r, folder, call: r.check(),
    "check_family": lambda r, folder, call: r.check_family(small_task(call)),
    "close": lambda r, folder, call: r.close(),
    "cluster": lambda r, folder, call: r.cluster(n_clusters=2 + call % 3, rng=call, restarts=1, iterations=100),
    "clustering": lambda r, folder, call: r.clustering(),
    "clusterings": lambda r, folder, call: r.clusterings(),
    "cross_values": lambda r, folder, call: r.cross_values(),
    "experience": lambda r, folder, call: r.experience(),
    "export": lambda r, folder, call: r.export(folder / f"export {call // 2}"),
    "import_": _imported,
    "keep": lambda r, folder, call: r.keep(k=1 + call % 3, rng=call),
    "max_loss": lambda r, folder, call: r.max_loss,
    "named_sources": lambda r, folder, call: r.named_sources(),
    "policies": lambda r, folder, call: list(r.policies()),
    "policy": lambda r, folder, call: r.policy(1 + call % 2),
    "policy_records": lambda r, folder, call: r.policy_records(),
    "record": lambda r, folder, call: r.record(1 + call),
    "records": lambda r, folder, call: r.records(),
    "remove": lambda r, folder, call: r.remove(1 + call // 2),
    "replace_policy": lambda r, folder, call: r.replace_policy(1 + call // 2, constant_policy(call % 3)),
    "return_bounds": lambda r, folder, call: r.return_bounds(),
    "runs": lambda r, folder, call: r.runs(),
    "source_ids": lambda r, folder, call: r.source_ids(),
    "sources": lambda r, folder, call: r.sources(),
    "stream": lambda r, folder, call: r.stream(f"stream {call // 2}", {"episodes": 5}).settings,
    "task": lambda r, folder, call: r.task(1 + call),
    "tasks": lambda r, folder, call: list(r.tasks()),
    "to_frame": lambda r, folder, call: r.to_frame(),
}
IN_ANY_ORDER = set(REPOSITORY) - {"remove", "replace_policy"}  # whose order makes no difference


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> dict[float | None, Path]:
    """A repository with tasks, a run and kept policies, without a rule and with one; and its export beside it."""
    folder, found = tmp_path_factory.mktemp("filled"), {}
    for max_loss in (None, 0.05):
        found[max_loss] = folder / f"{max_loss}.db"
        with Repository(found[max_loss], max_loss=max_loss) as repository:
            repository.add(small_task(0), run=a_run())
            repository.add_many(map(small_task, range(1, STORED)))
            repository.keep(k=2, rng=0)
            repository.export(folder / "exported" / str(max_loss))
    return found


def seen(repository: Repository) -> dict[str, Any]:
    """Everything that can be read, bit for bit; what is refused is its sentence."""

    def read(look: Callable[[Repository], Any]) -> Any:
        try:
            return canonical(look(repository))
        except PastmasterError as error:
            return str(error)

    found = {name: read(look) for name, look in WHOLES.items()}
    return found | {"experience": read(lambda r: r.experience().values), "runs": read(Repository.runs)}


def by_digest(repository: Repository) -> dict[str, tuple[float, float]]:
    """What is stored of the tasks, whatever their ids."""
    return {record.digest: (record.value, record.best_value) for record in repository.records()}


READERS = [
    "__len__", "__repr__", "cell_policies", "cells", "check_family", "clustering", "clusterings", "cross_values",
    "experience", "max_loss", "named_sources", "policies", "policy", "policy_records", "record", "records",
    "return_bounds", "runs", "source_ids", "sources", "task", "tasks", "to_frame",
]  # fmt: skip
"""Methods that only read: threads call all of them in one case."""


def told(names: list[str]) -> str:
    """What a case is called."""
    return names[0] if len(names) == 1 else "all that only read"


CASES = [[name] for name in sorted(set(REPOSITORY) - {*READERS, "__enter__"})] + [READERS]


def checked(filled: dict[float | None, Path], tmp_path: Path, names: list[str], max_loss: float | None) -> None:
    """Threads call these methods while another adds; compared with U computed anew, a fresh look, calls in a row."""
    shared, alone = (Path(shutil.copy(filled[max_loss], tmp_path / file)) for file in ("shared.db", "alone.db"))
    folders = [tmp_path / "by threads", tmp_path / "in a row"]
    for folder in folders:
        shutil.copytree(filled[max_loss].parent / "exported" / str(max_loss), folder / "exported")

    def add(repository: Repository) -> None:
        for number in range(50, 54):
            repository.add(small_task(number))

    outcomes, expected = ({name: list[Any]() for name in names} for _ in range(2))

    def works(repository: Repository, folder: Path, found: dict[str, list[Any]]) -> list[Callable[[], None]]:
        """A work for each thread: it calls one method after the other."""
        each = [calling(REPOSITORY[name], repository, folder, outcomes=found[name]) for name in names]
        return [lambda calls=calls: [call() for call in calls] for calls in zip(*each, strict=True)]

    with Repository(shared) as repository, Repository(alone) as other:
        assert at_once(functools.partial(add, repository), *works(repository, folders[0], outcomes)) == []
        add(other)
        for work in works(other, folders[1], expected):
            work()
        for name in names:
            assert len(outcomes[name]) == len(expected[name]), name  # so many were not refused
        assert repository.check() == []
        assert wrong_values(repository) == 0
        limit = repository.max_loss or 0.0
        assert all(record.best_value - record.value <= limit + 1e-9 for record in repository.records())
        with Repository(shared) as fresh:
            assert seen(repository) == seen(fresh)
        if IN_ANY_ORDER.issuperset(names):
            now, then = by_digest(repository), by_digest(other)
            assert set(now) == set(then)
            if max_loss is None:
                assert now == then
        assert len(repository.runs()) == len(other.runs())
        assert len(repository.clusterings()) == len(other.clusterings())
    made = [sorted(path.name for path in folder.iterdir()) for folder in folders]
    assert made[0] == made[1]


@pytest.mark.parametrize("names", CASES, ids=told)
def test_threads_share_a_repository(filled, tmp_path, names):
    checked(filled, tmp_path, names, None)


@pytest.mark.parametrize("names", [["add"], ["add_many"], ["remove"], ["replace_policy"], ["keep"], READERS], ids=told)
def test_threads_share_a_streaming_repository(filled, tmp_path, names):
    checked(filled, tmp_path, names, 0.05)


# A selector


SELECTORS = [*reuse.SELECTORS.values()]


def _made_selector(cls: Any) -> Selector:
    """One of three sources, with the experience that it needs."""
    needs = "experience" in inspect.signature(cls).parameters
    known = {"experience": np.random.default_rng(3).random((5, 3))} if needs else {}
    return cls(3, 4000, bounds=(0.0, 1.0), rng=0, **known)


def _told(selector: Selector, call: int) -> None:
    episode = selector.ask()
    selector.tell(episode, 0.5)


def _cancelled(selector: Selector, call: int) -> None:
    episode = selector.ask()
    selector.cancel(episode)


SELECTOR: dict[str, Callable[[Selector, int], Any]] = {
    "__repr__": lambda s, call: repr(s),
    "active": lambda s, call: s.active,
    "alike": lambda s, call: s.alike,
    "arm_of": lambda s, call: s.arm_of(call),
    "ask": _told,
    "cancel": _cancelled,
    "counts": lambda s, call: s.counts,
    "eliminated_at": lambda s, call: s.eliminated_at,
    "first_open": lambda s, call: s.first_open,
    "from_dict": lambda s, call: type(s).from_dict(json.loads(json.dumps(s.to_dict()))).n_told,
    "mean_returns": lambda s, call: s.mean_returns,
    "n_asked": lambda s, call: s.n_asked,
    "n_clipped": lambda s, call: s.n_clipped,
    "n_open": lambda s, call: s.n_open,
    "n_told": lambda s, call: s.n_told,
    "open": lambda s, call: s.open,
    "pending": lambda s, call: s.pending(range(call)),
    "probabilities": lambda s, call: s.probabilities,
    "refuses": lambda s, call: s.refuses(2.0),
    "regret_guarantee": lambda s, call: s.regret_guarantee(),
    "start_clipping": lambda s, call: s.start_clipping(),
    "tell": _told,
    "to_dict": lambda s, call: s.to_dict(),
    "to_dict_alone": lambda s, call: s.to_dict_alone(),
}
SAYS: dict[str, Callable[[Any], bool]] = {  # of each answer, while all returns are 0.5
    "mean_returns": lambda means: bool((np.isnan(means) | (np.abs(means - 0.5) < 1e-12)).all()),
    "probabilities": lambda chances: abs(chances.sum() - 1.0) < 1e-9,
}


@pytest.mark.parametrize("cls", SELECTORS, ids=lambda cls: cls.name)
def test_threads_share_a_selector(cls):
    """They call each method while others ask and tell: no episode is lost, and the state is one that can be."""
    for name in public_names(cls):
        selector = _made_selector(cls)
        outcomes: list[Any] = []
        calls = calling(SELECTOR[name], selector, outcomes=outcomes)
        assert at_once(*calling(_told, selector), *calling(_cancelled, selector), *calls) == [], name
        assert all(map(SAYS.get(name, lambda outcome: True), outcomes)), (name, outcomes)
        told = THREADS * TURNS * (1 + (name in ("ask", "tell")))
        assert selector.n_told == selector.counts.sum() == told, name
        assert selector.n_asked == told + THREADS * TURNS * (1 + (name == "cancel")), name
        assert selector.open == ()
        again = type(selector).from_dict(json.loads(json.dumps(selector.to_dict())))
        for _ in range(5):
            episode = selector.ask()
            assert again.ask() == episode
            selector.tell(episode, 0.5)
            again.tell(episode, 0.5)


# A client of the service


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of a service with a task, and the digest of a policy there."""
    with Repository(tmp_path_factory.mktemp("served") / "tasks.db") as repository:
        repository.add(small_task(0))
        service.make_task(repository, "site", sources=SOURCES, bounds=(0.0, 1.0), seed=7, most_open=10_000)
        with service.started(repository) as url:
            yield url, repository.policy_records()[0].digest


def _in_thread(client: Client, digest: str, call: int) -> Any:
    return asyncio.run(client.in_thread(client.state, "site"))


def _episode(client: Client, digest: str, call: int) -> int:
    with client.episode("site") as episode:
        episode.value = 0.5
    return 1


def _asked_many(client: Client, digest: str, call: int) -> int:
    asked = client.ask_many("site", 3)
    assert client.tell_many("site", {episode.number: 0.5 for episode in asked}) == {}
    return len(asked)


def _asked_and_cancelled(client: Client, digest: str, call: int) -> None:
    client.cancel("site", client.ask("site"))


def _told_twice(client: Client, digest: str, call: int) -> int:
    episode = client.ask("site")
    for _ in range(2):
        client.tell("site", episode, 0.5)
    return 1


def _within(client: Client, digest: str, call: int) -> int:
    with client as entered:
        return _episode(entered, digest, call)


def _made(client: Client, digest: str, call: int) -> None:
    """The same task by two threads."""
    settings = {"sources": SOURCES, "bounds": [0, 1], "seed": 0}
    assert client.make_task(f"task {call // 2}", **settings)["name"] == f"task {call // 2}"


def _removed(client: Client, digest: str, call: int) -> None:
    _made(client, digest, call)
    client.remove_task(f"task {call // 2}")


CLIENT: dict[str, Callable[[Client, str, int], Any]] = {  # each returns how many returns it told
    "__enter__": _within,
    "__exit__": _within,
    "__repr__": lambda c, digest, call: repr(c) and 0,
    "ask": _told_twice,
    "ask_many": _asked_many,
    "cancel": _asked_and_cancelled,
    "close": lambda c, digest, call: c.close(),
    "episode": _episode,
    "in_thread": _in_thread,
    "make_task": _made,
    "policy": lambda c, digest, call: len(c.policy(digest)) and 0,
    "remove_task": _removed,
    "state": lambda c, digest, call: c.state("site")["told"] and 0,
    "tasks": lambda c, digest, call: len(c.tasks()) and 0,
    "tell": _told_twice,
    "tell_many": _asked_many,
}


@pytest.mark.parametrize("name", sorted(CLIENT))
def test_threads_share_a_client(served, name):
    """They call the method while others run episodes and one closes the client: each return is told once."""
    url, digest = served
    with Client(url) as client:
        before, told = client.state("site"), list[Any]()
        works = [
            *calling(CLIENT[name], client, digest, outcomes=told),
            *calling(_in_thread, client, digest),
            *calling(_episode, client, digest, outcomes=told),
            client.close,
        ]
        assert at_once(*works) == []
        state = client.state("site")
        assert state["told"] - before["told"] == sum(count for count in told if isinstance(count, int))
        assert state["open"] == before["open"]


# Every method


def test_every_public_method_of_what_threads_share_has_a_case():
    assert public_names(Repository) == sorted(REPOSITORY)
    assert public_names(Client) == sorted(CLIENT)
    names = set(itertools.chain.from_iterable(map(public_names, SELECTORS)))
    assert sorted(names) == sorted(SELECTOR)
    assert all(inspect.isclass(cls) and issubclass(cls, Selector) for cls in SELECTORS)
