"""pastmaster: lifelong policy reuse in reinforcement learning, with guarantees.

Public names are loaded when they are first used, so that importing the package is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pastmaster import environments as environments

if TYPE_CHECKING:
    from pastmaster import domains as domains, testing as testing
    from pastmaster.clustering import (
        Chain as Chain,
        Clustering as Clustering,
        KeepCurve as KeepCurve,
        LowerBound as LowerBound,
        Scores as Scores,
        clustering_cost as clustering_cost,
        cost_lower_bound as cost_lower_bound,
        exhaustive_clustering as exhaustive_clustering,
        greedy_clustering as greedy_clustering,
        keep_curve as keep_curve,
        mhav as mhav,
        read_aslib as read_aslib,
        regret_bound as regret_bound,
        search_clusterings as search_clusterings,
    )
    from pastmaster.continual import (
        ContinualRun as ContinualRun,
        ContinualTransfer as ContinualTransfer,
        plot_streams as plot_streams,
    )
    from pastmaster.errors import (
        ContractError as ContractError,
        DamagedError as DamagedError,
        InvalidInputError as InvalidInputError,
        PastmasterError as PastmasterError,
        RepositoryError as RepositoryError,
        ServiceError as ServiceError,
        TaskError as TaskError,
    )
    from pastmaster.estimation import (
        CrossValueEstimate as CrossValueEstimate,
        estimate_cross_values as estimate_cross_values,
    )
    from pastmaster.keeping import keep as keep
    from pastmaster.policies import load_onnx as load_onnx, load_sb3 as load_sb3
    from pastmaster.repository import Repository as Repository
    from pastmaster.reuse import (
        RECOMMENDED as RECOMMENDED,
        Episode as Episode,
        Exp3Transfer as Exp3Transfer,
        Experience as Experience,
        FixedPolicy as FixedPolicy,
        Informed as Informed,
        ProbabilisticPolicyReuse as ProbabilisticPolicyReuse,
        QLearning as QLearning,
        RegretBalancing as RegretBalancing,
        RegretGuarantee as RegretGuarantee,
        SB3Learning as SB3Learning,
        TransferRun as TransferRun,
        TsallisINF as TsallisINF,
        decay as decay,
        plot_curves as plot_curves,
        transfer as transfer,
    )
    from pastmaster.service import Client as Client
    from pastmaster.solving import Solution as Solution, solve as solve
    from pastmaster.tasks import (
        GymTask as GymTask,
        JaxTask as JaxTask,
        TabularEnv as TabularEnv,
        TabularMDP as TabularMDP,
    )
    from pastmaster.values import (
        Bounds as Bounds,
        cross_values as cross_values,
        evaluate as evaluate,
        policy_distance as policy_distance,
        return_bounds as return_bounds,
        return_spread as return_spread,
    )

__version__ = "0.1.0"

_PLACES = {
    "clustering": "Chain Clustering KeepCurve LowerBound Scores clustering_cost "
    "cost_lower_bound exhaustive_clustering greedy_clustering keep_curve mhav read_aslib regret_bound "
    "search_clusterings",
    "continual": "ContinualRun ContinualTransfer plot_streams",
    "errors": "ContractError DamagedError InvalidInputError PastmasterError RepositoryError ServiceError TaskError",
    "estimation": "CrossValueEstimate estimate_cross_values",
    "keeping": "keep",
    "policies": "load_onnx load_sb3",
    "repository": "Repository",
    "reuse": "RECOMMENDED Episode Exp3Transfer Experience FixedPolicy Informed ProbabilisticPolicyReuse QLearning "
    "RegretBalancing RegretGuarantee SB3Learning TransferRun TsallisINF decay plot_curves transfer",
    "service": "Client",
    "solving": "Solution solve",
    "tasks": "GymTask JaxTask TabularEnv TabularMDP",
    "values": "Bounds cross_values evaluate policy_distance return_bounds return_spread",
}
_MODULE = {name: module for module, names in _PLACES.items() for name in names.split()}
_SUBMODULES = ("domains", "errors", "policies", "testing")
_ROOMS = (*_PLACES, *_SUBMODULES, "client", "parallel", "report")

__all__ = sorted([*_MODULE, *_SUBMODULES])


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"pastmaster.{name}")
    if name not in _MODULE:
        raise AttributeError(f"module 'pastmaster' has no attribute {name!r}")
    globals()[name] = getattr(importlib.import_module(f"pastmaster.{_MODULE[name]}"), name)
    return globals()[name]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
