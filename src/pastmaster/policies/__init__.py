"""Policies: tables, plain functions and networks behind one method, ``act``, for a batch of observations at once."""

from pastmaster.policies.batch import stacked
from pastmaster.policies.convert import as_policy
from pastmaster.policies.network import NetworkPolicy
from pastmaster.policies.normalisation import normalisation_of
from pastmaster.policies.onnx_load import load_onnx
from pastmaster.policies.onnx_policy import OnnxPolicy
from pastmaster.policies.policy import FunctionPolicy, Policy, TablePolicy
from pastmaster.policies.sb3_live import PredictPolicy, from_sb3
from pastmaster.policies.sb3_load import load_sb3
from pastmaster.policies.stack import NetworkStack
from pastmaster.policies.torch_module import TorchPolicy

__all__ = [
    "FunctionPolicy",
    "NetworkPolicy",
    "NetworkStack",
    "OnnxPolicy",
    "Policy",
    "PredictPolicy",
    "TablePolicy",
    "TorchPolicy",
    "as_policy",
    "from_sb3",
    "load_onnx",
    "load_sb3",
    "normalisation_of",
    "stacked",
]
