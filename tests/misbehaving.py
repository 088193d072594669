"""Environments that do what they must not, each in its own way, from a chosen step on."""

from __future__ import annotations

import threading
import time
from typing import Any

import gymnasium as gym
import numpy as np


class Clock:
    """Stands in for the module ``time`` where environments are watched; it goes only when ``advance`` is called."""

    def __init__(self) -> None:
        self.now, self.looked = 0.0, threading.Condition()

    def monotonic(self) -> float:
        with self.looked:
            self.looked.notify_all()
            return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds

    def be_seen(self) -> None:
        """Return when somebody else has looked at the clock twice, so at least once from now on."""
        for _ in range(2):
            with self.looked:
                assert self.looked.wait(PATIENCE), "nobody looks at the clock"


PATIENCE = 120.0  # seconds of the real clock after which a test gives up


def lose_an_hour() -> None:
    """Nothing, unless the fixture ``clock`` has put its own in this place."""


class Walk(gym.Env):
    """A walk on a line, five steps long; ``fault`` happens at step ``at`` of every episode."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, fault: str = "", at: int = 2) -> None:
        self.fault, self.at = fault, at
        self.observation_space = gym.spaces.Box(-10, 10, (2,))
        if fault == "making raises":
            raise OSError("no licence")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps, self.place = 0, self.np_random.normal(size=2).astype(np.float32)
        if self.fault == "reset raises":
            raise OSError("no reset today")
        return (None if self.fault == "no observation" else self.place), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.place = self.place + np.float32(action - 0.5)
        reward: Any = 0.5 * action
        if self.steps >= self.at:
            if self.fault == "raises":
                raise KeyError("the wheel came off")
            if self.fault == "hangs":
                lose_an_hour()
                time.sleep(3600)
            if self.fault == "spins":
                lose_an_hour()
                while True:
                    pass
            if self.fault == "nan reward":
                reward = np.nan
            if self.fault == "no reward":
                reward = None
            if self.fault == "nan observation":
                self.place = self.place * np.nan
            if self.fault == "another shape":
                return np.zeros(3, np.float32), reward, False, False, {}
            if self.fault == "three outcomes":
                return self.place, reward, False  # type: ignore[return-value]
        return self.place, reward, self.steps == 5, False, {}


FAULTS = {
    "raises": r"step raised KeyError\('the wheel came off'\)",
    "reset raises": r"reset raised OSError\('no reset today'\)",
    "hangs": r"step has not returned for 0.3 seconds, its time limit: does it hang\?",
    "spins": r"step has not returned for 0.3 seconds, its time limit",
    "nan reward": "step returned the reward nan, must be a finite number",
    "no reward": "step returned the reward None, must be a finite number",
    "nan observation": r"step returned the observation array\(\[nan, nan\], .*, must be of its space Box",
    "another shape": r"step returned the observation array\(\[0., 0., 0.\], .*, must be of its space Box",
    "no observation": "reset returned the observation None, must be of its space Box",
    "three outcomes": r"step raised ValueError\(.*not enough values",
}
gym.register("misbehaving/Walk-v0", Walk, max_episode_steps=50)
