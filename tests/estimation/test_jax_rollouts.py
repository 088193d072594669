"""Episodes as one JAX program: the same as step by step, whatever runs beside them."""

from __future__ import annotations

import threading
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import pytest
from seams import Runs, is_program, play_runs

from pastmaster import GymTask, JaxTask, estimate_cross_values
from pastmaster.errors import InvalidInputError, TaskError
from pastmaster.estimation import EpisodeRange, episode_returns, estimate_values
from pastmaster.policies import FunctionPolicy, NetworkPolicy

jax = pytest.importorskip("jax")
jnp = jax.numpy

POLE = "pastmaster/JaxCartPole-v0"


def network(seed: int, sizes=(4, 8, 2), **settings) -> NetworkPolicy:
    rng = np.random.default_rng(seed)
    layers = [(rng.normal(size=(out, into)), rng.normal(size=out)) for into, out in pairwise(sizes)]
    return NetworkPolicy(layers, **settings)


def family(n: int, horizon: int = 40) -> list[JaxTask]:
    return JaxTask.variants(POLE, {"length": np.linspace(0.3, 1.2, n).round(3)}, gamma=0.97, horizon=horizon)


def all_runs(n_tasks: int, n_policies: int, first: int, count: int) -> Runs:
    task, policy = (grid.ravel() for grid in np.meshgrid(np.arange(n_tasks), np.arange(n_policies), indexing="ij"))
    return Runs(task, policy, np.full(len(task), first), np.full(len(task), count))


class Walk:
    """A walk with chance in every step: what an action moves is scaled by the parameter, and noise is added."""

    default_params = MappingProxyType({"scale": 1.0, "noise": 0.3, "broken_at": 1e9, "bad": 1.0})
    reward_range = (-1.0, 1.0)

    def reset(self, key, params):
        place = jax.random.uniform(key, (3,))
        return place, {"place": place, "n": jnp.int32(0)}

    def step(self, key, state, action, params):
        drawn = params["noise"] * jax.random.uniform(key, (3,), minval=-1.0)
        place = state["place"] + 0.1 * params["scale"] * jnp.sum(action) + drawn
        n = state["n"] + 1
        bad = jnp.where(params["bad"] == 0, jnp.nan, params["bad"])
        reward = jnp.where(n < params["broken_at"], jnp.tanh(place[0]), bad)
        return place, {"place": place, "n": n}, reward, jnp.abs(place[1]) > 2.0, {}

    def observation_space(self, params):
        import gymnasium

        return gymnasium.spaces.Box(-np.inf, np.inf, (3,))

    def action_space(self, params):
        import gymnasium

        return gymnasium.spaces.Box(-1, 1, (2,))


CLIP = {"head": "clip", "low": [-1, -1], "high": [1, 1]}
HEADS = {
    "tanh": {"head": "tanh", "low": [-1, -1], "high": [1, 1]},
    "normalised": {
        "head": "clip", "low": [-1, -1], "high": [1, 1],
        "normalise": {"mean": [0.1, 0.2, 0.3], "var": [1.0, 2.0, 0.5], "clip": 2.0},
    },
}  # fmt: skip


def test_a_program_gives_what_single_steps_give():
    """The same networks as functions, which run by NumPy, lane by lane."""
    tasks, networks = family(2), [network(seed) for seed in range(3)]
    for task in tasks:
        ranges = [EpisodeRange(j, 3, 4) for j in (2, 0, 1)]
        ours = episode_returns(task, networks, ranges, seed=9)
        functions = [FunctionPolicy(policy.act, batched=True) for policy in networks]
        np.testing.assert_allclose(ours, episode_returns(task, functions, ranges, seed=9), rtol=1e-10)
        mixed = episode_returns(task, [networks[0], functions[1], networks[2]], ranges, seed=9)
        np.testing.assert_array_equal(mixed[0], ours[0])
        np.testing.assert_allclose(mixed, ours, rtol=1e-10)


