"""Forty cart-poles: how many policies do they need, and what does a new one gain from those kept?

The family: CartPole with gravity from the Moon's to Jupiter's, poles from a pencil to a mast, and motors some of which
are wired the other way round. A policy is trained for each of 40 variants (PPO of Stable-Baselines3) and saved. Every
policy is tried on every variant, the few that stand for all are kept, and new variants are met with and without them.

    pip install stable-baselines3
    python examples/cart_poles.py [--quick] [--out FOLDER]

It takes 11 minutes of processor time, on two cores for the most part; what is trained is kept for the next time.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import pastmaster
from pastmaster.domains import cart_pole

KEPT, USELESS, ALONE = "DQN and the kept policies", "DQN and useless policies", "DQN alone"
WINDOW = 20  # episodes over which a learning curve is averaged
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3b08", "#5e3c99")


def train(task: pastmaster.GymTask, path: Path, steps: int) -> Path:
    """Train a policy by PPO until episodes last 450 steps, or for ``steps`` steps, and save it; or it is there."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    if not path.exists():
        torch.set_num_threads(1)
        env = make_vec_env(task.env_id, 64, seed=0, env_kwargs={**task.kwargs, "disable_env_checker": True})
        model = PPO(
            "MlpPolicy", env, policy_kwargs={"net_arch": [32, 32]}, n_steps=32, batch_size=1024, n_epochs=10,
            learning_rate=lambda left: 0.01 * left, gamma=0.99, gae_lambda=0.95, device="cpu", seed=0,
        )  # fmt: skip
        model.learn(steps, lambda seen, _: np.mean([e["l"] for e in seen["self"].ep_info_buffer] or [0]) < 450)
        model.save(path)
    return path


