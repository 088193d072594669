"""Mistakes in calls of a repository and of the agent."""

from __future__ import annotations

from functools import cache
from typing import Any

from right import POLICY, TASK, Call, each, folder, repository

import pastmaster as pm
from pastmaster.continual import JsonLines, Progress, TensorBoard

AGENT = {"episodes": 2, "recluster_every": 2, "rng": 0}
CHEAP = {"n_clusters": 1, "restarts": 1, "iterations": 10, "rng": 0}


def agent(stream: Any = (), **given: Any) -> Any:
    """What an agent returns."""
    made = pm.ContinualTransfer(**({"repository": repository()} | AGENT | given))
    return made.run(stream)


@cache
def ran() -> pm.ContinualRun:
    """What the agent returns."""
    with pm.Repository(folder() / "run.db") as stored:
        return pm.ContinualTransfer(stored, **AGENT, clustering={"restarts": 1, "iterations": 10}).run([TASK])


def on(method: str) -> Any:
    """A method of the repository, which is opened where it is called."""
    return lambda **given: getattr(repository(), method)(**given)


CALLS = {
    "Repository": Call(pm.Repository, lambda: {"url_or_path": folder() / "new.db"}).refuses(
        *each("url_or_path", [None, b"bytes", ["list"]], "is ..., must be a path"),
        ({"url_or_path": 3}, "url_or_path is 3, must be a path, or a URL of PostgreSQL"),
        ({"create": "x"}, "create is 'x', must be True or False"),
        ({"max_loss": "x"}, "max_loss is 'x', must be a number, at least 0"),
        ({"max_loss": -1}, "max_loss is -1, must be at least 0"),
    ),
    "Repository.add": Call(on("add"), lambda: {"task": TASK, "policy": POLICY}).refuses(
        ({"run": "x"}, "run is 'x', must be what transfer ret"),
        ({"policy": "cart.zip"}, "policy is 'cart.zip'...load_sb3"),
        ({"task": "x"}, "task is a str, must be a TabularMDP or a GymTask: pass GymTask('x')"),
        ({"task": -1}, "task is a int, must be a TabularMDP or a GymTask"),
        ({"policy": "x"}, "policy is 'x', and there is no such file, must be a policy: pass"),
        (
            {"policy": -1},
            "policy is -1, must be an array, an object with a method act, a Stable-Baselines3 model or a function",
        ),
        ({"name": 3}, "name is 3, must be a text of 1 to 1000 letters"),
        ({"source": 3}, "source is 3, must be a path of 1 to 1000 letters"),
        ({"provenance": "x"}, "provenance is 'x', must be one of 'solved', 'learned', 'imported'"),
        ({"evaluation_episodes": "x"}, "evaluation_episodes is 'x', must be a whole number, at least 2 (and < 1e12)"),
        ({"run": "x"}, "run is 'x', must be what transfer returned"),
    ),
    "Repository.add_many": Call(on("add_many"), lambda: {"tasks": [TASK]}).refuses(
        ({"tasks": "x"}, "tasks is 'x', must be tasks"),
        ({"tasks": [[1.0, 2.0], [3.0]]}, "tasks[0] is a list, must be a TabularMDP or a GymTask"),
        ({"batch": "x"}, "batch is 'x', must be a whole number, at least 1 (and < 1e12)"),
    ),
    "Repository.replace_policy": Call(on("replace_policy"), lambda: {"number": 1, "policy": POLICY}).refuses(
        ({"number": 99}, "number is 99, must be the id of a stored task", pm.RepositoryError),
        ({"number": "x"}, "number is 'x', must be a whole number, at least 1 (and < 1e12)"),
        ({"number": 2}, "number is 2, must be the id of a stored task", pm.RepositoryError),
        ({"policy": "x"}, "policy is 'x', and there is no such file, must be a policy: pass"),
        (
            {"policy": -1},
            "policy is -1, must be an array, an object with a method act, a Stable-Baselines3 model or a function",
        ),
        ({"name": 3}, "name is 3, must be a text of 1 to 1000 letters"),
        ({"source": 3}, "source is 3, must be a path of 1 to 1000 letters"),
        ({"provenance": "x"}, "provenance is 'x', must be one of 'solved', 'learned', 'imported'"),
    ),
    "Repository.remove": Call(lambda number: repository().remove(number), lambda: {"number": 1}).refuses(
        ({"number": 99}, "number is 99, must be the id of a stored task", pm.RepositoryError),
        ({"number": "x"}, "number is 'x', must be a whole number, at least 1 (and < 1e12)"),
        ({"number": 2}, "number is 2, must be the id of a stored task", pm.RepositoryError),
    ),
    "Repository.check_family": Call(on("check_family"), lambda: {"task": TASK}).refuses(
        ({"task": "x"}, "task is a str, must be a TabularMDP or a GymTask: pass GymTask('x')"),
        ({"task": -1}, "task is a int, must be a TabularMDP or a GymTask"),
    ),
    "Repository.record": Call(on("record"), lambda: {"number": 1}).refuses(
        ({"number": "x"}, "number is 'x', must be a whole number, at least 1 (and < 1e12)"),
        ({"number": 99}, "number is 99, must be the id of a stored task", pm.RepositoryError),
    ),
    "Repository.task": Call(on("task"), lambda: {"number": 1}).refuses(
        ({"number": "x"}, "number is 'x', must be a whole number, at least 1 (and < 1e12)"),
        ({"number": 99}, "number is 99, must be the id of a stored task", pm.RepositoryError),
    ),
    "Repository.policy": Call(on("policy"), lambda: {"number": 1}).refuses(
        ({"number": 99}, "number is 99, must be the id of a stored policy", pm.RepositoryError),
        ({"number": "x"}, "number is 'x', must be a whole number, at least 1 (and < 1e12)"),
        ({"number": 2}, "number is 2, must be the id of a stored policy", pm.RepositoryError),
    ),
    "Repository.policy_records": Call(on("policy_records"), lambda: {"numbers": [1]}).refuses(
        ({"numbers": [7]}, "number is 7, must be the id of a stored policy", pm.RepositoryError),
        ({"numbers": "x"}, "numbers is 'x', must be a list"),
    ),
    "Repository.experience": Call(on("experience"), lambda: {"policies": [1]}).refuses(
        ({"policies": "x"}, "policies is 'x', must be a list"),
    ),
    "Repository.keep": Call(on("keep"), lambda: {"k": 1}).refuses(
        ({"k": "x"}, "k is 'x', must be a whole number, in 1..1"),
        (
            {"max_loss": "x"},
            "k and max_loss are given, must be one question: k, or max_loss, or price, or episodes and span",
        ),
        ({"price": "x"}, "price is 'x', must be one of 'measured'"),
        ({"price": -1}, "k and price are given, must be one question: k, or max_loss, or price, or episodes and span"),
        ({"episodes": "x"}, "k and episodes and span are given, must be one question: k, or max_loss, or price, or"),
        ({"span": "x"}, "k and span are given, must be one question: k, or max_loss, or price, or episodes and span"),
        ({"weights": "x"}, "weights has dtype <U1, must hold numbers"),
        ({"must_keep": "x"}, "must_keep holds 'x', must be the name of a policy or a column in 0..0"),
        ({"must_keep": -1}, "must_keep holds -1, must be the name of a policy or a column in 0..0"),
        ({"never_keep": "x"}, "never_keep holds 'x', must be the name of a policy or a column in 0..0"),
        ({"never_keep": 0}, "never_keep holds all 1 policies, must leave one at least"),
        ({"certify": "x"}, "certify is 'x', must be True or False"),
        ({"time_limit": "x"}, "time_limit is 'x', must be a number, at least 0"),
        ({"time_limit": -1}, "time_limit is -1, must be at least 0"),
        ({"rng": "x"}, "rng is 'x', must be a seed (a whole number, at least 0), a numpy.random.Generator"),
    ),
    "Repository.cluster": Call(on("cluster"), lambda: CHEAP).refuses(
        ({"episodes": "x"}, "episodes is 'x', must be a positive number"),
        ({"span": "x"}, "episodes is None, must be given where span is: how many a new task gets"),
        ({"directed": "x"}, "directed is 'x', must be True or False"),
        ({"method": "x"}, "method is 'x', must be one of 'search', 'greedy'"),
        ({"rng": "x"}, "rng is 'x', must be a seed (a whole number, at least 0), a numpy.random.Generator"),
        (
            {"k": "x"},
            "k is no option here (did you mean n_clusters?), must be one of certify, certify_seconds,",
        ),
        ({"n_clusters": "x"}, "n_clusters is 'x', must be a whole number, in 1..1"),
        ({"certify": "x"}, "certify is 'x', must be True or False"),
        ({"restarts": "x"}, "restarts is 'x', must be a whole number, at least 1 (and < 1e12)"),
    ),
    "Repository.stream": Call(on("stream"), lambda: {"name": "a", "settings": {}}).refuses(
        ({"name": 3}, "name is 3, must be a text"),
        ({"settings": "x"}, "settings is 'x', must be a mapping of plain values"),
        ({"fresh": "x"}, "fresh is 'x', must be a mapping of plain values"),
    ),
    "Repository.export": Call(on("export"), lambda: {"folder": folder() / "out"}).refuses(
        ({"folder": 3}, "folder is 3, must be the path of a folder"),
    ),
    "Repository.backup": Call(on("backup"), lambda: {"path": folder() / "copy.db"}).refuses(
        ({"path": 3}, "path is 3, must be the path of a new file"),
    ),
    "Repository.import_": Call(on("import_"), lambda: {"folder": folder() / "out"}, runs=False).refuses(
        ({"folder": 3}, "folder is 3, must be the path of a folder"),
    ),
    "ContinualTransfer": Call(agent, dict).refuses(
        ({"repository": "x"}, "repository is 'x', must be a Repository"),
        ({"episodes": "x"}, "episodes is 'x', must be a whole number, at least 1 (and < 1e12)"),
        ({"recluster_every": "x"}, "recluster_every is 'x', must be a whole number, at least 1 (and <"),
        ({"rng": "x"}, "rng is 'x', must be a seed (a whole number, at least 0), a numpy.random.Generator"),
        ({"sources": "x"}, "sources is 'x', must be one of 'clusters', 'all', 'none'"),
        ({"bounds": "x"}, "bounds is 'x', must be (lower, upper)"),
        ({"bounds": [[1.0, 2.0], [3.0]]}, "bounds is [[1.0, 2.0], [3.0]], must be finite, lower below"),
        ({"model": "x"}, "model is 'x', must be True or False"),
        ({"evaluation_episodes": "x"}, "evaluation_episodes is 'x', must be a whole number, at least 2 (and < 1e12)"),
        ({"clustering": "x"}, "clustering is 'x', must be a mapping of options"),
        (
            {"clustering": {"zebra": 1}},
            "clustering holds 'zebra', must hold some of certify, certify_seconds, chain, directed,",
        ),
        ({"name": 3}, "name is 3, must be a text"),
        ({"name": ""}, "name is '', must be a text of 1 to 200 letters"),
        ({"hooks": "x"}, "hooks is 'x', must be a list"),
        ({"hooks": [[1.0, 2.0], [3.0]]}, "hooks holds [1.0, 2.0], must hold functions of an event"),
        ({"clustering": "x"}, "clustering is 'x', must be a mapping of options"),
        (
            {"clustering": {"zebra": 1}},
            "clustering holds 'zebra', must hold some of certify, certify_seconds, chain, directed,",
        ),
        ({"trials": "x"}, "trials is no option here, must be one of bounds, clustering,"),
    ),
    "ContinualTransfer.run": Call(agent, dict).refuses(
        ({"stream": None}, "stream is None, must be a task or a list of tasks"),
        ({"stream": "tasks"}, "stream is 'tasks', must be a task or a list of tasks"),
        ({"stream": "x"}, "stream is 'x', must be a task or a list of tasks"),
        ({"stream": {"zebra": 1}}, "stream is a dict, must be a task or a list of tasks: pass list(stream.values())"),
    ),
    "continual.JsonLines": Call(JsonLines, lambda: {"path": folder() / "lines"}).refuses(
        ({"path": 3}, "path is 3, must be a path"),
    ),
    "continual.TensorBoard": Call(TensorBoard, lambda: {"folder": folder() / "board"}).refuses(
        ({"folder": 3}, "folder is 3, must be a path"),
    ),
    "continual.Progress": Call(Progress, dict).refuses(
        ({"total": "x"}, "total is 'x', must be a whole number, at least 1 (and < 1e12)"),
    ),
    "plot_streams": Call(pm.plot_streams, lambda: {"runs": {"a": ran()}}).refuses(
        *each("runs", [[1], {"a": 1}], "is ..., must be a dict of ContinualRun by the ag"),
        ({"runs": "x"}, "runs is 'x', must be a dict of ContinualRun by the agents' names"),
    ),
}
