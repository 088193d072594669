"""``pastmaster repo``, ``transfer`` and ``continual``: what they do, and what they say when they cannot."""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import pty
import re
import resource
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gymnasium as gym
import matplotlib.image
import numpy as np
import pytest
from click.testing import CliRunner, Result
from seams import rows

from pastmaster import Repository, cross_values, domains, keep, policy_distance, solve, transfer
from pastmaster.cli import main

TASKS = domains.coloured_grid.family([[1, 1], [1, 0.1], [0.1, 1], [0.5, 0.5]], size=4)
NEW = domains.coloured_grid.task([0.2, 0.9], size=4)
GRID = ("--gym", "pastmaster/ColouredGrid-v0", "--kwargs", '{"weights": [0.2, 0.9], "size": 4}')
COMMANDS = [
    ["demo"], ["keep"], ["transfer"], ["continual"], ["report"],
    *(["repo", name] for name in ("init", "add", "remove", "list", "show", "keep")),
    *(["repo", name] for name in ("check", "backup", "export", "import")),
]  # fmt: skip
CLUSTER = ("--restarts", "2")
AGENT = ("--episodes", "50", "--recluster-every", "2", "--restarts", "2")
PROCESS = [sys.executable, "-W", "error::ResourceWarning", "-m", "pastmaster.cli"]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def fine(*arguments: object) -> str:
    """What a command prints that must succeed."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stderr == "" or result.stderr.startswith("picture: ")
    return result.stdout


def told(*arguments: object):
    """The JSON a command prints."""
    return json.loads(fine(*arguments, "--json"), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def refused(*arguments: object) -> str:
    """The one line of a command that must fail."""
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert one_line(result.stderr), result.stderr
    return result.stderr


def one_line(text: str) -> bool:
    return text.startswith("Error: ") and text.endswith("\n") and text.count("\n") == 1


def write_task(path: Path, task=NEW, **changes) -> Path:
    arrays = {name: getattr(task, name) for name in ("next_state", "reward", "terminated", "gamma", "horizon")}
    np.savez(path, **(arrays | changes))
    return path


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """Four tasks, clustered; to be copied."""
    path = tmp_path_factory.mktemp("held") / "tasks.db"
    with Repository(path) as repository:
        for task in TASKS:
            repository.add(task)
        repository.cluster(rng=np.random.default_rng(0), n_clusters=2, restarts=2, iterations=2000)
    return path


@pytest.fixture
def db(held, tmp_path):
    return Path(shutil.copy(held, tmp_path / "tasks.db"))


def unchanged(db: Path) -> bool:
    """Whether the four tasks are there, and all is well."""
    names = [record["name"] for record in told("repo", "list", db)]
    return fine("repo", "check", db) == "all is well: 4 tasks\n" and names == [task.name for task in TASKS]


class Levers(gym.Env):
    """A black box: one state, one step, levers that pay their number."""

    observation_space, action_space, horizon = gym.spaces.Discrete(2), gym.spaces.Discrete(3), 5

    def __init__(self, best=2):
        self.best = best

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, float(action == self.best), True, False, {}


@pytest.fixture
def levers():
    gym.register("Levers-v0", Levers)
    yield "Levers-v0"
    del gym.registry["Levers-v0"]


# What the commands do


@pytest.mark.parametrize("command", [[], ["repo"], *COMMANDS], ids=" ".join)
def test_every_command_has_help(command):
    for flag in ("--help", "-h"):
        text = fine(*command, flag)
        assert text.startswith("Usage: ")
        assert "Options:" in text
        assert len(text.splitlines()) > 5
        assert max(map(len, text.splitlines())) <= 80
    if command and command[-1] in ("add", "transfer", "continual"):
        assert f"\n  pastmaster {' '.join(command)} " in text  # an example


def test_a_first_session(tmp_path):
    db = tmp_path / "tasks.db"
    assert fine("repo", "init", db) == f"{db}: 0 tasks\n"
    assert fine("repo", "list", db) == "no tasks yet: pastmaster repo add --help\n"
    assert fine("repo", "check", db) == "all is well: 0 tasks\n"
    assert fine("repo", "add", db, "--domain", "coloured-grid", "--count", 3) == f"{db}: 3 tasks added, 3 in all\n"
    assert fine("repo", "init", db) == f"{db}: 3 tasks\n"
    head, *lines = fine("repo", "list", db).splitlines()
    assert head.split() == ["id", "task", "policy", "value", "served", "by"]
    assert [line.split()[0] for line in lines] == ["1", "2", "3"]
    assert "3 tasks" not in fine("repo", "keep", db, "-k", 1, *CLUSTER).splitlines()[0]
    fine("transfer", db, "--domain", "coloured-grid", "--count", 1, "--family-seed", 5, "--episodes", 50)


def test_a_repository_that_grows_with_what_it_keeps(db, tmp_path):
    new = tmp_path / "stream.db"
    fine("repo", "init", new, "--max-loss", 1000)
    fine("repo", "add", new, "--domain", "coloured-grid", "--count", 4)
    answer = told("repo", "keep", new, "-k", 1)["over_all"]
    assert (answer["n_tasks"], answer["sampled"], answer["low"]) == (4, 0, answer["mean_loss"])
    assert "over all 4 tasks: mean loss" in fine("repo", "keep", new, "-k", 1)
    assert "max-loss is -1.0, must be at least 0" in refused("repo", "init", tmp_path / "x.db", "--max-loss", -1)
    assert "decided before there are tasks" in refused("repo", "init", db, "--max-loss", 1)
    assert "max_loss" not in fine("repo", "show", db)
    assert "max loss            1000" in fine("repo", "show", new)
    assert told("repo", "show", new)["max_loss"] == 1000


def test_a_task_from_a_file_is_added_as_it_is(db, tmp_path):
    npz = write_task(tmp_path / "new task.npz")
    assert (
        fine("repo", "add", db, npz) == f"task 5: new task, worth 34.58 under new task\n{db}: 1 task added, 5 in all\n"
    )
    with Repository(db) as repository:
        assert repository.task(5).name == "new task"
        assert np.array_equal(repository.policies()[4], solve(NEW).policy)
        assert repository.records()[4].value == cross_values([NEW], [solve(NEW).policy])[0, 0]
    assert fine("repo", "add", db, npz) == (
        f"task 5: new task was there already, worth 34.58 under new task\n{db}: 0 tasks added, 5 in all\n"
    )


def test_a_name_in_the_file_counts_and_quiet_prints_the_ids(db, tmp_path):
    files = [
        write_task(tmp_path / f"{i}.npz", domains.coloured_grid.task([i / 10, 1], size=4), name=f"no {i}")
        for i in (1, 2)
    ]
    assert fine("repo", "add", db, *files, "--quiet") == "3\n5\n"  # one of them is there already
    assert told("repo", "show", db, 5)["name"] == "no 2"


def test_an_environment_with_a_table_is_taken_exactly(db, tmp_path):
    assert "task 5: coloured grid" in fine("repo", "add", db, *GRID)
    other = tmp_path / "lake.db"
    fine("repo", "init", other)
    lake = ("--gym", "FrozenLake-v1", "--kwargs", '{"is_slippery": false}')
    fine("repo", "add", other, *lake, "--gamma", "0.9", "--horizon", "40")
    with Repository(other) as repository:
        (task,) = repository.tasks()
        assert (task.gamma, task.horizon, task.is_deterministic) == (0.9, 40, True)
        assert repository.records()[0].value == pytest.approx(0.9**5)
    assert "horizon" in refused("repo", "add", other, *lake, "--gamma", "0.9", "--horizon", "0")


def test_a_black_box_is_added_with_its_policy(tmp_path, levers):
    db, policy = tmp_path / "boxes.db", tmp_path / "policy.npy"
    np.save(policy, [2, 2])
    assert "policy is None, must be given" in refused("repo", "add", db, "--gym", levers)
    assert not db.exists()  # no repository is made for nothing
    fine("repo", "add", db, "--gym", levers, "--policy", policy, "--evaluation-episodes", 7)
    fine("repo", "add", db, "--gym", levers, "--kwargs", '{"best": 1}', "--policy", policy)
    first, second = told("repo", "list", db)
    assert (first["kind"], first["name"], first["value"], first["bounds"]) == ("gymnasium", "Levers-v0", 1.0, None)
    assert (second["name"], second["value"]) == ("Levers-v0(best=1)", 0.0)
    with Repository(db) as repository:
        task = repository.task(1)
        assert (task.gamma, task.horizon) == (0.99, 5)
    assert "is valued without a model: declare bounds" in refused("repo", "keep", db, "--episodes", 10)
    fine("repo", "keep", db, "-k", 2, *CLUSTER)
    assert told("transfer", db, "--gym", levers, "--episodes", 50)["mean_return"] > 0.2  # bounds follow the returns
    assert told("transfer", db, "--gym", levers, "--bounds", 0, 1, "--episodes", 50)["mean_return"] > 0.2


def test_policies_are_called_as_they_are_named(tmp_path, levers):
    db = tmp_path / "boxes.db"
    for lever in (0, 1):
        np.save(tmp_path / f"{lever}.npy", [lever, lever])
    files = [tmp_path / "0.npy", tmp_path / "1.npy"]
    boxes = ("--gym", levers, "--kwargs", '{"best": 0}', "--kwargs", '{"best": 1}')
    said = refused("repo", "add", db, *boxes, "--policy", *files, "--name", "left")
    assert said == "Error: --name is given 1 times for 2 policies, must be once to each, in order\n"
    assert not db.exists()
    fine("repo", "add", db, *boxes, "--policy", *files, "--name", "left", "--name", "right")
    assert [(line["policy_name"], line["policy_source"]) for line in told("repo", "list", db)] == [
        ("left", str(files[0])), ("right", str(files[1])),
    ]  # fmt: skip
    assert [cell["name"] for cell in told("repo", "keep", db, "-k", 2)["kept"]] == ["left", "right"]


def test_tasks_are_called_as_they_are_named(tmp_path, levers):
    db, model = tmp_path / "boxes.db", write_task(tmp_path / "model.npz")
    boxes = ("--gym", levers, "--kwargs", '{"best": 0}', "--kwargs", '{"best": 1}', "--evaluation-episodes", 2)
    said = refused("repo", "add", db, *boxes, "--task-name", "left")
    assert said == "Error: --task-name is given 1 times for 2 tasks, must be once to each, in order\n"
    assert not db.exists()
    policy = tmp_path / "policy.npy"
    np.save(policy, [2, 2])
    fine("repo", "add", db, *boxes, "--policy", policy, policy, "--task-name", "left", "--task-name", "right")
    assert [line["name"] for line in told("repo", "list", db)] == ["left", "right"]
    fine("repo", "add", tmp_path / "corners.db", model, "--task-name", "corner")
    assert told("repo", "list", tmp_path / "corners.db")[0]["name"] == "corner"


def test_a_solved_policy_is_called_as_it_is_named(db, tmp_path):
    fine("repo", "add", db, write_task(tmp_path / "new.npz"), "--name", "corner cutter")
    assert told("repo", "list", db)[-1]["policy_name"] == "corner cutter"


def test_a_new_environment_gets_the_step_limit_of_the_stored_tasks(tmp_path, levers):
    db, policy = tmp_path / "boxes.db", tmp_path / "policy.npy"
    np.save(policy, [2, 2])
    fine("repo", "add", db, "--gym", levers, "--policy", policy, "--horizon", 3)
    fine("repo", "keep", db, "-k", 1)
    new = ("transfer", db, "--gym", levers, "--kwargs", '{"best": 1}', "--episodes", 5, "--add")
    assert told("repo", "show", db, told(*new)["added"])["horizon"] == 3
    assert told("repo", "show", db, told(*new, "--horizon", 4)["added"])["horizon"] == 4
    other = (*new[:5], '{"best": 0}', *new[6:])  # the stored tasks differ: the environment's own
    assert told("repo", "show", db, told(*other)["added"])["horizon"] == 5


def test_policies_valued_by_episodes_where_asked(db, tmp_path):
    np.save(tmp_path / "policy.npy", np.full((16, 4), 0.25))
    npz = write_task(tmp_path / "new.npz")
    fine("repo", "add", db, npz, "--policy", tmp_path / "policy.npy", "--evaluation-episodes", 5)
    assert told("repo", "show", db, 5)["bounds"] is None


def test_the_list(db):
    found = told("repo", "list", db)
    with Repository(db) as repository:
        records, cells = repository.records(), repository.cells()
    assert [line["id"] for line in found] == [1, 2, 3, 4]
    assert [line["value"] for line in found] == [record.value for record in records]
    assert [line["bounds"] for line in found] == [list(record.bounds) for record in records]
    assert [line["cell"] for line in found] == list(cells.values())
    with Repository(db) as repository:
        names = [repository.policy_records([number])[0].name for number in repository.cell_policies()]
    assert [line["served_by"] for line in found] == [names[cell] for cell in cells.values()]
    printed = fine("repo", "list", db).splitlines()
    assert printed[0].endswith("served by")
    assert all(line.endswith(names[cell]) for line, cell in zip(printed[1:], cells.values(), strict=True))


def test_the_repository_in_a_few_lines(db, tmp_path):
    found = told("repo", "show", db)
    assert (found["tasks"], found["states"], found["actions"], found["kinds"]) == (4, 16, 4, "tabular")
    assert re.fullmatch(r"2 policies for 4 tasks, mean loss \S+, largest \S+", found["kept"])
    with Repository(db) as repository:
        assert [kept["policy"] for kept in found["kept_policies"]] == repository.source_ids()
        assert found["return_bounds"] == list(repository.return_bounds())
    lines = fine("repo", "show", db, "--picture", tmp_path / "kept.png").splitlines()
    assert [line.split("  ")[0] for line in lines] == [name.replace("_", " ") for name in found]
    assert matplotlib.image.imread(tmp_path / "kept.png").size


def test_one_task(db):
    found = told("repo", "show", db, 2)
    assert (found["id"], found["name"]) == (2, TASKS[1].name)
    assert (found["own_policy"], found["value"]) == (2, pytest.approx(solve(TASKS[1]).start_value))
    with Repository(db) as repository:
        assert found["served_by"] == repository.clustering().table()[1].policy
    assert f"name                {TASKS[1].name}\n" in fine("repo", "show", db, 2)
    assert "99" in refused("repo", "show", db, 99)


def test_clusters_for_so_many_episodes(db, tmp_path):
    found = told("repo", "keep", db, "--episodes", 100_000, "--certify", "--picture", tmp_path / "kept.svg", *CLUSTER)
    assert found["lower_bound"] <= found["cost"]
    assert sum(cell["size"] for cell in found["kept"]) == 4
    assert {cell["name"] for cell in found["kept"]} <= {task.name for task in TASKS}
    with Repository(db) as repository:
        assert repository.clustering().cost == found["cost"]
        assert [cell["task"] for cell in found["kept"]] == (repository.clustering().representatives + 1).tolist()
        assert [cell["policy"] for cell in found["kept"]] == repository.cell_policies()
        assert repository.clusterings()[-1].settings["directed"] is True
        assert repository.clusterings()[-1].seed == found["seed"] == 0
    assert sorted(task for cell in found["kept"] for task in cell["serves"]) == [1, 2, 3, 4]
    assert "<svg" in (tmp_path / "kept.svg").read_text()


@pytest.mark.parametrize("n_clusters", [1, 3])
def test_exactly_so_many_policies(db, n_clusters):
    found = told("repo", "keep", db, "-k", n_clusters)
    assert len(found["kept"]) == n_clusters
    with Repository(db) as repository:
        stored, kept = repository.clustering(), keep(repository.cross_values(), k=n_clusters)
    assert found["mean_loss"] == found["cost"] == stored.mean_loss == pytest.approx(kept.mean_loss)
    assert found["lower_bound"] == pytest.approx(found["cost"])
    assert [(row["name"], row["policy"], row["loss"]) for row in found["tasks"]] == [
        (row.task, row.policy, row.loss) for row in stored.table()
    ]
    quiet = fine("repo", "keep", db, "-k", n_clusters, "--quiet").splitlines()
    assert quiet == [cell["name"] for cell in found["kept"]]
    lines = fine("repo", "keep", db, "-k", n_clusters).splitlines()
    assert lines[0].split("  ")[0] == "policy"
    assert lines[n_clusters + 1] == lines[-2] == ""
    rows = sorted(found["tasks"], key=lambda row: -row["loss"])
    assert [line.split() for line in lines[n_clusters + 3 : -2]] == [
        [*row["name"].split(), *row["policy"].split(), f"{row['loss']:.4g}"] for row in rows
    ]
    assert lines[-1].startswith(f"{n_clusters} of 4 policies kept")
    assert lines[-1].endswith(", proven optimal, seed 0")
    symmetric = fine("repo", "keep", db, "-k", n_clusters, "--symmetric", *CLUSTER).splitlines()
    assert symmetric[-1].startswith(f"{n_clusters} of 4 tasks kept")


def test_the_fewest_policies_such_that_no_task_loses_more(db):
    distance = policy_distance(cross_values(TASKS, [solve(task).policy for task in TASKS]), paired=True)
    none, any_ = (told("repo", "keep", db, "--max-loss", radius)["kept"] for radius in (0, distance.max()))
    assert len(any_) == 1
    assert all(cell["radius"] == 0 for cell in none)
    assert len(none) > 1


def test_policies_that_must_or_must_not_be_kept_are_told_by_name(db):
    first, second, *_ = (task.name for task in TASKS)
    kept = told("repo", "keep", db, "-k", 1, "--must-keep", second)["kept"]
    assert [cell["name"] for cell in kept] == [second]
    kept = told("repo", "keep", db, "--max-loss", 100, "--never-keep", first, "--never-keep", second)["kept"]
    assert {cell["name"] for cell in kept}.isdisjoint({first, second})
    assert len(told("repo", "keep", db, "--price", 1000)["kept"]) == 1
    assert len(told("repo", "keep", db, "--price", 0)["kept"]) >= 2


def test_of_many_tasks_those_that_lose_most_are_told(tmp_path):
    db = tmp_path / "many.db"
    fine("repo", "add", db, "--domain", "windy-corridor", "--count", 41)
    lines = fine("repo", "keep", db, "-k", 1, "--no-certify").splitlines()
    assert len(lines) == 2 + 1 + 1 + 20 + 1 + 1 + 1
    assert re.fullmatch(r"\.\.\. and 21 tasks more, which lose \S+ at most, \d+ of them nothing .*", lines[-3])
    assert len(fine("repo", "keep", db, "-k", 1, "--no-certify", "--all").splitlines()) == len(lines) - 1 + 21


def test_the_price_may_be_measured(tmp_path):
    db = tmp_path / "many.db"
    fine("repo", "add", db, "--domain", "windy-corridor", "--count", 12)
    found = told("repo", "keep", db, "--price", "measured", "--episodes", 100)
    with Repository(db) as repository:
        assert repository.clusterings()[-1].settings["measured"] == 100
        answer = repository.keep(price="measured", episodes=100, rng=0)
    assert found["price"] == answer.size_cost / answer.n_clusters
    assert (found["cost"], [cell["name"] for cell in found["kept"]]) == (answer.cost, answer.policies)
    for line in ("--price measured", "--price measured --episodes 9 -k 1", "--price cheap"):
        assert run("repo", "keep", db, *line.split()).exit_code == 2
    done = run("repo", "keep", db, "--price", "measured", "--episodes", 9, "--symmetric")
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (
        2, "Error: --symmetric is given with --price, --must-keep or --never-keep, must be left out"
    )  # fmt: skip


def test_the_agent_heeds_what_is_pinned(db):
    second, third = TASKS[1].name, TASKS[2].name
    agent = ("continual", db, *GRID, "--episodes", 50, "--recluster-every", 1)
    told(*agent, "-k", 1, "--must-keep", second)
    with Repository(db) as repository:
        assert repository.clusterings()[-1].result["kept"] == [second]
    told(*agent, "--never-keep", second, "--never-keep", third, "--name", "another")
    with Repository(db) as repository:
        assert {second, third}.isdisjoint(repository.clusterings()[-1].result["kept"])
    assert "must_keep holds 'nobody', must be the name" in refused(*agent, "--must-keep", "nobody", "--name", "third")


def test_a_seed_gives_the_same_clusters_again(db):
    again = [fine("repo", "keep", db, "--episodes", 50, "--seed", 3, "--directed", *CLUSTER) for _ in range(2)]
    assert again[0] == again[1]
    with Repository(db) as repository:
        assert repository.clusterings()[-1].settings["directed"] is True


def test_removing_is_all_or_nothing(db):
    assert "99" in refused("repo", "remove", db, 1, 99)
    assert unchanged(db)
    assert fine("repo", "remove", db, 1, 3, 1) == f"{db}: 2 tasks removed, 2 left\n"
    assert [record["id"] for record in told("repo", "list", db)] == [2, 4]
    assert fine("repo", "check", db) == "all is well: 2 tasks\n"


def test_backup(db, tmp_path):
    copy = tmp_path / "monday.db"
    assert fine("repo", "backup", db, copy) == f"4 tasks backed up and checked: {copy}\n"
    assert fine("repo", "list", copy) == fine("repo", "list", db)


def test_export_and_import(db, tmp_path):
    folder, copy = tmp_path / "folder", tmp_path / "copy.db"
    assert fine("repo", "export", db, folder) == f"4 tasks written: {folder}\n"
    assert (folder / "manifest.json").is_file()
    assert fine("repo", "import", folder, copy) == f"4 tasks read into {copy}\n"
    assert told("repo", "list", copy) == told("repo", "list", db)
    assert unchanged(copy)
    assert "must be a new or empty folder" in refused("repo", "export", db, folder)
    refused("repo", "import", folder, copy)
    assert unchanged(copy)


def test_a_damaged_record_is_named(db):
    assert told("repo", "check", db) == []
    with sqlite3.connect(db) as connection:
        where = "owner='policies' AND owner_id=2 AND name='policy'"
        data = bytearray(connection.execute(f"SELECT data FROM arrays WHERE {where}").fetchone()[0])
        data[len(data) // 2] ^= 1
        connection.execute(f"UPDATE arrays SET data=? WHERE {where}", (bytes(data),))
    connection.close()
    result = run("repo", "check", db)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert "policies 2" in result.stdout.splitlines()[0]
    assert result.stdout.splitlines()[-1].endswith("damaged")
    shown = run("repo", "check", db, "--json")
    assert shown.exit_code == 1
    assert "policies" in str(json.loads(shown.stdout)[0])


def test_a_new_task_is_met_with_what_is_kept(db, tmp_path):
    arguments = ("transfer", db, *GRID, "--episodes", 80, "--trials", 3, "--seed", 4)
    found = told(*arguments)
    with Repository(db) as repository:
        assert [arm["policy"] for arm in found["arms"]] == [*repository.source_ids(), None]
        assert [arm["name"] for arm in found["arms"]] == [*repository.named_sources(), "learner"]
    assert found["recommended"] in [{key: arm[key] for key in ("name", "policy", "source")} for arm in found["arms"]]
    assert "the learner is not shown to be worth more" in found["why"] or "worth at least" in found["why"]
    assert found["seed"] == 4
    assert len(found["totals"]) == 3
    assert found["mean_return"] == pytest.approx(sum(found["totals"]) / 240)
    assert sum(arm["share"] for arm in found["arms"]) == pytest.approx(1)
    assert found == told(*arguments, "--jobs", 2)
    assert found != told(*arguments[:-1], 5)
    lines = fine(*arguments, "--picture", tmp_path / "run.png").splitlines()
    assert lines[0].startswith("TransferRun(3 x 80 episodes, 2 sources")
    kept = found["recommended"]["name"]
    assert lines[0].endswith(f"keep {'the learner' if kept == 'learner' else kept} ({found['why']})), seed 4")
    assert lines[1].startswith("an optimal policy earns 34.58, the best source ")
    assert [line.split("  ")[0] for line in lines[3:]] == [arm["name"] for arm in found["arms"]]
    assert matplotlib.image.imread(tmp_path / "run.png").size
    assert unchanged(db)  # nothing is stored


@pytest.mark.parametrize("selector", ["informed", "exp3-transfer", "tsallis-inf", "regret-balancing", "ppr"])
def test_every_selector_can_be_named(db, selector):
    assert told("transfer", db, *GRID, "--episodes", 20, "--selector", selector)["arms"]


def test_by_default_a_new_task_is_met_with_what_is_known_of_the_stored_ones(db, monkeypatch):
    given = []

    def noted(*arguments, **settings):
        given.append(settings)
        return transfer(*arguments, **settings)

    monkeypatch.setattr("pastmaster.reuse.transfer", noted)
    arguments = ("transfer", db, *GRID, "--episodes", 30)
    known = told(*arguments)
    assert known == told(*arguments, "--selector", "informed")
    told(*arguments, "--selector", "regret-balancing")
    with Repository(db) as repository:
        sources, experience = repository.named_sources(), repository.experience()
        bounds = repository.return_bounds()
    assert given[0]["experience"].to_dict() == given[1]["experience"].to_dict() == experience.to_dict()
    assert given[2]["experience"] is None
    here = transfer(NEW, sources, experience=experience, bounds=bounds, on_violation="widen", episodes=30, rng=0)
    assert known["totals"] == here.total.tolist()
    for command in ("transfer", "continual"):
        assert "informed|regret-balancing" in fine(command, "--help").replace("\n", "")


def test_an_agent_is_informed_by_default(tmp_path):
    def agent(name, *more):
        found = told("continual", tmp_path / f"{name}.db", "--domain", "coloured-grid", "--count", 4, *AGENT, *more)
        with Repository(tmp_path / f"{name}.db") as repository:
            stored = repository.database.read(lambda connection: rows.fetch(connection, "runs"))
        return found, [row["settings"]["selector"] for row in stored]

    found, selectors = agent("default")
    assert selectors == ["RegretBalancing", "RegretBalancing", "Informed", "Informed"]
    assert agent("informed", "--selector", "informed") == (found, selectors)
    assert set(agent("other", "--selector", "tsallis-inf")[1]) == {"TsallisINF"}


def test_an_agent_measures_its_price_unless_it_is_asked_for_the_papers_cost(tmp_path):
    agent = ("--domain", "coloured-grid", "--count", 4, "--episodes", 50, "--recluster-every", 2)

    def kinds(name, *more):
        fine("continual", tmp_path / name, *agent, *more)
        with Repository(tmp_path / name) as repository:
            return {repository.clustering().kind}

    assert kinds("measured.db") == {"loss"}
    assert kinds("paper.db", "--restarts", 2) == {"average"}
    assert kinds("pinned.db", "-k", 1) == {"loss"}
    both = run("continual", tmp_path / "no.db", *agent, "--restarts", 2, "-k", 1)
    assert both.exit_code == 2
    assert "must not be given with -k" in both.stderr
    assert not (tmp_path / "no.db").exists()


def test_an_agent_goes_on_where_it_was(tmp_path):
    db, log, board, picture = (tmp_path / name for name in ("agent.db", "log.jsonl", "board", "agent.png"))
    agent = ("continual", db, "--domain", "coloured-grid", *AGENT, "--count")
    short = told(*agent, 4, "--log", log)
    assert short["n_sources"][:2] == [0, 0]
    assert min(short["n_sources"][2:]) > 0
    assert short["total"] == pytest.approx(50 * sum(short["mean_returns"]))
    lines = log.read_text()
    assert told(*agent, 4, "--log", log, "--tensorboard", board, "--picture", picture) == short
    assert log.read_text() == lines.replace('"replayed": false', '"replayed": true')
    assert len(list(board.iterdir())) == 1
    assert matplotlib.image.imread(picture).size
    text = fine(*agent, 4)
    assert text.startswith("ContinualRun(4 tasks x 50 episodes: mean return ")
    assert len(text.splitlines()) == 1
    assert "rng (--seed) is another" in refused(*agent, 4, "--seed", 1, "--log", log)
    assert "episodes is 9, must be 50" in refused(*agent, 4, "--episodes", 9)
    assert log.read_text() == lines.replace('"replayed": false', '"replayed": true')
    assert fine("repo", "check", db) == "all is well: 4 tasks\n"


def test_agents_with_other_sources_and_without_a_model(tmp_path):
    files = [write_task(tmp_path / f"{i}.npz", task) for i, task in enumerate(TASKS)]
    agent = ("continual", tmp_path / "agent.db", *files, *AGENT)
    assert told(*agent, "--sources", "all", "--name", "all")["n_sources"] == [0, 1, 2, 3]
    bare = ("--no-model", "--bounds", 0, 60, "--evaluation-episodes", 3, "--sources", "none", "--selector", "ppr")
    found = told("continual", tmp_path / "bare.db", *files, *AGENT, *bare)
    assert found["n_sources"] == [0, 0, 0, 0]
    assert found["evaluation_episodes"] == [3, 9, 15, 21]
    fine("repo", "remove", tmp_path / "agent.db", 2)
    assert told(*agent, "--sources", "all", "--name", "all")["values"][1] is None


# What they say when they cannot


def wrong_shape(folder):
    np.save(folder / "wrong.npy", np.zeros(5, int))
    return folder / "wrong.npy"


def text_file(folder):
    (folder / "notes.txt").write_text("this is a list of things to buy, and not what you are looking for\n" * 100)
    return folder / "notes.txt"


def empty(folder):
    with Repository(folder / "empty.db"):
        return folder / "empty.db"


def truncated(folder):
    path = write_task(folder / "truncated.npz")
    path.write_bytes(path.read_bytes()[:-100])
    return path


def torn(folder):
    """Compressed, and damaged within."""
    path = folder / "torn.npz"
    np.savez_compressed(path, next_state=np.arange(1000).reshape(500, 2), reward=np.zeros((500, 2)), gamma=0.9)
    raw = bytearray(path.read_bytes())
    raw[60:200] = bytes(140)
    path.write_bytes(raw)
    return path


def write_member(path, header, body=b""):
    """An .npz whose array ``reward`` has this header."""
    text = f"{header}".encode().ljust(118) + b"\n"
    write_task(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("start.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body)
    return path


def huge(folder):
    return write_member(folder / "huge.npz", {"descr": "<f8", "fortran_order": False, "shape": (10**11,)})


class Planted:
    def __reduce__(self):
        return os.mkdir, (os.environ["PLANTED"],)


def poisoned(folder):
    header = {"descr": "|O", "fortran_order": False, "shape": (1,)}
    return write_member(folder / "poisoned.npz", header, pickle.dumps(np.array([Planted()], object)))


def poisoned_policy(folder):
    np.save(folder / "poisoned.npy", np.array([Planted()], object), allow_pickle=True)
    return folder / "poisoned.npy"


def odd(folder):
    return write_task(folder / "odd.npz", rewards=[1, 2])


def incomplete(folder):
    np.savez(folder / "incomplete.npz", next_state=[[0]])
    return folder / "incomplete.npz"


REFUSALS = [
    ("repo list {folder}/nowhere.db", "no repository at .*nowhere.db: check the path, or make one: "),
    ("repo list {folder}/nowhere.db", "there is no repository at"),
    ("transfer {folder}/nowhere.db {new}", "there is no repository at"),
    ("repo init {folder}/no/folder.db", "cannot be made: there is no folder"),
    ("repo list {folder}", "is a directory, must be a file"),
    ("continual {folder} {new}", "is a directory, must be a file"),
    ("repo init mysql://user:secret@host/name", r"the URL is for mysql, must begin with postgresql://"),
    ("repo list postgresql://", "."),
    ("repo list {text}", "is not a repository"),
    ("repo init {text}", "is not a repository"),
    ("repo keep {empty} --episodes 10", "holds no tasks yet, so there is nothing to keep"),
    ("repo keep {empty} -k 1", "holds no tasks yet, so there is nothing to keep"),
    ("repo keep {db} -k 5", "^Error: -k is 5, must be a whole number, in 1..4"),
    ("repo keep {db} -k 5 --symmetric", "^Error: -k is 5, must be a whole number, in 1..4"),
    ("repo keep {db} --max-loss -1", "^Error: --max-loss is -1.0, must be at least 0"),
    ("repo keep {db} -k 1 --must-keep nobody", "--must-keep holds 'nobody', must be the name of a policy or a column"),
    ("repo keep {db} --episodes 0", "episodes is 0, must be a positive number"),
    ("repo keep {db} --episodes 9 --jobs 0", "^Error: --jobs is 0"),
    ("repo keep {db} --episodes 9 --restarts 0", "^Error: --restarts is 0"),
    ("repo show {empty} --picture {folder}/x.png", "there is no clustering to draw yet"),
    ("transfer {empty} {new}", "keeps no policies yet: `pastmaster repo keep` chooses them"),
    ("transfer {db} {new} --bounds 1 0", "bounds is"),
    ("transfer {db} --domain coloured-grid --count 2", "transfer meets one task, got 2"),
    ("repo add {db}", "no task is named: give .npz files, --gym ID, or --domain NAME"),
    ("repo add {db} {folder}/nowhere.npz", "nowhere.npz', which does not exist, must be an .npz file.*; '.*' has"),
    ("repo add {db} {folder}", "the task is '.*', a folder, must be an .npz file of arrays"),
    ("repo add {db} {wrong}", "wrong.npy is given as a task, must follow --policy"),
    ("repo add {db} {text}", "notes.txt is not an .npz file"),
    ("repo add {db} {truncated}", "truncated.npz is not an .npz file"),
    ("repo add {db} {torn}", "torn.npz"),
    ("repo add {db} {huge}", "huge.npz .*start.npy: its header asks for .*800,000,000,1.. bytes"),
    ("repo add {db} {poisoned}", "poisoned.npz .*start.npy: has dtype object.*objects are never read"),
    ("repo add {db} {odd}", "odd.npz holds 'rewards', must hold next_state, reward and gamma"),
    ("repo add {db} {incomplete}", "incomplete.npz holds no 'gamma', must hold next_state, reward and gamma"),
    ("repo add {db} {new} --policy {wrong}", r"^Error: --policy wrong.npy has shape \(5,\).*must be \[16\]"),
    ("repo add {db} {new} --policy {poisoned_policy}", "objects are never read.*must be a .npy file of actions"),
    ("repo add {db} {new} --policy {text}", "notes.txt is not an .npy file, must be a .npy file of actions"),
    ("repo add {db} {new} --policy {folder}/nowhere.npy", "nowhere.npy', which does not exist, must be a model's .zip"),
    ("repo add {db} {new} --policy {folder}/nowhere.zip", "nowhere.zip', which does not exist, must be a .zip file"),
    ("repo add {db} {new} --policy {folder}", "a folder, must be a model's .zip or .onnx file, or an .npy file of"),
    ("repo add {db} {new} {new} --policy {wrong}", "--policy names 1 files for 2 tasks, must be one to each task"),
    ("repo add {db} --gym A-v0 --gym B-v0 --kwargs {{}}", "--kwargs is given 1 times for 2 environments, must be"),
    ("repo add {db} {new} --kwargs {{}}", "--kwargs is given without --gym"),
    ("repo add {db} --gym A-v0 --kwargs-file {text}", "notes.txt is not JSON"),
    ("repo add {db} --gym A-v0 --kwargs-file {folder}/no.json", "Error: --kwargs-file is .* which does not exist"),
    ("repo add {db} --gym A-v0 --import no_such_module", "--import no_such_module: ModuleNotFoundError"),
    ("repo add {db} {new} --evaluation-episodes 5", "policy is None, must be given"),
    ("repo add {db} --gym Nowhere-v0", "--gym is 'Nowhere-v0', must be an environment .*doesn't exist"),
    ("repo add {db} --gym no/such:thing-v0", "--gym is 'no/such:thing-v0', must be an id without a module"),
    ("repo add {db} --gym FrozenLake-v1 --kwargs {{oops", "--kwargs is not JSON: "),
    ("repo add {db} --gym FrozenLake-v1 --kwargs [1]", r"--kwargs is \[1\], must be a JSON object"),
    ('repo add {db} --gym FrozenLake-v1 --kwargs {{"size":1}}', "--gym is 'FrozenLake-v1', must be an .*'size'"),
    ("repo add {db} --gym FrozenLake-v1 --gamma 2", "gamma is 2"),
    ("repo add {db} --gym CartPole-v1", "policy is None, must be given: CartPole-v1 has no model"),
    ("repo add {db} --domain windy-corridor --count 1", "."),
    ("repo add {db} --domain windy-corridor --count 1000", "--count is 1000, must be at most"),
    ("repo remove {db} 99", "^Error: ID is 99, must be the id of a stored task"),
    ("repo show {db} 99", "^Error: ID is 99"),
    ("repo add {db} --domain surveillance --count 200", "^Error: --count is 200, must be a whole number, in 1..96"),
    ("repo add {db} --domain surveillance --sequences 999", "^Error: --sequences is 999"),
    ("repo import {folder}/nowhere {folder}/new.db", "nowhere/manifest.json cannot be read: No such file"),
    ("repo import {folder}/nowhere {db}", "."),
    ("repo export {db} {text}", "must be a new or empty folder"),
    ("repo backup {db} {text}", "Repository.backup: .*notes.txt is there already, must be a new file"),
    ("repo backup {folder}/no.db {folder}/copy.db", "there is no repository at"),
    ("continual {db} {new} --log {folder}", "JsonLines: .* cannot be written: Is a directory"),
    ("continual {db} {new} --tensorboard {text}", "TensorBoard: .*notes.txt cannot be written"),
    ("continual {empty} --gym FrozenLake-v1 --no-model", "bounds is None, must be given: task 0 of the stream"),
    ("continual {db} {new} --no-model --bounds 0 9 --evaluation-episodes 1", "--evaluation-episodes is 1"),
]  # fmt: skip
FILES = {
    "text": text_file, "empty": empty, "truncated": truncated, "torn": torn, "huge": huge, "poisoned": poisoned,
    "odd": odd, "incomplete": incomplete, "wrong": wrong_shape, "poisoned_policy": poisoned_policy,
}  # fmt: skip


@pytest.mark.parametrize(("line", "sentence"), REFUSALS)
def test_an_error_is_one_line_and_changes_nothing(db, tmp_path, monkeypatch, line, sentence):
    planted = tmp_path / "planted"
    monkeypatch.setenv("PLANTED", str(planted))
    made = {name: make(tmp_path) for name, make in FILES.items() if f"{{{name}}}" in line}
    names = made | {"db": db, "folder": tmp_path, "new": write_task(tmp_path / "new.npz")}
    message = refused(*(word.format(**names) for word in line.split(" ")))
    assert re.search(sentence, message), message
    assert "secret" not in message
    assert not planted.exists()  # nothing planted was executed
    assert unchanged(db)


@pytest.mark.parametrize(
    "line",
    [
        "repo", "repo list", "repo frobnicate x", "repo add {db} --domain nowhere", "repo add {db} --count 0",
        "repo keep {db} --price 2 --symmetric",
        "repo keep {db} -k 1 --symmetric --must-keep x", "repo keep {db} --episodes many",
        "repo remove {db}", "repo remove {db} one",
        "repo show {db} --picture {folder}/x.xyz", "repo keep {db} --episodes 9 --picture {folder}",
        "transfer {db} {db} --picture {folder}/x.txt", "transfer {db} {db} --episodes 0",
        "transfer {db} --bounds 1", "continual {db} --sources some", "continual {db} --seed -1",
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_refused_with_code_2(db, tmp_path, line):
    result = run(*(word.format(db=db, folder=tmp_path) for word in line.split()))
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert "Error: " in result.stderr.splitlines()[-1] or result.stderr.startswith("Usage: ")
    assert unchanged(db)


# In a process of its own


def process(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    command = [*PROCESS, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_a_server_that_is_not_there_is_one_line():
    message = refused("repo", "list", "postgresql://user:secret@127.0.0.1:1/name")
    assert "does not answer" in message
    assert "secret" not in message


def without_privilege() -> None:
    """Rights count for root too: its capability to ignore them is dropped."""
    if os.geteuid() == 0 and ctypes.CDLL(None).prctl(24, 1):  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE
        os._exit(99)


def test_a_read_only_file_or_folder_is_not_changed(db):
    db.chmod(0o444)
    changed = process("repo", "remove", db, 1, preexec_fn=without_privilege)
    db.parent.chmod(0o555)
    made = process("repo", "init", db.parent / "new.db", preexec_fn=without_privilege)
    db.parent.chmod(0o755)
    db.chmod(0o644)
    for done in (changed, made):
        assert done.returncode == 1
        assert one_line(done.stderr), done.stderr
        assert "read-only" in done.stderr or "cannot be opened" in done.stderr
    assert unchanged(db)


@contextmanager
def small_disk() -> Iterator[None]:
    """No file may grow beyond 16 kB."""
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**14, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)


def test_one_is_counted_as_one(tmp_path):
    db = tmp_path / "one.db"
    assert fine("repo", "add", db, "--domain", "windy-corridor", "--count", 1).endswith("1 task added, 1 in all\n")
    assert fine("repo", "init", db) == f"{db}: 1 task\n"
    assert fine("repo", "check", db) == "all is well: 1 task\n"
    assert fine("repo", "export", db, tmp_path / "out").startswith("1 task written: ")
    assert fine("repo", "import", tmp_path / "out", tmp_path / "two.db").startswith("1 task read into ")
    assert fine("repo", "remove", db, 1) == f"{db}: 1 task removed, 0 left\n"


def test_a_missing_file_of_arguments_is_told_once(tmp_path):
    result = CliRunner().invoke(
        main, ["repo", "add", str(tmp_path / "a.db"), "--gym", "A-v0", "--kwargs-file", "no.json"]
    )
    assert result.stderr.startswith("Error: --kwargs-file is 'no.json', which does not exist, must be a JSON file")
    assert "is not JSON" not in result.stderr


@pytest.mark.parametrize("line", ["repo add {db} {new}", "repo import {folder} {made}", "repo init {made}"])
def test_a_full_disk_is_one_line_and_changes_nothing(db, tmp_path, line):
    names = {
        "db": db,
        "new": write_task(tmp_path / "new.npz"),
        "folder": tmp_path / "folder",
        "made": tmp_path / "m.db",
    }
    fine("repo", "export", db, names["folder"])
    fine("repo", "add", shutil.copy(db, tmp_path / "warm.db"), names["new"])  # kernels are compiled by now
    with small_disk():
        message = refused(*(word.format(**names) for word in line.split()))
    assert "disk" in message
    assert unchanged(db)


def on_a_terminal(*arguments: object) -> tuple[str, str]:
    """What is printed by a command whose stderr is a terminal: to stdout, and there."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([*PROCESS, *map(str, arguments)], stdout=subprocess.PIPE, stderr=theirs, text=True) as done:
        os.close(theirs)
        shown = b""
        while True:
            try:
                chunk = os.read(ours, 4096)
            except OSError:  # the other side is closed
                break
            if not chunk:
                break
            shown += chunk
        out = done.stdout.read()
    os.close(ours)
    assert done.returncode == 0, shown
    return out, shown.decode()


