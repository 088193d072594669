"""Policies named on the command line: tables in .npy files, Stable-Baselines3's .zip files, and ONNX files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pastmaster.cli.options import grouped
from pastmaster.cli.tasks import POLICY_FILES
from pastmaster.errors import InvalidInputError
from pastmaster.tables import counted

if TYPE_CHECKING:
    import gymnasium as gym

    from pastmaster.tasks import GymTask, TabularMDP


class TakesPolicies(click.Command):
    """A command whose ``--policy`` takes all policy files that follow it: ``--policy drawer/*.zip``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        spread: list[str] = []
        for i, word in enumerate(args):
            follows = i > 1 and Path(word).suffix in POLICY_FILES and spread[-2] == "--policy"
            spread += ["--policy", word] if follows and args[i - 1] != "--policy" else [word]
        return super().parse_args(ctx, spread)


class NamedPolicy(NamedTuple):
    """A task, its policy (None: to be solved), the file of that, and what it is to be called."""

    task: TabularMDP | GymTask
    policy: Any
    source: Path | None
    name: str | None


@dataclass(frozen=True)
class NamedPolicies:
    """The options that name policies and say how to read them."""

    policies: tuple[Path, ...]
    names: tuple[str, ...]
    no_normalise: bool
    normalise: tuple[Path, ...]
    trust: bool

    def read(self, tasks: Sequence[TabularMDP | GymTask]) -> list[NamedPolicy]:
        """Each task with its policy, the policy's file and its name; one task may have several policies."""
        if not self.policies:
            return [
                NamedPolicy(task, None, None, name) for task, name in zip(tasks, self._names(len(tasks)), strict=True)
            ]
        if len(tasks) not in (1, len(self.policies)):
            raise InvalidInputError(
                f"--policy names {len(self.policies)} files for {len(tasks)} tasks, must be one to each task, in order"
            )
        spread = [tasks[0]] * len(self.policies) if len(tasks) == 1 else tasks
        statistics = self._statistics()
        return [
            NamedPolicy(task, self._policy(path, task, normalise), path, name)
            for task, path, normalise, name in zip(
                spread, self.policies, statistics, self._names(len(spread)), strict=True
            )
        ]

    def _names(self, n_policies: int) -> Sequence[str | None]:
        """What the policies are called: a name to each, or none at all."""
        if len(self.names) not in (0, n_policies):
            given, policies = len(self.names), counted(n_policies, "policy")
            raise InvalidInputError(f"--name is given {given} times for {policies}, must be once to each, in order")
        return self.names or [None] * n_policies

    def _statistics(self) -> list[Any]:
        """How the observations of each policy are normalised, as ``load_sb3`` takes it."""
        if self.no_normalise and self.normalise:
            raise InvalidInputError("--no-normalise and --normalise are both given, must be one of them")
        n_files = len(self.policies)
        if len(self.normalise) not in (0, 1, n_files):
            raise InvalidInputError(
                f"--normalise names {len(self.normalise)} files for {n_files} policies, must be one, or one to each"
            )
        if len(self.normalise) > 1:
            return list(self.normalise)
        return [self.normalise[0] if self.normalise else False if self.no_normalise else None] * n_files

    def _policy(self, path: Path, task: TabularMDP | GymTask, normalise: Any) -> Any:
        """A policy that fits the task."""
        from pastmaster.estimation.means import fitting_policy
        from pastmaster.files import checked_file
        from pastmaster.npy import read_npy
        from pastmaster.policies import load_onnx, load_sb3

        read: Any
        if path.suffix == ".zip":
            read = load_sb3(path, normalise=normalise, trust=self.trust, action_space=self._action_space(task))
        elif path.suffix == ".onnx":
            read = load_onnx(path, task, normalise=normalise)
        else:
            table = "actions [S] or probabilities [S, A]"
            read = read_npy(
                checked_file("--policy", path, f"a model's .zip or .onnx file, or an .npy file of {table}"), table
            )
        return fitting_policy(read, task, f"--policy {path.name}")

    def _action_space(self, task: TabularMDP | GymTask) -> gym.Space[Any] | None:
        """The task's actions, where a file may tell their limits in part only: those with a decimal point."""
        import gymnasium as gym

        from pastmaster.tasks import GymTask

        if self.trust or not isinstance(task, GymTask) or not isinstance(task.action_space, gym.spaces.Box):
            return None
        low, high = task.action_space.low, task.action_space.high
        return None if (low % 1 == 0).all() and (high % 1 == 0).all() else task.action_space


OPTIONS = (
    click.option(
        "--policy", "policies", multiple=True, type=click.Path(path_type=Path), metavar="FILE...",
        help="Policies, one to each task: .npy, .onnx, or Stable-Baselines3's .zip. Without any, tasks are solved.",
    ),
    click.option(
        "--name", "names", multiple=True, metavar="NAME",
        help="What a policy is called, once to each.  [default: as its file, or its task]",
    ),
    click.option("--no-normalise", is_flag=True, help="Observations were not normalised (DQN, SAC, TD3, DDPG)."),
    click.option(
        "--normalise", multiple=True, type=click.Path(path_type=Path), metavar="FILE",
        help="How they were normalised: an .npz of mean and var, or with --trust VecNormalize's .pkl.",
    ),
    click.option("--trust", is_flag=True, help="Let Stable-Baselines3 load the files, which runs code in them."),
)  # fmt: skip


policy_options = grouped(NamedPolicies, "given", OPTIONS)
"""Options that name policies; the command is called with ``given``."""