@pytest.mark.parametrize("name", HEADS)
def test_heads_and_random_steps_are_those_of_single_steps(name):
    task = JaxTask(Walk(), {"scale": 0.7}, gamma=0.9, horizon=30)
    policies = [network(seed, (3, 6, 2), activation="relu", **HEADS[name]) for seed in range(2)]
    ranges = [EpisodeRange(0, 0, 5), EpisodeRange(1, 2, 3)]
    ours = np.concatenate(episode_returns(task, policies, ranges, seed=1))
    functions = [FunctionPolicy(policy.act, batched=True) for policy in policies]
    np.testing.assert_allclose(
        ours, np.concatenate(episode_returns(task, functions, ranges, seed=1)), rtol=2e-4, atol=2e-5
    )
    assert len(set(ours)) == 8


@pytest.mark.parametrize(
    "activation", ["relu", "leaky_relu", "elu", "selu", "sigmoid", "silu", "gelu", "softplus", "mish", "identity"]
)
def test_activations_are_those_of_the_networks(activation):
    from pastmaster.estimation import jax_program as jp

    policy = network(4, (3, 5, 4), activation=activation)
    seen = np.random.default_rng(0).normal(size=(1, 7, 3)).astype(np.float32)
    stack = policy.stack
    layers = jp.Layers(stack.shape.activations, "clip", box=(4,))
    limits = [np.full((1, 1, 4), -1e6, np.float32), np.full((1, 1, 4), 1e6, np.float32)]
    got = jp.acted(seen, jp.Networks(stack.weights, stack.biases, limits), layers)
    np.testing.assert_allclose(got, stack.outputs(seen), rtol=1e-5, atol=1e-6)


def test_discrete_observations_and_several_choices():
    from pastmaster.estimation import jax_program as jp

    looked_up = network(3, (5, 4, 3), one_hot=True)
    states = np.arange(5)[None]
    stack = looked_up.stack
    layers = jp.Layers(stack.shape.activations, one_hot=True)
    got = jp.acted(states, jp.Networks(stack.weights, stack.biases), layers)
    np.testing.assert_array_equal(got, stack.act(states))
    several = network(5, (3, 7), head="argmaxes", nvec=[3, 4])
    seen, stack = np.random.default_rng(0).normal(size=(1, 20, 3)).astype(np.float32), several.stack
    layers = jp.Layers(stack.shape.activations, "argmaxes", nvec=(3, 4))
    np.testing.assert_array_equal(jp.acted(seen, jp.Networks(stack.weights, stack.biases), layers), stack.act(seen))


def test_the_size_of_a_batch_changes_nothing():
    tasks, networks, seeds = family(5), [network(seed, (4, 32, 32, 2)) for seed in range(6)], [3, 1, 4, 1, 5]
    runs = all_runs(5, 6, first=2, count=7)
    whole = play_runs(tasks, networks, seeds, runs)
    parts = play_runs(tasks, networks, seeds, runs, most_lanes=64)
    np.testing.assert_array_equal(whole.returns, parts.returns)
    np.testing.assert_array_equal(whole.undiscounted, parts.undiscounted)


def test_a_return_depends_on_its_episode_alone():
    """Others beside it, in other places and other numbers, change no bit."""
    tasks, networks, seeds = family(4), [network(seed, (4, 32, 32, 2)) for seed in range(5)], [7, 7, 8, 9]
    whole = play_runs(tasks, networks, seeds, all_runs(4, 5, first=0, count=9)).returns.reshape(4, 5, 9)
    rng = np.random.default_rng(0)
    for _ in range(4):
        i, j, k = rng.integers(4), rng.integers(5), rng.integers(9)
        alone = play_runs(tasks, networks, seeds, Runs(*(np.array([part]) for part in (i, j, k, 1))))
        assert alone.returns[0] == whole[i, j, k]
    assert (whole[0] != whole[1]).any()
    keys = {(seeds[i], k): whole[i, 0, k] for i in range(4) for k in range(9)}
    assert len(set(keys.values())) > 5


