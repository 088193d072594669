"""What tests use of the library beside its public names: all of it stands here, so that a change inside is one line.

A test file that needs an internal of another room, or one that several files need, takes it from here. A kernel beside
its plain reference, or the one test of one module, may import that module.
"""

# --- foundations ---
from pastmaster.figures import label as label
from pastmaster.shield import Shield as Shield
from pastmaster.tables import html_table as html_table, one_line as one_line
from pastmaster.texts import printable as printable


# --- policies and tasks ---


# --- tables and clusters ---


# --- estimation and reuse ---


# --- repository ---


# --- service ---
