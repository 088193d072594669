"""Many solvers, many instances: which few solvers would do, if each instance went to the right one of them?

A portfolio of k solvers is compared with the best single solver and with the virtual best, which has all of them and
always picks the right one. The table is a scenario of ASlib, the algorithm selection library, from your own copy of it;
without one it is a small scenario of the same form that is made up here.

    python examples/which_solvers.py [SCENARIO] [--quick] [--out FOLDER]

SCENARIO is a folder with algorithm_runs.arff and description.txt, such as aslib_data/SAT11-HAND. A few seconds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from textwrap import shorten

import numpy as np
from matplotlib.figure import Figure

import pastmaster

CUTOFF = 1000.0  # seconds after which a made-up solver is stopped
HEADER = """@RELATION algorithm_runs
@ATTRIBUTE instance_id STRING
@ATTRIBUTE repetition NUMERIC
@ATTRIBUTE algorithm STRING
@ATTRIBUTE runtime NUMERIC
@ATTRIBUTE runstatus {ok, timeout, memout, not_applicable, crash, other}
@DATA
"""


def make_up(folder: Path, n_instances: int, n_solvers: int, rng: np.random.Generator) -> Path:
    """A scenario in which instances are of a few kinds, and each solver is good at some of them."""
    n_kinds = 8
    kinds, difficulty = rng.integers(n_kinds, size=n_instances), rng.normal(6.0, 1.5, size=n_instances)
    skill = 3.0 * (rng.random((n_solvers, n_kinds)) < 0.3) + rng.normal(0.0, 0.5, size=(n_solvers, n_kinds))
    seconds = np.exp(difficulty[:, None] - skill[:, kinds].T + rng.normal(0.0, 0.7, size=(n_instances, n_solvers)))
    rows = [
        f"kind{kinds[i]}-{i:03},1,solver-{chr(65 + j)},{min(CUTOFF, time):.2f},{'ok' if time < CUTOFF else 'timeout'}"
        for i, row in enumerate(seconds)
        for j, time in enumerate(row)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "algorithm_runs.arff").write_text(HEADER + "\n".join(rows) + "\n")
    (folder / "description.txt").write_text(
        "scenario_id: made-up\nperformance_measures: runtime\nmaximize: false\nperformance_type: runtime\n"
        f"algorithm_cutoff_time: {CUTOFF:g}\n"
    )
    return folder


def draw_curve(axes, k: np.ndarray, means: np.ndarray, bounds: np.ndarray, best: float, elbow: int) -> None:
    """The mean PAR10 score of the best portfolio of each size, between the best single solver and the virtual best."""
    axes.plot(k, means, "o-", color="#0072b2", label="best portfolio of k solvers")
    axes.plot(k, bounds, "_", color="black", markersize=14, label="proven: no portfolio of k is below")
    axes.axhline(means[0], color="#d55e00", linestyle="--", label=f"best single solver: {means[0]:,.0f} s")
    axes.axhline(best, color="#009e73", linestyle="-.", label=f"virtual best: {best:,.0f} s")
    axes.axvline(elbow, color="0.6", linestyle=":", label=f"elbow: {elbow}")
    axes.set(xlabel="solvers kept (k)", ylabel="mean PAR10 score, seconds", ylim=(0, 1.1 * means[0]), xticks=k)
    axes.set_title("What a portfolio costs")
    axes.legend(fontsize="small")


def draw_solved(axes, ways: dict[str, np.ndarray], n_instances: int) -> None:
    """How many instances are solved within how many seconds."""
    for (label, seconds), colour, dash in zip(
        ways.items(), ("#d55e00", "#0072b2", "#009e73"), ("--", "-", "-."), strict=True
    ):
        times = np.sort(seconds[np.isfinite(seconds)])
        axes.step(times, np.arange(1, len(times) + 1), where="post", color=colour, linestyle=dash, label=label)
    axes.axhline(n_instances, color="0.6", linestyle=":", label="all instances")
    axes.set(xscale="log", xlabel="seconds for an instance", ylabel="instances solved", ylim=(0, 1.05 * n_instances))
    axes.set_title("What is solved in time")
    axes.legend(fontsize="small", loc="lower right")


def main() -> None:
    """From the files of a scenario to a portfolio."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("scenario", type=Path, nargs="?", help="folder of an ASlib scenario  [default: a made-up one]")
    options.add_argument("--quick", action="store_true", help="a smaller made-up scenario")
    options.add_argument("--out", type=Path, default=Path("which-solvers"), help="folder for the picture")
    chosen = options.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    size = (40, 6) if chosen.quick else (150, 12)
    folder = chosen.scenario or make_up(chosen.out / "made-up", *size, np.random.default_rng(0))

    # From the files to the answer: what each size of portfolio loses, and where more solvers save little
    try:
        scores = pastmaster.read_aslib(folder)
        curve = pastmaster.keep_curve(scores, rng=0)
        solved = scores.values == pastmaster.read_aslib(folder, penalty=1.0).values  # others are penalised
    except pastmaster.InvalidInputError as error:
        raise SystemExit(str(error)) from None
    if not scores.lower_is_better:
        raise SystemExit(f"{folder} measures no run times, must be a scenario of these")
    if curve.k[0] > 1:
        raise SystemExit(f"{folder} has no solver that was run on every instance, must have one to compare with")
    seconds = np.where(solved, scores.values, np.inf)

    best = float(np.nanmin(scores.values, axis=1).mean())  # the virtual best solver's
    means, bounds = best + curve.mean_loss, best + curve.lower_bound
    n_instances, n_solvers = scores.values.shape
    print(f"{n_instances} instances, {n_solvers} solvers; virtual best: {best:,.1f} s (mean PAR10)\n")
    print(f"{'k':>3}{'mean PAR10':>12}{'at least':>12}{'solved':>8}{'gap closed':>12}  solvers")
    for answer, mean, bound in zip(curve.answers, means, bounds, strict=True):
        count = int(solved[:, answer.columns].any(axis=1).sum())
        closed = 100 * (means[0] - mean) / (means[0] - best) if means[0] > best else 100.0
        names = shorten(", ".join(answer.policies), 80, placeholder=" ...")
        print(f"{answer.n_clusters:3}{mean:12,.1f}{bound:12,.1f}{count:8}{closed:11.1f}%  {names}")
    portfolio = curve.answers[list(curve.k).index(curve.elbow)]
    print(f"\n{curve.elbow} solvers would do: {', '.join(portfolio.policies)}")

    figure = Figure(figsize=(13, 5), layout="constrained")
    left, right = figure.subplots(ncols=2)
    figure.suptitle(f"{folder.name}: {n_instances} instances, {n_solvers} solvers")
    draw_curve(left, curve.k, means, bounds, best, curve.elbow)
    ways = {
        f"best single solver: {curve.answers[0].policies[0]}": seconds[:, curve.answers[0].columns].min(axis=1),
        f"best portfolio of {curve.elbow}": seconds[:, portfolio.columns].min(axis=1),
        "virtual best": seconds.min(axis=1),
    }
    draw_solved(right, ways, n_instances)
    figure.savefig(chosen.out / "which-solvers.png", dpi=110)
    print(f"\npicture: {chosen.out / 'which-solvers.png'}")


if __name__ == "__main__":
    main()
