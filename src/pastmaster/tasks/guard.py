"""Environments are other people's code: their calls are timed, and what they return is checked.

An environment that raises, hangs, or returns what is no observation or reward ends in a ``TaskError`` that names it.
Episodes run on a thread of their own (``watched``) while the caller watches the clock. Where one call takes longer
than its limit, the caller goes on and leaves the thread behind: it ends as soon as it runs Python code again, and as a
daemon it keeps no program alive.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np

from pastmaster.checks import is_finite
from pastmaster.errors import PastmasterError, TaskError
from pastmaster.tables import shown

Result = TypeVar("Result")
BETWEEN_LOOKS = 0.2  # seconds


class Watch:
    """Times the calls of an environment called ``name``; one may take ``limit`` seconds, or any time if None."""

    def __init__(self, name: str, limit: float | None) -> None:
        self.name = name
        self.limit = limit
        self.call = ""
        self.begun = 0.0
        self.left_behind = False

    def __call__(self, call: str, function: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
        """What the environment's ``function`` returns; anything it raises becomes a ``TaskError``."""
        if self.left_behind:
            raise SystemExit  # of this thread alone
        self.begun = time.monotonic()
        self.call = call
        try:
            return function(*arguments, **named)
        except PastmasterError:
            raise
        except (Exception, SystemExit) as error:
            raise TaskError(f"{self.name}: {call} raised {shown(error)}") from error
        finally:
            self.call = ""

    @property
    def overdue(self) -> str:
        """The call that takes too long, or an empty text."""
        call = self.call
        begun = self.begun
        return call if call and self.limit is not None and time.monotonic() - begun > self.limit else ""


def watched(function: Callable[[], Result], watch: Watch) -> Result:
    """What ``function`` returns, run on a thread; ``TaskError`` if a call under ``watch`` takes longer than it may."""
    if watch.limit is None:
        return function()
    outcome: list[Any] = []
    done = threading.Event()

    def run() -> None:
        try:
            outcome.extend((function(), None))
        except BaseException as error:  # handed to the caller, whatever it is
            outcome.extend((None, error))
        finally:
            done.set()

    thread = threading.Thread(target=run, name=f"pastmaster {watch.name}", daemon=True)
    thread.start()
    try:
        while not done.wait(min(BETWEEN_LOOKS, watch.limit / 4)):
            if call := watch.overdue:
                raise TaskError(
                    f"{watch.name}: {call} has not returned for {watch.limit:g} seconds, its time limit: "
                    "does it hang? Pass a longer time_limit if it is only slow"
                )
    finally:
        if not done.is_set():
            watch.left_behind = True
            _end(thread)
    result, error = outcome
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


def _end(thread: threading.Thread) -> None:
    """Have a thread end at the next line of Python it runs."""
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))


class Guarded(gym.Wrapper[Any, Any, Any, Any]):
    """An environment whose calls are timed, and whose observations and rewards are checked."""

    def __init__(self, env: gym.Env[Any, Any], watch: Watch) -> None:
        super().__init__(env)
        self.watch = watch
        self._fits = observation_check(env.observation_space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.watch("reset", self._reset, seed, options)
        self._look("reset", observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, given, terminated, truncated, info = self.watch("step", self._step, action)
        reward = finite_reward(given, self.watch)
        self._look("step", observation)
        return observation, reward, bool(terminated), bool(truncated), info

    def close(self) -> None:
        self.watch("close", self.env.close)

    def _reset(self, seed: int | None, options: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, info

    def _step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, info

    def _look(self, call: str, observation: Any) -> None:
        if not self._fits(observation):
            raise TaskError(
                f"{self.watch.name}: {call} returned the observation {shown(observation)}, "
                f"must be of its space {self.env.observation_space}"
            )


def finite_reward(reward: Any, watch: Watch) -> float:
    """A reward as a number, or ``TaskError``."""
    if not is_finite(reward):
        raise TaskError(f"{watch.name}: step returned the reward {shown(reward)}, must be a finite number")
    return float(reward)


def observation_check(space: gym.Space[Any]) -> Callable[[Any], bool]:
    """A function that tells whether an observation is of a space; of a Box not its limits, which are often broken."""
    if isinstance(space, gym.spaces.Box):
        shape = space.shape
        whole = space.dtype.kind in "iub"

        def fits(observation: Any) -> bool:
            array = np.asarray(observation)
            return array.shape == shape and array.dtype.kind in "fiub" and (whole or bool(np.isfinite(array).all()))

        return fits
    return lambda observation: bool(space.contains(observation))