def trained(tasks: list[pastmaster.GymTask], folder: Path, steps: int) -> list:
    """A policy for each task, two trained at a time. Loading reads numbers only: no code in a file is ever run."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{task.name.removeprefix('cart-pole, ')}.zip" for task in tasks]
    with ProcessPoolExecutor(2, get_context("spawn")) as workers:
        return [pastmaster.load_sb3(path) for path in workers.map(train, tasks, paths, [steps] * len(tasks))]


def experience(estimate: pastmaster.CrossValueEstimate, kept: list[int]) -> pastmaster.Experience:
    """What is known of some policies: what they earned on every variant, and how sure that is."""
    errors, spread = estimate.standard_error[:, kept], estimate.spread[:, kept]
    return pastmaster.Experience(estimate.mean[:, kept], errors=errors, spread=spread, best=estimate.mean.max(axis=1))


def curves(returns: np.ndarray) -> np.ndarray:
    """For every trial and episode, the mean return of the WINDOW episodes that begin with it."""
    return np.array([np.convolve(row, np.full(WINDOW, 1 / WINDOW), "valid") for row in returns])


def first_at(returns: np.ndarray, wanted: float) -> np.ndarray:
    """In each trial, how many episodes went by before WINDOW in a row earned ``wanted`` on average; else all."""
    reached = curves(returns) >= wanted
    return np.where(reached.any(axis=1), reached.argmax(axis=1), returns.shape[1])


def draw(path: Path, tasks: list, cover: dict[int, list[int]], new: list, shares: dict[str, list]) -> None:
    """Left the variants, coloured by the policy that is kept for them; right the learning curves."""
    left, right = (figure := Figure(figsize=(13, 5.5), layout="constrained")).subplots(ncols=2)
    old, met = (np.array([[task.kwargs["length"], task.kwargs["force_mag"]] for task in some]) for some in (tasks, new))
    for i, (policy, members) in enumerate(cover.items()):
        look = {"color": COLOURS[i % 8], "marker": "os^Dv<>P"[i % 8]}
        left.scatter(*old[members].T, s=50, **look, label=f"policy {i + 1} stands for {len(members)} variants")
        left.scatter(*old[policy], s=260, alpha=0.35, **look)
    left.scatter(*met.T, s=170, color="black", marker="*", label="new variant")
    left.axhline(0, color="0.7", linewidth=1)
    left.set(xscale="log", xlabel="half the length of the pole (m)", ylabel="force of action 1 (N), below 0: reversed")
    left.set(xticks=[0.05, 0.1, 0.2, 0.5, 1, 2], xticklabels=["0.05", "0.1", "0.2", "0.5", "1", "2"], ylim=(-11, 11))
    left.set_title(f"{len(cover)} policies stand for {len(tasks)} variants (halo: trained on this one)")
    left.legend(loc="center left", fontsize="small")
    for (label, rows), colour, dash in zip(shares.items(), COLOURS, ("-", "--", "-."), strict=False):
        right.plot(curves(np.array(rows)).mean(axis=0), color=colour, linestyle=dash, linewidth=2, label=label)
    right.axhline(90, color="black", linewidth=1, linestyle=":", label="90%")
    right.set(xlabel="episode", ylabel=f"return of the next {WINDOW} episodes, % of its own policy's", ylim=(0, 110))
    right.set_title(f"{len(new)} new variants: mean of {len(rows)} trials")
    right.legend(loc="best", fontsize="small")
    figure.savefig(path, dpi=110)


def main() -> None:
    """The story, from the drawer of policies to new variants."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--quick", action="store_true", help="few variants, little training")
    options.add_argument("--out", type=Path, default=Path("cart-poles"), help="folder for policies and picture")
    chosen = options.parse_args()
    n, n_new, steps, episodes, trials = (8, 1, 6_000, 40, 1) if chosen.quick else (40, 3, 60_000, 200, 2)
    rng = np.random.default_rng(0)

    # A drawer full of policies
    tasks, new = cart_pole.family(n, rng=rng), cart_pole.family(n_new, rng=rng)
    policies = trained(tasks + new, chosen.out / f"policies-{steps}-steps", steps)
    policies, own = policies[:n], policies[n:]

    # Which are worth keeping? Try them on every variant, most often where that can change the answer.
    estimate = pastmaster.estimate_cross_values(
        tasks, policies, rng=rng, budget=10 * n * n, clustering={"episodes": episodes, "directed": True}
    )
    print(estimate)
    table = estimate.clustering.table()
    cover = {row.policy: [other.task for other in table if other.policy == row.policy] for row in table}
    print(f"\n{'kept: the policy trained on':54}{'stands for':>11}{'of lengths':>19}{'they earn':>10}{'at best':>9}")
    for policy, members in cover.items():
        lengths = sorted(tasks[i].kwargs["length"] for i in members)
        earned, best = estimate.mean[members, policy].mean(), estimate.mean[members].max(axis=1).mean()
        row = f"{tasks[policy].name:54}{len(members):>11}{lengths[0]:>10g} .. {lengths[-1]:<5g}"
        print(f"{row}{earned:>10.1f}{best:>9.1f}")

    # New variants: with the policies kept, with those for the other motor only, and with none
    learner = pastmaster.SB3Learning(  # the settings that RL Baselines3 Zoo has for CartPole
        "DQN", policy_kwargs={"net_arch": [256, 256]}, learning_rate=2.3e-3, learning_starts=1000, train_freq=256,
        batch_size=64, gradient_steps=128, target_update_interval=10, exploration_steps=8000, exploration_final_eps=0.04
    )  # fmt: skip
    settings = {"episodes": episodes, "learner": learner, "trials": trials, "n_jobs": trials}
    tried = pastmaster.estimate_cross_values(new, own, rng=rng, budget=50 * n_new**2, allocation="uniform")
    shares, firsts = {}, {}
    for i, task in enumerate(new):
        value, direction = tried.mean[i, i], np.sign(task.kwargs["force_mag"])
        useless = [p for p in cover if np.sign(tasks[p].kwargs["force_mag"]) != direction]
        print(f"\n{task.name}: its own policy earns {value:.1f} an episode")
        for way, kept in {KEPT: list(cover), USELESS: useless, ALONE: []}.items():
            sources, known = {tasks[p].name: policies[p] for p in kept}, experience(estimate, kept) if kept else None
            run = pastmaster.transfer(task, sources, experience=known, rng=np.random.default_rng([1, i]), **settings)
            first = first_at(run.returns, 0.9 * value)
            told = ", ".join(str(e) if e < episodes else f"not in {episodes}" for e in first)
            print(f"  {way} ({len(kept)}): mean return {run.returns.mean():.1f}, 90% after {told} episodes", flush=True)
            shares.setdefault(way, []).extend(100 * run.returns / value)
            firsts.setdefault(way, []).extend(first)
    needed, earned = ({way: f(rows[way]) for way in rows} for f, rows in ((np.median, firsts), (np.mean, shares)))
    for way, first in needed.items():
        when = f"after {first:.0f}" if first < episodes else f"not in {episodes}"
        print(f"all variants, {way}: 90% {when} episodes (median); {earned[way]:.1f}% earned on the whole")
    kept, alone = (np.median(np.reshape(firsts[way], (n_new, trials)), axis=1) for way in (KEPT, ALONE))
    ratios = [f"{a / b:.2f}{'' if b < episodes else ' or less'}" for a, b in zip(kept, alone, strict=True)]
    print(f"episodes with the kept ones, of those DQN alone needs, by variant: {', '.join(ratios)}")
    print(f"the useless ones cost {earned[ALONE] - earned[USELESS]:.1f} of these percent over {episodes} episodes")
    draw(chosen.out / "cart-poles.png", tasks, cover, new, shares)
    print(f"picture: {chosen.out / 'cart-poles.png'}")


if __name__ == "__main__":
    main()
