"""What tests use of the library beside its public names: all of it stands here, so that a change inside is one line.

A test file that needs an internal of another room, or one that several files need, takes it from here. A kernel beside
its plain reference, or the one test of one module, may import that module.
"""

# --- foundations ---


# --- policies and tasks ---


# --- tables and clusters ---


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
