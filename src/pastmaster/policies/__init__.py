"""Policies: tables, plain functions and networks behind one method, ``act``, for a batch of observations at once."""

from pastmaster.policies.batch import stacked
from pastmaster.policies.convert import as_policy
from pastmaster.policies.network import NetworkPolicy
from pastmaster.policies.normalisation import normalisation_of
from pastmaster.policies.policy import FunctionPolicy, Policy, TablePolicy
from pastmaster.policies.sb3_live import PredictPolicy, from_sb3
from pastmaster.policies.sb3_load import load_sb3
from pastmaster.policies.stack import NetworkStack

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
