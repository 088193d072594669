"""Ids and arguments of environments that name a module: from anywhere, they import nothing unless a person says so."""

from __future__ import annotations

import ast
import itertools
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from gymnasium.envs.registration import EnvSpec

import pastmaster
from pastmaster import GymTask, PastmasterError, Repository, TabularMDP, transfer
from pastmaster.cli import main
from pastmaster.repository import records, rows
from pastmaster.repository.schema import row_checksum, tasks as tasks_table

LAKE = "FrozenLake-v1"
DOORS = ("make", "make_vec", "spec", "from_json", "register")
PLANTED = """
import pathlib, gymnasium
pathlib.Path(__file__).with_suffix(".ran").touch()
gymnasium.register("{name}/Lake-v0", "gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv", max_episode_steps=9)
Lake = None
"""
numbers = itertools.count()


class Plant:
    """A module that leaves a trace when it is imported."""

    def __init__(self, folder: Path) -> None:
        self.name = f"planted_{next(numbers)}"
        self.file = folder / f"{self.name}.py"
        self.file.write_text(PLANTED.format(name=self.name))
        self.id = f"{self.name}:{self.name}/Lake-v0"

    @property
    def ran(self) -> bool:
        return self.file.with_suffix(".ran").exists() or self.name in sys.modules


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plant:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return Plant(tmp_path)


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(PastmasterError) as caught:
        call()
    return str(caught.value)


def command(*words: Any) -> tuple[int, str]:
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


IDS: dict[str, Callable[[str], object]] = {
    "GymTask: env_id": lambda name: GymTask(name, horizon=3),
    "TabularMDP.from_gymnasium: env": lambda name: TabularMDP.from_gymnasium(name, gamma=0.9),
    "transfer: task": lambda name: transfer(name, [], episodes=2, gamma=0.9, rng=0),
}


@pytest.mark.parametrize("place", IDS)
def test_an_id_with_a_module_is_refused_and_says_what_to_do(place: str, plant: Plant) -> None:
    sentence = refused(lambda: IDS[place](plant.id))
    assert sentence == (
        f"{place} is {plant.id!r}, must be an id without a module: import {plant.name} yourself "
        f"(on the command line: --import {plant.name}), then use '{plant.name}/Lake-v0'"
    )
    assert not plant.ran


@pytest.mark.parametrize("line", ["repo add {db}", "transfer {db} --episodes 2", "continual {db} --episodes 2"])
def test_the_command_imports_only_what_import_names(line: str, plant: Plant, tmp_path: Path) -> None:
    db = tmp_path / "lakes.db"
    assert command("repo", "add", db, "--gym", LAKE)[0] == 0
    assert command("repo", "keep", db, "-k", 1)[0] == 0
    words = line.format(db=db).split()
    code, output = command(*words, "--gym", plant.id)
    assert code == 1
    assert f"Error: --gym is '{plant.id}', must be an id without a module" in output
    assert not plant.ran
    code, output = command(*words, "--gym", f"{plant.name}/Lake-v0", "--import", plant.name, "--quiet")
    assert code == 0, output
    assert plant.ran


ARGUMENTS: dict[str, Callable[[str], dict[str, Any]]] = {
    "an id": lambda name: {"id": name},
    "the id of another environment": lambda name: {"env_id": name},
    "an entry point": lambda name: {"entry_point": name},
    "deep in a mapping": lambda name: {"inner": {"make_kwargs": [{"env_id": name}]}},
}


@pytest.fixture
def proxy() -> str:
    """An environment that makes another one, which it is told by an argument: Shimmy's for Gym are of this kind."""

    def make(env_id: str = LAKE, inner: Any = None, **_: Any) -> gym.Env[Any, Any]:
        return gym.make(inner["make_kwargs"][0]["env_id"] if inner else env_id)

    gym.register("attacks/Proxy-v0", make, max_episode_steps=5)
    yield "attacks/Proxy-v0"
    del gym.registry["attacks/Proxy-v0"]


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_an_argument_that_names_a_module_is_refused(kind: str, plant: Plant, proxy: str, tmp_path: Path) -> None:
    arguments = ARGUMENTS[kind](plant.id)
    assert "kwargs" in refused(lambda: GymTask(proxy, arguments))
    code, _ = command("repo", "add", tmp_path / "x.db", "--gym", proxy, "--kwargs", json.dumps(arguments))
    assert code == 1
    assert not plant.ran


