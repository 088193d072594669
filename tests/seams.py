"""What tests use of the library beside its public names: all of it stands here, so that a change inside is one line.

A test file that needs an internal of another room, or one that several files need, takes it from here. A kernel beside
its plain reference, or the one test of one module, may import that module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# --- foundations ---
from pastmaster.figures import label as label
from pastmaster.shield import Shield as Shield
from pastmaster.tables import html_table as html_table, one_line as one_line
from pastmaster.texts import printable as printable


# --- policies and tasks ---


def first_run_here(outputs: Sequence[str], zeros: Mapping[str, Any], content: bytes, place: str) -> dict[str, Any]:
    """What the process that first runs an ONNX file answers, without the process and its limits."""
    from pastmaster.policies import onnx_trial

    return onnx_trial.answer({"outputs": outputs, "inputs": zeros}, content)


# --- tables and clusters ---

from pastmaster.report.payload import payload as payload
from pastmaster.report.render import nice_ticks as nice_ticks
from pastmaster.report.repository import run_curves as run_curves, run_shares as run_shares

# --- estimation and reuse ---


# --- repository ---

from pastmaster.repository import (
    addition as addition,
    admission as admission,
    archive as archive,
    asked as asked,
    auditing as auditing,
    backup as backup,
    clusterings as clusterings,
    database as database,
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
from pastmaster.service.schema import OPEN, TOLD, metadata as service_tables
from pastmaster.service.state import Describe

__all__ = [
    "OPEN", "TOLD", "Ask", "Cancel", "Describe", "Engine", "Expire", "Look", "Refused", "Tell", "service_operations",
    "service_store", "service_tables",
]  # fmt: skip