def test_bars_stay_out_of_what_a_script_reads(db, tmp_path):
    files = [write_task(tmp_path / f"{i}.npz", task) for i, task in enumerate(TASKS)]
    out, shown = on_a_terminal("continual", tmp_path / "agent.db", *files, *AGENT, "--json")
    assert json.loads(out)["n_sources"][0] == 0
    assert out.startswith("{")
    assert "tasks" in shown


HELD = """
import sys, time
from pastmaster.cli import main
from pastmaster.continual import JsonLines

write = JsonLines.__call__

def hold(self, event):
    if event.position >= 8:
        time.sleep(3600)
    write(self, event)

JsonLines.__call__ = hold
main(sys.argv[1:])
"""


def test_ctrl_c_leaves_an_agent_that_ends_with_the_same_json(tmp_path, ctrl_c):
    """Pressed after three tasks of twelve, wherever the agent then is; it does not get beyond the eighth."""
    agent = ("--domain", "coloured-grid", "--count", 12, "--episodes", 300, "--recluster-every", 5, "--restarts", 2)
    expected = told("continual", tmp_path / "whole.db", *agent)
    db, log = tmp_path / "agent.db", tmp_path / "log.jsonl"
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", HELD, "continual", str(db), *map(str, agent)]
    command += ["--json", "--log", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as stopped:
        while not (log.exists() and log.read_text().count("\n") >= 3):
            assert stopped.poll() is None, stopped.stderr.read()
            time.sleep(0.01)
        stopped.send_signal(signal.SIGINT)
        out, err = stopped.communicate()
    assert stopped.returncode not in (0, None)
    assert out == ""
    assert "Traceback" not in err
    assert re.fullmatch(r"interrupted: \d+ tasks are kept, the same command goes on", err.strip())
    assert fine("repo", "check", db).startswith("all is well: ")
    assert 0 < len(told("repo", "list", db)) < 12
    assert told("continual", db, *agent, "--log", log) == expected
    assert [json.loads(line)["position"] for line in log.read_text().splitlines() if "task_id" in line] == [*range(12)]
