"""All experiments, in the paper's order."""

from __future__ import annotations

from pastmaster.experiments import (
    algorithm_comparison,
    clustering_comparison,
    clustering_gains,
    coloured_grid,
    complex_domain,
    corrections,
    reward_summary,
    time_comparison,
    useless_sources,
    windy_clusters,
    windy_incremental,
    worst_case_cost,
)
from pastmaster.experiments.unit import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        coloured_grid,
        windy_clusters,
        windy_incremental,
        algorithm_comparison,
        clustering_gains,
        reward_summary,
        clustering_comparison,
        worst_case_cost,
        useless_sources,
        complex_domain,
        time_comparison,
        corrections,
    )
}