def test_putting_episodes_together_anew_changes_nothing(monkeypatch):
    from pastmaster.estimation import jax_program as jp

    tasks, networks = family(3, horizon=40), [network(seed, (4, 32, 32, 2)) for seed in range(4)]
    runs = all_runs(3, 4, first=0, count=30)
    assert jp._stops(200, 1) == [32, 64, 128, 200]
    assert jp._stops(200, 2**40) == [200]
    assert (jp._stops(32, 1), jp._stops(1, 1)) == ([32], [1])
    monkeypatch.setattr(jp, "FIRST_STOP", 3)
    often = play_runs(tasks, networks, [1, 2, 3], runs)
    monkeypatch.setattr(jp, "_stops", lambda horizon, size: [horizon])
    np.testing.assert_array_equal(often, play_runs(tasks, networks, [1, 2, 3], runs))


def test_unlike_tasks_and_networks_are_put_together_by_kind():
    tasks = [JaxTask(POLE, {"length": 0.5}, gamma=gamma, horizon=horizon) for gamma, horizon in ((0.9, 9), (0.5, 5))]
    networks = [network(0), network(1, (4, 2)), network(2)]
    together = play_runs(tasks, networks, [1, 2], all_runs(2, 3, 0, 2)).returns.reshape(2, 3, 2)
    for i, task in enumerate(tasks):
        alone = episode_returns(task, networks, [EpisodeRange(j, 0, 2) for j in range(3)], seed=i + 1)
        np.testing.assert_array_equal(together[i], alone)


def test_a_batch_whose_episodes_are_over_stops():
    """An episode of a million steps would take minutes."""
    task = JaxTask(POLE, gamma=1.0, horizon=1_000_000)
    falls = NetworkPolicy([(np.zeros((2, 4)), [0.0, 1.0])])
    (returns,) = episode_returns(task, [falls], [EpisodeRange(0, 0, 3)], seed=0)
    assert returns.max() < 20


@pytest.mark.parametrize(("bad", "told"), [(-np.inf, "-inf"), (0.0, "nan")])
def test_a_reward_that_is_not_finite_is_told_by_task_and_episode(bad, told):
    more = {"scale": [1.0, 1.0], "broken_at": [1e9, 4.0], "bad": [1.0, bad]}
    tasks = JaxTask.variants(Walk(), more, names=["whole", "lame"], horizon=9)
    policies = [network(1, (3, 2), **CLIP)]
    with pytest.raises(TaskError, match=rf"^lame: step returned the reward {told} in episode 3 of policies\[0\], at "):
        episode_returns(tasks[1], policies, [EpisodeRange(0, 3, 2)], seed=0)
    place = rf"^lame: step returned the reward {told} in episode 0 of policies\[0\], at step 4, must be"
    with pytest.raises(TaskError, match=place):
        estimate_cross_values(tasks, policies, budget=16, rng=0, paired=False)


def test_an_observation_that_is_not_finite_is_told():
    class Lost(Walk):
        def step(self, key, state, action, params):
            place, *rest = super().step(key, state, action, params)
            return jnp.where(state["n"] == 2, jnp.nan, place), *rest

    task = JaxTask(Lost(), gamma=0.9, horizon=9, name="lost")
    with pytest.raises(TaskError, match=r"^lost: step returned an observation that is not finite in episode 0"):
        episode_returns(task, [network(1, (3, 2), **CLIP)], [EpisodeRange(0, 0, 1)], seed=0)


