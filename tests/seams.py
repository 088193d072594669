"""What tests use of the library beside its public names: all of it stands here, so that a change inside is one line.

A test file that needs an internal of another room, or one that several files need, takes it from here. A kernel beside
its plain reference, or the one test of one module, may import that module.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

# --- foundations ---
from pastmaster.figures import label as label
from pastmaster.shield import Shield as Shield
from pastmaster.tables import html_table as html_table, one_line as one_line
from pastmaster.texts import printable as printable


# --- policies and tasks ---


def try_onnx_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX files are first run in this process, without limits: hundreds of processes would take minutes."""
    from pastmaster.policies import onnx_run, onnx_trial

    def first_run(outputs: Sequence[str], zeros: Mapping[str, Any], content: bytes, place: str) -> dict[str, Any]:
        return onnx_trial.answer({"outputs": outputs, "inputs": zeros}, content)

    monkeypatch.setattr(onnx_run, "_first_run", first_run)


def run_no_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ONNX file that would be handed to onnxruntime, in this process or another, fails the test."""
    from pastmaster.policies import onnx_policy

    def never(*_: Any) -> None:
        raise AssertionError("the file reached onnxruntime")

    monkeypatch.setattr(onnx_policy, "Session", never)
    monkeypatch.setattr(onnx_policy, "tried_out", never)


def allow_onnx_operator(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """An operator of ONNX that is refused is allowed."""
    from pastmaster.policies import onnx_graph

    monkeypatch.setattr(onnx_graph, "OPERATORS", onnx_graph.OPERATORS | {name})


def limit_onnx(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """The first run of an ONNX file may take so long."""
    from pastmaster.policies import onnx_run

    monkeypatch.setattr(onnx_run, "LONGEST", seconds)


@contextmanager
def without_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if onnxruntime were not installed, and had not been loaded before."""
    from pastmaster.policies.onnx_trial import limited_runtime

    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "onnxruntime", None)
        limited_runtime.cache_clear()
        yield
    limited_runtime.cache_clear()


def task_digest(task: Any) -> str:
    """By what a repository knows a task."""
    from pastmaster.repository.records import task_row

    digest: str = task_row(task)[0]["digest"]
    return digest


# --- saved chunks ---

COMPUTING = {
    "cross values": [("pastmaster.values.cross", "solve"), ("pastmaster.values.cross", "_Cross.values")],
    "searches": [("pastmaster.clustering.restarts", "Search.restart")],
    "trials": [("pastmaster.reuse.new_task", "run_trial")],
}
"""The functions that compute what a chunk keeps."""


def forbid(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """What is computed from now on fails the test: all must be read from saved chunks."""

    def forbidden(*_: Any, **__: Any) -> None:
        raise AssertionError("this had been computed")

    for module, path in COMPUTING[what]:
        *classes, name = path.split(".")
        holder: Any = importlib.import_module(module)
        for inner in classes:
            holder = getattr(holder, inner)
        monkeypatch.setattr(holder, name, forbidden)


def doubt_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """No policy that ``cross_values`` finds is certified."""
    cross = importlib.import_module("pastmaster.values.cross")
    solve = cross.solve
    monkeypatch.setattr(cross, "solve", lambda task: replace(solve(task), converged=False))


def chunk_format() -> Any:
    """How a chunk is written and read: ``packed`` and ``unpacked``, and the sum in it, ``_sum``."""
    return importlib.import_module("pastmaster.parallel.saved")


# --- tables and clusters ---

from pastmaster.arrays import sealed as sealed
from pastmaster.cli.options import arm_settings as arm_settings
from pastmaster.cli.printing import Output as Output, waiting as waiting
from pastmaster.clustering import (
    _bound_kernels as _bound_kernels,
    _chain_kernels as _chain_kernels,
    _column_kernels as _column_kernels,
    bound as bound,
    columns as columns,
    losses as losses,
    programs as programs,
    restarts as restarts,
)
from pastmaster.clustering.cost import canonical_labels as canonical_labels, filled as filled
from pastmaster.clustering.different import different_cells as different_cells
from pastmaster.clustering.losses import losses_of as losses_of
from pastmaster.clustering.picture import classical_scaling as classical_scaling
from pastmaster.clustering.scores import read_scores as read_scores
from pastmaster.report.page import Trend as Trend
from pastmaster.report.payload import payload as payload
from pastmaster.report.render import drawn_trend as drawn_trend
from pastmaster.report.repository import run_curves as run_curves, run_shares as run_shares
from pastmaster.solving.policy_iteration import NEAR_ONE as NEAR_ONE
from pastmaster.tasks.identity import task_data as task_data
from pastmaster.values import cross as cross, distance as distance
from pastmaster.values.bounds import checked_bounds as checked_bounds

# --- estimation and reuse ---

from pastmaster.estimation.intervals import joint_distances as joint_distances
from pastmaster.estimation.jax_rollouts import Runs as Runs, is_program as is_program, play_runs as play_runs
from pastmaster.estimation.returns import Returns as Returns
from pastmaster.reuse import (
    _episode_kernels as episodes,  # noqa: F401
    _layout as layout,  # noqa: F401
    _selector_kernels as selecting,  # noqa: F401
    selector as selector_module,  # noqa: F401
)
from pastmaster.reuse.episodes import PlainEpisodes as PlainEpisodes, Trial as Trial
from pastmaster.reuse.informed import LIKENESS as LIKENESS
from pastmaster.reuse.problem import Problem as Problem, endless_states as endless_states
from pastmaster.reuse.protocols import adapted as adapted
from pastmaster.reuse.selector import Selector as Selector
from pastmaster.reuse.snapshots import Snapshots as Snapshots
from pastmaster.reuse.sources import source_arrays as source_arrays
from pastmaster.reuse.trial import wider as wider
from pastmaster.tasks.simulated import simulated as simulated


# --- repository ---

from pastmaster.repository import (
    addition as addition,
    admission as admission,
    archive as archive,
    asked as asked,
    auditing as auditing,
    backup as backup,
    clusterings as clusterings,
    known as known,
    location as location,
    memory as memory,
    postgres as postgres,
    records as records,
    rows as rows,
    schema as schema,
    spot_check as spot_check,
    worth as worth,
)
from pastmaster.repository.arrays import Packed as Packed, pack as pack, unpack as unpack
from pastmaster.repository.database import Database as Database
from pastmaster.repository.memory import evaluation_seed as evaluation_seed
from pastmaster.repository.records import task_row as task_row
from pastmaster.repository.schema import RECORDS as RECORDS, arrays as arrays, metadata as metadata, runs as runs
from pastmaster.repository.stack import Stack as Stack
from pastmaster.repository.streams import stored_runs as stored_runs
from pastmaster.repository.worth import (
    Valued as Valued,
    Vector as Vector,
    read_known as read_known,
    read_matrix as read_matrix,
)


# --- service ---

from pastmaster.service import operations as service_operations, store as service_store
from pastmaster.service.engine import Engine
from pastmaster.service.operations import Ask, Cancel, Expire, Look, Refused, Tell
from pastmaster.service.schema import OPEN, SERVICE, TOLD, metadata as service_tables, opened as service_opened
from pastmaster.service.state import Describe

__all__ = [
    "OPEN", "SERVICE", "TOLD", "Ask", "Cancel", "Describe", "Engine", "Expire", "Look", "Refused", "Tell",
    "service_opened", "service_operations", "service_store", "service_tables",
]  # fmt: skip