@pytest.mark.parametrize(
    "wrapper",
    [
        {"name": "TimeLimit", "entry_point": "{module}:Lake", "kwargs": {"max_episode_steps": 3}},
        {"name": "{module}", "entry_point": "{module}:Lake", "kwargs": {}},
        {
            "name": "TransformReward",
            "entry_point": "gymnasium.wrappers:TransformReward",
            "kwargs": {"func": "x"},
        },
    ],
)
def test_a_wrapper_that_is_not_gymnasiums_is_refused(wrapper: dict[str, Any], plant: Plant) -> None:
    named = json.loads(json.dumps(wrapper).replace("{module}", plant.name))
    refused(lambda: GymTask(LAKE, wrappers=[named]))
    assert not plant.ran


def test_a_spec_is_no_task(plant: Plant) -> None:
    """Gymnasium makes what a spec says, wrappers and all: none is taken from outside, nor the JSON of one."""
    spec = EnvSpec(f"{plant.name}/Spec-v0", f"{plant.name}:Lake", vector_entry_point=f"{plant.name}:Lake")
    for given in (spec, spec.to_json()):
        refused(lambda given=given: GymTask(given))
        refused(lambda given=given: TabularMDP.from_gymnasium(given, gamma=0.9))
        refused(lambda given=given: transfer(given, [], episodes=2, gamma=0.9, rng=0))
    assert not plant.ran


FORGED: dict[str, Callable[[str], dict[str, Any]]] = {
    "its id": lambda name: {"env_id": name},
    "its wrappers": lambda name: {
        "wrappers": [{"name": "TimeLimit", "entry_point": name, "kwargs": {"max_episode_steps": 3}}]
    },
    "its arguments": lambda name: {"kwargs": ARGUMENTS["deep in a mapping"](name)},
}


@pytest.mark.parametrize("kind", FORGED)
def test_a_forged_record_imports_nothing(kind: str, plant: Plant, tmp_path: Path) -> None:
    """With the right digest and checksum, which anybody can compute; in the database, and in an exported folder."""
    db, folder, copy = (tmp_path / name for name in ("lakes.db", "exported", "copy.db"))
    policy = [0] * 16
    with Repository(db) as repository:
        repository.add(GymTask(LAKE), policy, evaluation_episodes=2)
    forge(db, FORGED[kind](plant.id))
    with Repository(db) as repository:
        repository.export(folder)
    for place in (db, copy):
        if place == copy:
            command("repo", "import", folder, copy)
        with Repository(place) as repository:
            repository.check()
            repository.records()
            refused(lambda: repository.task(1))
            refused(lambda: list(repository.tasks()))
        for words in (["list"], ["show"], ["show", 1], ["check"]):
            command("repo", words[0], place, *words[1:])
    assert not plant.ran


def forge(db: Path, changes: dict[str, Any]) -> None:
    """Change what a record says of its environment, and make its digest and checksum good."""
    engine = sa.create_engine(f"sqlite:///{db}")
    with engine.begin() as connection:
        row = rows.fetch(connection, "tasks", [1])[0]
        settings = row["settings"] | changes
        row |= {"settings": settings, "digest": records._environment_digest(settings)}
        stored = rows.stored("tasks", {name: value for name, value in row.items() if name != "checksum"})
        assert stored["checksum"] == row_checksum("tasks", stored)
        connection.execute(sa.update(tasks_table).values(**stored))
    engine.dispose()


def test_there_is_one_door_to_gymnasium() -> None:
    """``gymnasium.make`` and its like are called in one module, and with an id of our own in another."""
    package = Path(pastmaster.__file__).parent
    found = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            named = isinstance(node, ast.Attribute) and node.attr in (
                "make",
                "make_vec",
                "spec",
                "from_json",
                "register",
            )
            if named and isinstance(node.value, ast.Name) and node.value.id in ("gym", "gymnasium", "EnvSpec"):
                found.add((str(path.relative_to(package)), node.attr))
    assert found == {
        ("tasks/specs.py", "make"), ("tasks/specs.py", "make_vec"), ("tasks/specs.py", "spec"),
        ("tasks/tabular.py", "make"), ("environments.py", "register"),
    }  # fmt: skip
    assert 'gym.make("pastmaster/Tabular-v0"' in (package / "tasks" / "tabular.py").read_text()


def test_the_traces_of_a_planted_module_are_seen(plant: Plant) -> None:
    """A negative control: Gymnasium itself imports it."""
    with pytest.raises(Exception, match=r"."):
        gym.make(f"{plant.name}:Nowhere-v0")
    assert plant.ran
    shutil.rmtree(plant.file.parent / "__pycache__", ignore_errors=True)