def test_a_first_observation_that_is_not_finite_is_told():
    class Lost(Walk):
        def reset(self, key, params):
            place, state = super().reset(key, params)
            return jnp.where(params["scale"] == 2.0, jnp.nan, place), state

    tasks = JaxTask.variants(Lost(), {"scale": [1.0, 2.0]}, names=["whole", "lost"], gamma=0.9, horizon=9)
    policy = network(1, (3, 2), **CLIP)
    with pytest.raises(
        TaskError,
        match=r"^lost: reset returned an observation that is not finite in episode 0 of policies\[0\], must be",
    ):
        estimate_cross_values(tasks, [policy], budget=8, rng=0, paired=False)
    with pytest.raises(TaskError, match=r"^lost: reset returned observations that are not finite"):
        episode_returns(tasks[1], [FunctionPolicy(policy.act, batched=True)], [EpisodeRange(0, 0, 1)], seed=0)


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_a_return_that_is_too_large_is_told(gamma):
    """Each reward is finite; their sum is not."""
    task = JaxTask(Walk(), {"broken_at": 1.0, "bad": 3e38, "noise": 0.0}, name="rich", gamma=gamma, horizon=9)
    with pytest.raises(TaskError, match=r"^rich: the return of episode 2 of policies\[0\] is beyond 3.4e\+38"):
        episode_returns(task, [network(1, (3, 2), **CLIP)], [EpisodeRange(0, 2, 1)], seed=0)


def test_a_lane_that_is_over_keeps_its_sums():
    """Others go on beside it, for hundreds of steps: an infinite reward is still told as what it was."""

    class Ends(Walk):
        def step(self, key, state, action, params):
            *outcome, _, info = super().step(key, state, action, params)
            return *outcome, params["broken_at"] == state["n"], info

    tasks = JaxTask.variants(
        Ends(), {"broken_at": [1e9, 2.0], "bad": [1.0, np.inf]}, names=["whole", "lame"], horizon=99
    )
    with pytest.raises(TaskError, match=r"^lame: step returned the reward inf in episode 0"):
        play_runs(tasks, [network(1, (3, 2), **CLIP)], [1, 2], all_runs(2, 1, 0, 3))


def test_a_step_that_takes_too_long_is_told():
    """Of some seconds, so that what is left behind ends by itself."""

    class Slow(Walk):
        def step(self, key, state, action, params):
            place, state, reward, *rest = super().step(key, state, action, params)
            start = (jnp.int32(0), reward)
            _, end = jax.lax.while_loop(lambda c: c[0] < 50_000_000, lambda c: (c[0] + 1, jnp.sin(c[1])), start)
            return place, state, end, *rest

    task = JaxTask(Slow(), gamma=0.9, horizon=1, name="slow", time_limit=1.0)
    with pytest.raises(TaskError, match=r"^slow: (re)?s(et|tep) has not returned for 1 seconds?, its time limit"):
        episode_returns(task, [network(1, (3, 2), **CLIP)], [EpisodeRange(0, 0, 1)], seed=0)
    (left,) = [thread for thread in threading.enumerate() if thread.name == "pastmaster slow"]
    left.join(60)  # else the interpreter would end while it runs


def test_a_time_limit_changes_no_return():
    tasks, networks, runs = family(2), [network(seed) for seed in range(3)], all_runs(2, 3, 0, 5)
    endless = JaxTask.variants(
        POLE, {"length": [task.kwargs["length"] for task in tasks]}, gamma=0.97, horizon=40, time_limit=None
    )
    whole = play_runs(endless, networks, [1, 2], runs)
    np.testing.assert_array_equal(whole, play_runs(tasks, networks, [1, 2], runs))


def test_blocks_of_steps_follow_the_time_they_take(monkeypatch):
    from pastmaster.estimation import jax_program as jp

    now, calls = [0.0], []
    monkeypatch.setattr(jp.time, "monotonic", lambda: now[0])

    def watch(what, there, function, seconds):
        calls.append(what)
        now[0] += seconds

    clock = jp.Clock(64.0, watch)
    assert list(jp.Clock().blocks(3, 40, 1)) == [(3, 40)]
    blocks = []
    for first, last in clock.blocks(0, 700, 2):
        blocks.append(last - first)
        clock.call("step", None, {1: 0.2, 4: 0.2, 32: 9.0}[last - first] if len(blocks) < 5 else 0.2)
    assert blocks == [1, 4, 32, 4, 32, 256, 371]
    assert calls == ["step"] * 7


