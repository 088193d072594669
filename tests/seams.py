"""What tests use of the library beside its public names: all of it stands here, so that a change inside is one line.

A test file that needs an internal of another room, or one that several files need, takes it from here. A kernel beside
its plain reference, or the one test of one module, may import that module.
"""

# --- foundations ---


# --- policies and tasks ---


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
from pastmaster.report.payload import payload as payload
from pastmaster.report.render import nice_ticks as nice_ticks
from pastmaster.report.repository import run_curves as run_curves, run_shares as run_shares
from pastmaster.repository import rows as rows
from pastmaster.solving.policy_iteration import NEAR_ONE as NEAR_ONE
from pastmaster.tasks.identity import task_data as task_data
from pastmaster.values import cross as cross, distance as distance
from pastmaster.values.bounds import checked_bounds as checked_bounds

# --- estimation and reuse ---


# --- repository ---


# --- service ---
