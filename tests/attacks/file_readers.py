"""Every reader of files in the library and the command, with files that it reads.

A reader takes a folder of its own, the name of one file in it and that file's content, which may be anything. It reads
the file and uses what it read: an error of ``pastmaster.errors`` is as good as a result, anything else is a failure.
"""

from __future__ import annotations

import io
import json
import math
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import onnx_models
from made_up import write_scenario
from mutations import zipped

from pastmaster import (
    DamagedError,
    Exp3Transfer,
    Informed,
    InvalidInputError,
    ProbabilisticPolicyReuse,
    RegretBalancing,
    Repository,
    TabularMDP,
    TsallisINF,
    keep,
    load_onnx,
    load_sb3,
    read_aslib,
    solve,
)
from pastmaster.cli.policies import NamedPolicies
from pastmaster.cli.tasks import _listed_kwargs, read_task
from pastmaster.parallel import Saved
from pastmaster.parallel.saved import packed
from pastmaster.policies import NetworkPolicy
from pastmaster.policies.normalisation import given_normalisation

TASK = TabularMDP([[0, 1, 1], [1, 0, 0]], [[0.0, 1.0, 0.5], [0.0, 0.0, 2.0]], gamma=0.9, horizon=5, name="small")
GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


@dataclass(frozen=True)
class Reader:
    """What is read, and how: ``prepare`` fills the reader's folder, and returns the files that may be changed.

    They are ``good``, or they are refused as they are.
    """

    prepare: Callable[[Path], dict[str, bytes]]
    read: Callable[[Path, str, bytes], object]
    good: bool = True


def _written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def _npy(array: Any) -> bytes:
    np.save(stream := io.BytesIO(), np.asarray(array))
    return stream.getvalue()