def test_another_precision_of_the_process_changes_nothing():
    tasks, networks, runs = family(2), [network(seed) for seed in range(3)], all_runs(2, 3, 0, 5)
    usual = play_runs(tasks, networks, [1, 2], runs)
    function = [FunctionPolicy(networks[0].act, batched=True)]
    single = episode_returns(tasks[0], function, [EpisodeRange(0, 0, 5)], seed=1)
    jax.config.update("jax_enable_x64", True)
    try:
        np.testing.assert_array_equal(usual, play_runs(family(2), networks, [1, 2], runs))
        np.testing.assert_array_equal(single, episode_returns(tasks[0], function, [EpisodeRange(0, 0, 5)], seed=1))
        walk = JaxTask(Walk(), {"scale": 0.7}, gamma=0.9, horizon=30)
        doubled = episode_returns(walk, [network(1, (3, 2), **CLIP)], [EpisodeRange(0, 0, 5)], seed=1)
    finally:
        jax.config.update("jax_enable_x64", False)
    walk = JaxTask(Walk(), {"scale": 0.7}, gamma=0.9, horizon=30)
    np.testing.assert_array_equal(
        doubled, episode_returns(walk, [network(1, (3, 2), **CLIP)], [EpisodeRange(0, 0, 5)], seed=1)
    )


def test_observations_become_of_the_type_of_their_space():
    first, then = jnp.float32, jnp.float16

    class Typed(Walk):
        def reset(self, key, params):
            place, state = super().reset(key, params)
            return (5 * place).astype(first), state

        def step(self, key, state, action, params):
            place, *rest = super().step(key, state, action, params)
            return place.astype(then), *rest

    task, policy = JaxTask(Typed(), gamma=0.9, horizon=9), network(1, (3, 2), **CLIP)
    ours = episode_returns(task, [policy], [EpisodeRange(0, 0, 4)], seed=1)
    plain = episode_returns(task, [FunctionPolicy(policy.act, batched=True)], [EpisodeRange(0, 0, 4)], seed=1)
    np.testing.assert_allclose(ours, plain, rtol=1e-4, atol=1e-5)


def test_cross_values_are_those_of_the_plain_way():
    """One program for all entries, against workers that run one task at a time, step by step."""
    tasks, networks = family(3), [network(seed) for seed in range(4)]
    ours = estimate_cross_values(tasks, networks, budget=80, rng=2, paired=False)
    assert is_program(tasks[0], networks)
    functions = [FunctionPolicy(policy.act, batched=True) for policy in networks]
    plain = estimate_cross_values(tasks, functions, budget=80, rng=2, paired=False)
    np.testing.assert_allclose(ours.mean, plain.mean, rtol=1e-10)
    np.testing.assert_allclose(ours.low, plain.low, rtol=1e-8)
    again = estimate_cross_values(tasks, networks, budget=80, rng=ours.seed, paired=False, n_jobs=2)
    np.testing.assert_array_equal(ours.mean, again.mean)
    assert ours.bounds_from == ("task",) * 3


def test_finished_episodes_are_saved_and_used_again(tmp_path):
    tasks, networks = family(2), [network(seed) for seed in range(2)]
    ours = estimate_cross_values(tasks, networks, budget=24, rng=2, paired=False, save=tmp_path)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}
    again = estimate_cross_values(tasks, networks, budget=24, rng=2, paired=False, save=tmp_path)
    np.testing.assert_array_equal(ours.mean, again.mean)
    assert files
    assert files == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}
    objects = JaxTask.variants(Walk(), {"scale": [1.0, 2.0]}, horizon=5)
    with pytest.raises(
        InvalidInputError, match=r"tasks\[0\], which cannot be told from others on disk: JaxTask: env is"
    ):
        estimate_cross_values(objects, [network(1, (3, 2), **CLIP)], budget=8, rng=0, save=tmp_path)


def test_estimate_values_runs_the_program():
    task, networks = family(1)[0], [network(seed) for seed in range(2)]
    found = estimate_values(task, networks, episodes=5, seed=3)
    returns = episode_returns(task, networks, [EpisodeRange(j, 0, 5) for j in range(2)], seed=3)
    np.testing.assert_allclose(found.mean, np.mean(returns, axis=1), rtol=1e-15)


