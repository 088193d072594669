"""The lifelong agent: the cost of adding a task, of opening a large repository, and what a stream of tasks earns."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Row, machine, show, write, write_table
from pastmaster import (
    RECOMMENDED,
    ContinualRun,
    ContinualTransfer,
    QLearning,
    Repository,
    TabularMDP,
    cross_values,
    plot_streams,
)
from pastmaster.domains import surveillance
from pastmaster.repository import rows
from pastmaster.repository.records import policy_row, task_row
from pastmaster.repository.worth import Worth, vector_arrays

SIZES = (250, 500, 1000, 2000)
STREAM, EPISODES, EVERY, SEEDS = 200, 1000, 20, 3
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "lifelong.png"


def run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write("repository", machine("sqlalchemy"), [*adding(Path(folder)), *opening(Path(folder))])
        stream(Path(folder))


def adding(folder: Path) -> list[Row]:
    """The median time of 20 adds at each size, in a process that has the others in memory, and in one that has not."""
    tasks = surveillance.family(SIZES[-1], 2, rng=np.random.default_rng(0), n_sequences=200)
    place = folder / "adding.db"
    lines, medians, whole = [], {}, 0.0
    with Repository(place) as repository:
        times = []
        for n, task in enumerate(tasks, start=1):
            begun = time.perf_counter()
            repository.add(task)
            times.append(time.perf_counter() - begun)
            if n == 1000:
                whole = _seconds(lambda: cross_values(tasks[:1000], repository.policies()))
            if n in SIZES:
                medians[n] = float(np.median(times[-20:]))
    for n, median in medians.items():
        met = median < 0.5 if n == 1000 else None
        goal = "< 0.5 s" if n == 1000 else ""
        peer = f"{show(whole)} (all of U again)" if n == 1000 else ""
        ratio = f"{whole / median:.0f}x" if n == 1000 else ""
        lines.append(Row(f"add a task to {n:,}, two-target surveillance", show(median), peer, ratio, goal, met))
    growth = medians[2000] / medians[1000]
    lines.append(Row("growth from 1,000 to 2,000", f"{growth:.2f}x", "", "", "<= 2.2x (linear)", growth <= 2.2))
    drawn = {tuple(task.params["sequence"]) for task in tasks}
    new = next([i, j] for i in range(64) for j in range(64) if i // 4 != j // 4 and (i, j) not in drawn)
    cold = _cold(place, f"r.add(surveillance.task({new}))")
    lines.append(Row("the first add of a process, which reads all 2,000 tasks", show(cold), "", "", "", None))
    return lines


def opening(folder: Path) -> list[Row]:
    """Opening 10,000 tasks, in a process that has only imported the library."""
    place = folder / "large.db"
    _fill(place, 10_000)
    size = place.stat().st_size / 1e6
    opened = _cold(place, "", timed="opening")
    counted = _cold(place, "len(r)")
    listed = _cold(place, "r.records()")
    one = _cold(place, "r.tasks()[5000]")
    return [
        Row(f"open a repository of 10,000 tasks ({size:,.0f} MB)", show(opened), "", "", "< 1 s", opened < 1),
        Row("then count them", show(counted), "", "", "", None),
        Row("then read what is known of each", show(listed), "", "", "", None),
        Row("then read one", show(one), "", "", "", None),
    ]


def _fill(place: Path, count: int) -> None:
    """A repository of many tasks of 64 states, written without valuing them: vectors as long as they would be."""
    rng = np.random.default_rng(0)

    def write_all(connection: Any) -> None:
        for n in range(1, count + 1):
            task = TabularMDP(
                rng.integers(64, size=(64, 4)), rng.random((64, 4)), gamma=0.9, horizon=50, name=f"task {n}"
            )
            policy, policy_arrays, _ = policy_row("benchmark", rng.integers(4, size=64), task, "imported")
            row, arrays = task_row(task)
            row["settings"]["evaluation_episodes"] = None
            known = {number: Worth(0.0, 0.0) for number in range(1, n + 1)}
            column = vector_arrays("column", {number: known[number] for number in range(1, n)})
            own = rows.insert(connection, "policies", policy, policy_arrays | column)
            record = {"own_policy": own, "policy_of_record": own, "value": 0.0, "value_error": 0.0}
            rows.insert(
                connection, "tasks", row | record | {"lower": 0.0, "upper": 10.0}, arrays | vector_arrays("row", known)
            )

    with Repository(place) as repository:
        repository.database.write(write_all)


def _cold(place: Path, statement: str, timed: str = "statement") -> float:
    """The seconds of a statement, or of opening, in a process of its own."""
    script = (
        "import sys, time\nfrom pastmaster import Repository\nfrom pastmaster.domains import surveillance\n"
        f"t = time.perf_counter(); r = Repository(sys.argv[1]); opening = time.perf_counter() - t\n"
        f"t = time.perf_counter(); {statement or 'pass'}; statement = time.perf_counter() - t\nprint({timed})"
    )
    done = subprocess.run([sys.executable, "-c", script, str(place)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def _seconds(call: Any) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


PAPER: dict[str, Any] = {"selector": "exp3-transfer", "learner": QLearning()}
AGENTS: dict[str, dict[str, Any]] = {
    "ours: kept policies, what is known of old tasks": {},
    "ours, all policies": {"sources": "all"},
    "ours, no model": {"model": False, "bounds": (-10.0, 90.0), "evaluation_episodes": 2},
    "regret balancing, clusters, nothing known": RECOMMENDED,
    "EXP-3-Transfer, clusters (the paper)": PAPER,
    "EXP-3-Transfer, all policies": PAPER | {"sources": "all"},
    "Q-learning alone": PAPER | {"sources": "none"},
}


def stream(folder: Path) -> None:
    """200 two-target tasks of 16 group sequences in random order, met by each agent."""
    totals: dict[str, list[float]] = {name: [] for name in AGENTS}
    times: dict[str, list[float]] = {name: [] for name in AGENTS}
    first: dict[str, ContinualRun] = {}
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        drawn = surveillance.family(STREAM, 2, rng=rng, n_sequences=16)
        tasks = [drawn[i] for i in rng.permutation(STREAM)]
        for k, (name, options) in enumerate(AGENTS.items()):
            begun = time.perf_counter()
            with Repository(folder / f"stream-{seed}-{k}.db") as repository:
                agent = ContinualTransfer(
                    repository, episodes=EPISODES, recluster_every=EVERY, rng=rng, n_jobs=2, **options
                )
                done = agent.run(tasks)
            times[name].append(time.perf_counter() - begun)
            totals[name].append(done.total)
            if seed == 0:
                first[name] = done
    lines = []
    for name, own in totals.items():
        tail = first[name].mean_returns[STREAM // 2 :].mean()
        evaluating = int(first[name].evaluation_episodes.sum())
        sums = ", ".join(f"{total / 1000:,.0f}" for total in own)
        lines.append(f"| {name} | {sums} | {tail:.2f} | {evaluating:,} | {max(times[name]):.1f} s |")
    intro = (
        f"{STREAM} tasks x {EPISODES:,} episodes, clustered every {EVERY}, seeds 0 to {SEEDS - 1}; "
        f"an optimal policy earns {np.mean(first['Q-learning alone'].values):.2f} an episode on average. {machine()}"
    )
    head = "agent | all returns, thousands | mean return, later half, seed 0 | episodes to value policies | longest run"
    write_table("stream", intro, head, lines)
    plot_streams(first).savefig(PICTURE, dpi=110)