def _json(content: bytes) -> Any:
    """What the caller of a function that takes values of JSON would have read."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise InvalidInputError("this is no JSON") from None


# tasks and policies


def _tasks(folder: Path) -> dict[str, bytes]:
    full = {
        "next_state": [[[0, 1], [1, 0]], [[1, 1], [0, 1]]], "reward": [[[0.0, 1.0], [0.5, 2.0]], [[0.0, 1.0], [1, 1]]],
        "probability": [[[0.5, 0.5], [0.1, 0.9]], [[1.0, 0.0], [0.3, 0.7]]], "terminated": np.zeros((2, 2, 2), bool),
        "start": [0.5, 0.5], "gamma": 0.9, "horizon": 7, "name": "a task",
    }  # fmt: skip
    small = {"next_state": [[0, 1]] * 2, "reward": [[0.0, 1.0]] * 2, "gamma": 0.5}
    made = {"full.npz": full, "small.npz": small}
    return {
        name: zipped([(f"{key}.npy", _npy(array)) for key, array in arrays.items()]) for name, arrays in made.items()
    }


def _read_task(folder: Path, name: str, content: bytes) -> None:
    task = read_task(_written(folder, name, content))
    if task.n_states < 100:
        assert np.isfinite(solve(task).value).all()


def _tables(folder: Path) -> dict[str, bytes]:
    return {"actions.npy": _npy([2, 0]), "chances.npy": _npy([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])}


def _read_table(folder: Path, name: str, content: bytes) -> None:
    policy = NamedPolicies((), (), False, (), False)._policy(_written(folder, name, content), TASK, None)
    assert policy.act([0, 1], [0.1, 0.9]).shape == (2,) if policy.random else policy.act([0, 1]).shape == (2,)


def _settings() -> tuple[dict[str, Any], np.ndarray]:
    rng = np.random.default_rng(0)
    layers = [(rng.normal(size=(3, 4)), rng.normal(size=3)), (rng.normal(size=(2, 3)), rng.normal(size=2))]
    normalise = {"mean": np.zeros(4), "var": np.ones(4)}
    made = NetworkPolicy(layers, head="tanh", low=[-1.0, 0.0], high=[1.0, 2.0], normalise=normalise)
    return made.settings, made.weights


def _networks(folder: Path) -> dict[str, bytes]:
    return {"settings.json": json.dumps(_settings()[0]).encode()}


def _read_network(folder: Path, name: str, content: bytes) -> None:
    policy = NetworkPolicy.from_data(_json(content), _settings()[1])
    assert np.isfinite(policy.act(np.ones((3, 4)))).all()


def _models(folder: Path) -> dict[str, bytes]:
    """As Stable-Baselines3 writes them, in the parts that are read."""
    import torch

    sizes = {"mlp_extractor.policy_net.0": (5, 4), "action_net": (2, 5), "value_net": (1, 5)}
    found = {}
    for kind, actions in (
        ("discrete", {":type:": "<class 'gymnasium.spaces.discrete.Discrete'>", "n": "2", "start": "0"}),
        (
            "box",
            {
                ":type:": "<class 'gymnasium.spaces.box.Box'>", "_shape": [2], "low": "[-1. -2.]", "high": "[1. 2.]",
                "dtype": "float32",
            },
        ),
        ("many", {":type:": "<class 'gymnasium.spaces.multi_discrete.MultiDiscrete'>", "nvec": "[1 1]"}),
    ):  # fmt: skip
        data = {
            "policy_class": {"__module__": "stable_baselines3.common.policies"}, "use_sde": False, "num_timesteps": 100,
            "policy_kwargs": {":type:": "<class 'dict'>", "net_arch": [5]}, "_last_original_obs": None,
            "observation_space": {
                ":type:": "<class 'gymnasium.spaces.box.Box'>", "_shape": [4], "low": "[-1. -1. -1. -1.]",
                "high": "[1. 1. 1. 1.]", "dtype": "float32",
            },
            "action_space": actions,
        }  # fmt: skip
        state = {f"{name}.weight": torch.linspace(-1, 1, m * d).reshape(m, d) for name, (m, d) in sizes.items()}
        state |= {f"{name}.bias": torch.zeros(m) for name, (m, _) in sizes.items()}
        torch.save(state, stream := io.BytesIO())
        found[f"{kind}.zip"] = zipped([("data", json.dumps(data).encode()), ("policy.pth", stream.getvalue())])
    return found


def _read_model(folder: Path, name: str, content: bytes) -> None:
    policy = load_sb3(_written(folder, name, content))
    assert len(policy.act(np.zeros((2, policy.stack.shape.sizes[0]), np.float32))) == 2


SPACES = (gym.spaces.Box(-1, 1, (4,)), gym.spaces.Discrete(2))


def _graphs(folder: Path) -> dict[str, bytes]:
    """With weights, with operators on shapes, and with state."""
    return {
        "network.onnx": onnx_models.mlp(), "index.onnx": onnx_models.flat_model(["n", 4], 4, 2, then="index"),
        "recurrent.onnx": onnx_models.counter(),
    }  # fmt: skip


def _read_graph(folder: Path, name: str, content: bytes) -> None:
    state = {"count_in": "count_out"} if name == "recurrent.onnx" else None
    policy = load_onnx(_written(folder, name, content), SPACES, state=state)
    assert len(policy.act(np.zeros((2, 4), np.float32))) == 2


def _statistics(folder: Path) -> dict[str, bytes]:
    arrays = {"mean": np.zeros(4), "var": np.ones(4), "epsilon": 1e-8, "clip": 10.0}
    return {"normal.npz": zipped([(f"{key}.npy", _npy(array)) for key, array in arrays.items()])}


def _read_statistics(folder: Path, name: str, content: bytes) -> None:
    found = given_normalisation(_written(folder, name, content), 4, "load_sb3")
    assert found is not None
    assert np.isfinite(found["mean"]).all()


# selectors and generators


def _selector(kind: type[Any], generator: str) -> Any:
    settings = {"temperature_step": 0.1} if kind is ProbabilisticPolicyReuse else {"check_every": 5}
    if kind not in (RegretBalancing, Informed, ProbabilisticPolicyReuse):
        settings["elimination"] = "anytime"
    if kind is Informed:
        settings["experience"] = np.random.default_rng(0).uniform(-1.0, 2.0, (4, 3))
    rng = np.random.Generator(getattr(np.random, generator)(0))
    made = kind(3, 100, bounds=(-1.0, 2.0), rng=rng, **settings)
    opened = [made.ask() for _ in range(20)]
    for k, episode in enumerate(opened[2:]):
        made.tell(episode, (1.0, -1.0, 0.3)[k % 3]) if k % 5 else made.cancel(episode)
    return made


KINDS = {kind.name: kind for kind in (Exp3Transfer, TsallisINF, RegretBalancing, Informed, ProbabilisticPolicyReuse)}


def _selectors(folder: Path) -> dict[str, bytes]:
    found = {}
    for kind in KINDS.values():
        for generator in GENERATORS if kind is TsallisINF else ("PCG64",):
            state = _selector(kind, generator).to_dict()
            found[f"{kind.name}-{generator}.json"] = json.dumps(state).encode()
    return found


def _read_selector(folder: Path, name: str, content: bytes) -> None:
    selector = next(kind for key, kind in KINDS.items() if name.startswith(key)).from_dict(_json(content))
    low, high = selector.bounds
    for k in range(50):
        episode = selector.ask()
        if k % 7 and selector.open:
            episode = selector.open[k % len(selector.open)]
        if k % 11 == 10:
            selector.cancel(episode)
        else:
            selector.tell(episode, (low, high, low + (high - low) / 2)[k % 3])
        chances = selector.probabilities
        assert np.isfinite(chances).all(), chances
        assert abs(chances.sum() - 1.0) < 1e-6, chances
    assert np.isfinite(selector._arms).all()
    assert np.isfinite(selector._memory).all()
    assert math.isfinite(selector.counts.sum())
    again = type(selector).from_dict(json.loads(json.dumps(selector.to_dict())))
    assert again.ask() == selector.ask()


# saved chunks, repositories


CHUNK = "squares-000.npz"


def _chunks(folder: Path) -> dict[str, bytes]:
    return {CHUNK: packed({"squares": np.arange(4.0) ** 2, "text": np.frombuffer(b'{"a": 1}', np.uint8)}, CHUNK)}


def _read_chunk(folder: Path, name: str, content: bytes) -> None:
    _written(folder, name, content)
    saved: Saved[int, float] = Saved(folder, "squares", lambda _: None, lambda arrays, _: arrays["squares"].tolist())
    found = saved.found([range(4)])
    if not found:
        raise DamagedError("it is computed again")
    assert found == {0: [0.0, 1.0, 4.0, 9.0]}, found


def _others(folder: Path) -> dict[str, bytes]:
    """Files of every other kind, and databases of other programs."""
    other = sqlite3.connect(folder / "other.db")
    other.execute("create table tasks (id text, settings blob)")
    other.execute("insert into tasks values ('x', 'y')")
    other.commit()
    other.close()
    found = {"other.db": (folder / "other.db").read_bytes(), "text.db": b"these are notes", "empty.db": b""}
    found |= {"task.db": _tasks(folder)["full.npz"], "table.db": _tables(folder)["actions.npy"]}
    return found | {"manifest.db": b'{"format": "pastmaster repository"}'}


def _open(folder: Path, name: str, content: bytes) -> None:
    path = _written(folder, name, content)
    try:
        with Repository(path, create=False) as repository:
            assert len(repository) == 0
    finally:
        for beside in folder.glob(f"{name}*"):
            beside.unlink()


# the command's own files


def _kwargs(folder: Path) -> dict[str, bytes]:
    return {"kwargs.json": json.dumps([{"size": 4, "map": ["SF", "FG"]}, {"slippery": True}]).encode()}


def _read_kwargs(folder: Path, name: str, content: bytes) -> None:
    assert all(isinstance(one, dict) for one in _listed_kwargs(_written(folder, name, content)))


def _scores(folder: Path) -> dict[str, bytes]:
    wide = 'task,ppo,"d,qn",rules\nnorth,61,80,66\n"so\nuth",55.5,,6e1\nwest,-4,3,?\n'
    return {
        "wide.csv": wide.encode(),
        "marked.csv": wide.replace(",", ";").encode("utf-16"),
        "long.csv": b"task,policy,score\nx,a,1\nx,a,3\nx,b,2.4\ny,a,5\ny,b,0\n",
    }


def _read_scores(folder: Path, name: str, content: bytes) -> None:
    kept = keep(_written(folder, name, content), k=1, time_limit=1.0, rng=0)
    assert math.isfinite(kept.mean_loss)


def _scenario(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in write_scenario(folder).iterdir()}


def _read_scenario(folder: Path, name: str, content: bytes) -> None:
    original = (folder / name).read_bytes()
    try:
        _written(folder, name, content)
        kept = keep(read_aslib(folder), price=1.0, time_limit=1.0, rng=0)
        assert math.isfinite(kept.mean_loss)
    finally:
        (folder / name).write_bytes(original)


READERS = {
    "task-npz": Reader(_tasks, _read_task),
    "policy-npy": Reader(_tables, _read_table),
    "sb3-zip": Reader(_models, _read_model),
    "onnx-file": Reader(_graphs, _read_graph),
    "normalisation-npz": Reader(_statistics, _read_statistics),
    "network-settings": Reader(_networks, _read_network),
    "selector-json": Reader(_selectors, _read_selector),
    "saved-chunk": Reader(_chunks, _read_chunk),
    "repository-file": Reader(_others, _open, good=False),
    "kwargs-file": Reader(_kwargs, _read_kwargs),
    "scores-csv": Reader(_scores, _read_scores),
    "aslib-scenario": Reader(_scenario, _read_scenario),
}
