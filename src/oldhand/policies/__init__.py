"""Policies: tables, plain functions and networks behind one method, ``act``, for a batch of observations at once."""

from oldhand.policies.convert import as_policy
from oldhand.policies.network import NetworkPolicy
from oldhand.policies.normalisation import normalisation_of
from oldhand.policies.policy import FunctionPolicy, Policy, TablePolicy
from oldhand.policies.sb3_live import PredictPolicy, from_sb3
from oldhand.policies.sb3_load import load_sb3
from oldhand.policies.stack import NetworkStack, stacked

__all__ = [
    "FunctionPolicy",
    "NetworkPolicy",
    "NetworkStack",
    "Policy",
    "PredictPolicy",
    "TablePolicy",
    "as_policy",
    "from_sb3",
    "load_sb3",
    "normalisation_of",
    "stacked",
]