def test_a_task_by_id_that_was_read_as_a_gym_task_is_a_program_too():
    by_id = GymTask(POLE, {"length": 0.4}, gamma=0.97, horizon=40)
    ours = JaxTask(POLE, {"length": 0.4}, gamma=0.97, horizon=40)
    returns = [episode_returns(task, [network(1)], [EpisodeRange(0, 0, 3)], seed=5)[0] for task in (by_id, ours)]
    np.testing.assert_array_equal(*returns)
    assert is_program(by_id, [network(1)])


def test_batches_follow_the_free_memory(monkeypatch):
    from pastmaster.estimation import jax_program as jp

    assert 2**20 < jp.free_bytes() < 2**50
    monkeypatch.setattr(jp, "free_bytes", lambda: 2_000_000)
    assert jp.lanes_that_fit(1000) == 1000
    monkeypatch.setattr(jp, "free_bytes", lambda: 0)
    assert jp.lanes_that_fit(1000) == 1
    tasks, networks, runs = family(2), [network(seed) for seed in range(2)], all_runs(2, 2, 0, 70)
    tight = play_runs(tasks, networks, [1, 2], runs).returns
    monkeypatch.undo()
    np.testing.assert_array_equal(tight, play_runs(tasks, networks, [1, 2], runs).returns)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.97, 0.999, 1.0])
def test_returns_are_summed_beyond_float32(gamma):
    from pastmaster.estimation import jax_program as jp

    rng, steps = np.random.default_rng(0), 600
    weights = jp.weights_of(gamma, steps)
    rewards = (rng.normal(size=(steps, 16)) * 10.0 ** rng.uniform(-3, 3, 16)).astype(np.float32)
    none = jnp.zeros(16, jnp.float32)
    summed = jax.jit(
        lambda x, w: jax.lax.fori_loop(0, steps, lambda n, total: jp.add_weighted(total, x[n], w[n]), (none, none))
    )
    high, low = (np.asarray(part, np.float64) for part in summed(rewards, weights))
    exact = np.cumprod(np.append(1.0, np.full(steps - 1, gamma)))[:, None] * rewards.astype(np.float64)
    error = np.abs(high + low - exact.sum(axis=0)) / np.abs(exact).sum(axis=0)
    assert error.max() < 1e-10
    assert np.abs(high - exact.sum(axis=0)).max() > 0 or gamma == 0.0


def test_the_numbers_of_tasks_and_networks_are_not_compiled():
    """A step is traced once for each size of a batch, whatever is in it."""
    traced = []

    class Counted(Walk):
        def step(self, key, state, action, params):
            traced.append(1)
            return super().step(key, state, action, params)

    tasks = JaxTask.variants(Counted(), {"scale": np.linspace(0.5, 1.0, 9)}, horizon=9)
    networks = [network(seed, (3, 2), **CLIP) for seed in range(8)]
    found, size = {}, len(traced)
    for n_tasks, n_policies in ((9, 8), (2, 5), (3, 5), (9, 2), (4, 3), (1, 6)):
        runs = all_runs(n_tasks, n_policies, 0, 3)
        returns = play_runs(tasks, networks, list(range(9)), runs).returns.reshape(n_tasks, n_policies, 3)
        found[n_tasks, n_policies] = returns
        size = size if len(found) > 1 else len(traced)
    assert len(traced) == size
    for (n_tasks, n_policies), returns in found.items():
        np.testing.assert_array_equal(returns, found[9, 8][:n_tasks, :n_policies])


def test_few_sizes_are_compiled():
    from pastmaster.estimation.jax_program import round_size

    assert [round_size(n, 32) for n in (1, 2, 8, 9, 31, 32)] == [1, 8, 8, 32, 32, 32]
    sizes = [round_size(n, 2**16) for n in range(1, 2**16, 17)]
    assert len(set(sizes)) < 120
    assert all(n <= size < n + max(32, n / 8) for n, size in zip(range(1, 2**16, 17), sizes, strict=True))
