"""Tiny Stable-Baselines3 models, made on the spot, and files of theirs that were tampered with."""

from __future__ import annotations

import base64
import io
import json
import pickle
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3

torch.set_num_threads(1)

KINDS = {"PPO": PPO, "A2C": A2C, "DQN": DQN, "SAC": SAC, "TD3": TD3, "DDPG": DDPG}
ON_POLICY = ("PPO", "A2C")
ENVIRONMENTS = {
    "PPO": ("CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "choices"),
    "A2C": ("CartPole-v1", "Pendulum-v1", "FrozenLake-v1"),
    "DQN": ("CartPole-v1", "FrozenLake-v1"),
    "SAC": ("Pendulum-v1",),
    "TD3": ("Pendulum-v1",),
    "DDPG": ("Pendulum-v1",),
}
CASES = [(algorithm, env_id) for algorithm, ids in ENVIRONMENTS.items() for env_id in ids]


class Choices(gym.Env[Any, Any]):
    """An environment of MultiDiscrete actions."""

    observation_space = gym.spaces.Box(-1, 1, (2, 2))
    action_space = gym.spaces.MultiDiscrete([3, 2])

    def reset(self, **_):
        return np.zeros((2, 2), np.float32), {}

    def step(self, action):
        return np.ones((2, 2), np.float32) * 0.1, 1.0, False, bool(self.np_random.random() < 0.1), {}


def environment(env_id: str):
    return Choices() if env_id == "choices" else gym.make(env_id)


def model(algorithm: str, env: Any = "CartPole-v1", *, steps: int = 0, seed: int = 0, **settings: Any) -> Any:
    """A model, trained for a few steps if asked; its weights are spread out, so that actions differ."""
    settings = {"policy_kwargs": {"net_arch": [16, 16]}, "device": "cpu", "seed": seed} | settings
    if algorithm == "PPO":
        settings = {"n_steps": 16, "batch_size": 16} | settings
    if algorithm not in ON_POLICY:
        settings = {"buffer_size": 100, "learning_starts": 5} | settings
    made = KINDS[algorithm]("MlpPolicy", environment(env) if isinstance(env, str) else env, **settings)
    if steps:
        made.learn(steps)
    with torch.no_grad():
        for name, weights in made.policy.named_parameters():
            if weights.ndim == 2 and "log_std" not in name:
                weights.normal_(0, 1 / np.sqrt(weights.shape[1]), generator=torch.Generator().manual_seed(seed + 1))
                weights.mul_(2)
    return made


def saved(made: Any, folder: Path, name: str = "model.zip") -> Path:
    path = folder / name
    made.save(path)
    return path


@cache
def _content(algorithm: str, env_id: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return saved(model(algorithm, env_id, steps=16), Path(folder)).read_bytes()


def file(folder: Path, algorithm: str, env_id: str = "CartPole-v1", *, name: str = "model.zip") -> Path:
    """The file of a model that was trained for 16 steps, once for all tests."""
    path = folder / name
    path.write_bytes(_content(algorithm, env_id))
    return path


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(path: Path, parts: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def with_data(path: Path, change: Any) -> Path:
    """The file with its JSON changed."""
    parts = members(path)
    data = json.loads(parts["data"])
    change(data)
    parts["data"] = json.dumps(data).encode()
    return written(path, parts)


def with_state(path: Path, change: Any) -> Path:
    """The file with its policy's tensors changed."""
    parts = members(path)
    state = torch.load(io.BytesIO(parts["policy.pth"]), weights_only=True)
    change(state)
    buffer = io.BytesIO()
    torch.save(state, buffer)
    parts["policy.pth"] = buffer.getvalue()
    return written(path, parts)


class Poison:
    """What makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return (Path.touch, (self.marker,))


def poisoned(path: Path, member: str, marker: Path) -> Path:
    """The file with a pickle in it that makes ``marker``."""
    parts = members(path)
    if member == "data":
        text = base64.b64encode(pickle.dumps(Poison(marker))).decode()
        data = json.loads(parts["data"])
        data["_last_obs"][":serialized:"] = text
        parts["data"] = json.dumps(data).encode()
    else:
        buffer = io.BytesIO()
        torch.save({"weights": Poison(marker)}, buffer)
        parts[member] = buffer.getvalue()
    return written(path, parts)
