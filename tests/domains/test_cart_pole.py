from __future__ import annotations

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from pastmaster import InvalidInputError
from pastmaster.domains import cart_pole
from pastmaster.values import task_bounds

ID = "pastmaster/CartPole-v0"
VARIANT = {"gravity": 3.7, "length": 1.2, "force_mag": -17.0, "masscart": 1.5, "masspole": 0.2}


def lanes(n: int, **parameters: float) -> gym.vector.VectorEnv:
    return gym.make_vec(ID, num_envs=n, vectorization_mode="vector_entry_point", **parameters)


# The environment alone


def test_gymnasiums_own_checks_pass():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that velocities have no bounds, as Gymnasium's own do
        check_env(gym.make(ID, **VARIANT).unwrapped, skip_render_check=True)


def test_the_defaults_are_gymnasiums_cart_pole_step_by_step(rng):
    ours, theirs = gym.make(ID), gym.make("CartPole-v1")
    assert ours.spec.max_episode_steps == theirs.spec.max_episode_steps
    for seed in range(10):
        np.testing.assert_array_equal(ours.reset(seed=seed)[0], theirs.reset(seed=seed)[0])
        over = False
        while not over:
            action = int(rng.integers(2))
            got, expected = ours.step(action), theirs.step(action)
            np.testing.assert_array_equal(got[0], expected[0])
            assert got[1:4] == expected[1:4]
            over = got[2] or got[3]


@pytest.mark.parametrize("name", cart_pole.DEFAULTS)
def test_every_parameter_changes_what_a_step_does(name):
    ours, theirs = gym.make(ID, **{name: 2 * cart_pole.DEFAULTS[name]}), gym.make(ID)
    for env in (ours, theirs):
        env.reset(seed=0)
        env.step(1)
    assert np.abs(ours.step(1)[0] - theirs.step(1)[0]).max() > 1e-5


def test_a_step_follows_the_equations_of_motion():
    """Newton's equations for cart and pole, solved as a linear system for the two accelerations.

    With pole angle a, half-length l, masses M and m:
        (M + m) x'' + m l cos(a) a'' = F + m l sin(a) a'^2,    cos(a) x'' + 4/3 l a'' = g sin(a).
    """
    env = gym.make(ID, **VARIANT).unwrapped
    env.reset(seed=0)
    x, v, a, w = env.state = np.array([0.3, -0.4, 0.1, 0.9])
    gravity, half, force, cart, pole = VARIANT.values()
    system = [[cart + pole, pole * half * np.cos(a)], [np.cos(a), 4 / 3 * half]]
    x_acc, a_acc = np.linalg.solve(system, [force + pole * half * np.sin(a) * w**2, gravity * np.sin(a)])
    observation = env.step(1)[0]
    np.testing.assert_allclose(observation, [x + 0.02 * v, v + 0.02 * x_acc, a + 0.02 * w, w + 0.02 * a_acc], rtol=1e-6)


def test_a_motor_wired_the_other_way_round_exchanges_the_actions(rng):
    ours, theirs = gym.make(ID, force_mag=-10.0), gym.make(ID, force_mag=10.0)
    np.testing.assert_array_equal(ours.reset(seed=1)[0], theirs.reset(seed=1)[0])
    for action in rng.integers(2, size=8):
        np.testing.assert_array_equal(ours.step(int(action))[0], theirs.step(1 - int(action))[0])


# Many lanes


@pytest.mark.parametrize("parameters", [{}, VARIANT, {"length": 0.1, "force_mag": 30.0}], ids=["plain", "all", "short"])
def test_lanes_do_what_environments_stepped_one_by_one_do_and_begin_again_alike(parameters, rng):
    fast, slow = lanes(7, **parameters), gym.make_vec(ID, num_envs=7, vectorization_mode="sync", **parameters)
    np.testing.assert_array_equal(fast.reset(seed=3)[0], slow.reset(seed=3)[0])
    begun_again = 0
    for actions in rng.integers(2, size=(300, 7)):
        got, expected = fast.step(actions), slow.step(actions)
        np.testing.assert_allclose(got[0], expected[0], rtol=1e-5, atol=1e-6)
        for ours, theirs in zip(got[1:4], expected[1:4], strict=True):
            np.testing.assert_array_equal(ours, theirs)
        begun_again += int((got[1] == 0).sum())
    assert begun_again > 7


def test_a_lane_depends_on_its_own_seed_alone():
    env = lanes(3)
    first, _ = env.reset(seed=[5, 900, 31])
    second, _ = env.reset(seed=np.array([31, 5, 6]))
    np.testing.assert_array_equal(first[[0, 2]], second[[1, 0]])
    for lane, seed in enumerate([31, 5, 6]):
        np.testing.assert_array_equal(second[lane], gym.make(ID).reset(seed=seed)[0])
    assert not np.array_equal(first[1], second[2])


def test_a_reset_without_a_seed_goes_on_in_every_lane(seed):
    env, alone = lanes(2), gym.make(ID)
    env.reset(seed=[seed, seed + 9])
    following, _ = env.reset()
    alone.reset(seed=seed + 9)
    np.testing.assert_array_equal(following[1], alone.reset()[0])


def test_lanes_never_seeded_start_apart():
    starts = lanes(4).reset()[0]
    assert len(np.unique(starts, axis=0)) == 4
    assert np.abs(starts).max() <= cart_pole.START


def test_an_episode_is_cut_off_after_the_steps_registered():
    env = lanes(2, gravity=1e-9, force_mag=1e-9)
    env.reset(seed=0)
    env.state[:] = 0.0  # nothing moves
    for step in range(1, cart_pole.STEPS + 1):
        _, _, terminated, truncated, _ = env.step(np.zeros(2, int))
        assert not terminated.any()
        assert truncated.all() == (step == cart_pole.STEPS)


# The family


def test_the_family_lies_within_its_ranges_and_has_motors_of_both_directions(rng):
    tasks = cart_pole.family(60, rng=rng)  # all of one direction: a chance of 2^-59
    for task in tasks:
        for name, (low, high) in zip(
            ("gravity", "length", "force_mag"), (cart_pole.GRAVITY, cart_pole.LENGTH, cart_pole.FORCE), strict=True
        ):
            assert 0.99 * low <= abs(task.kwargs[name]) <= 1.01 * high  # rounded to three digits
        assert (task.env_id, task.gamma, task.horizon) == (ID, cart_pole.GAMMA, cart_pole.STEPS)
    assert {np.sign(task.kwargs["force_mag"]) for task in tasks} == {-1, 1}
    assert len({task.name for task in tasks}) == 60


def test_the_family_depends_on_the_generator_alone(seed):
    first, again, other = (
        [task.kwargs for task in cart_pole.family(3, rng=np.random.default_rng(s))] for s in (seed, seed, seed + 1)
    )
    assert first == again != other


def test_lengths_are_even_on_a_logarithmic_scale(rng):
    """Of 400 lengths about half are below the geometric mean: outside 150 .. 250 with probability below 1e-6."""
    lengths = np.array([task.kwargs["length"] for task in cart_pole.family(400, rng=rng)])
    assert 150 <= (lengths < np.sqrt(np.prod(cart_pole.LENGTH))).sum() <= 250


def test_returns_are_bounded_by_one_step_and_by_all_of_them():
    bounds = task_bounds(cart_pole.task(9.8, 0.5, 10.0))
    assert bounds.lower == 1.0
    assert bounds.upper == pytest.approx((1 - 0.99**500) / 0.01)


def test_a_variant_is_named_by_its_rounded_parameters():
    task = cart_pole.task(9.80665, 0.51234, -7.0)
    assert task.kwargs == {"gravity": 9.81, "length": 0.512, "force_mag": -7.0}
    assert task.name == "cart-pole, gravity 9.81, length 0.512, force -7"


def test_what_balances_a_mast_drops_a_pencil_and_the_other_way_round(rng):
    """Of linear rules drawn at random, those best with a mast drop a pencil at once, and the other way round."""
    rules = np.repeat(rng.normal(size=(150, 4)) * (0.1, 0.3, 1.0, 0.5) + (0.0, 0.0, 1.0, 0.0), 2, axis=0)
    lasted = {}
    for length in cart_pole.LENGTH:
        env, alive, steps = lanes(300, gravity=20.0, length=length, force_mag=8.0), np.ones(300, bool), np.zeros(300)
        observation, _ = env.reset(seed=list(range(300)))
        while alive.any():
            steps += alive
            observation, _, terminated, truncated, _ = env.step((observation * rules).sum(axis=1) > 0)
            alive &= ~(terminated | truncated)
        lasted[length] = steps.reshape(150, 2).mean(axis=1)
    pencil, mast = lasted.values()
    for one, other in ((pencil, mast), (mast, pencil)):
        best = one >= 0.9 * one.max()
        assert other[best].mean() < 0.5 * other.max()


# Refusals


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"gravity": 0}, r"gravity is 0, must be a number above 0"),
        ({"length": -1.0}, r"length is -1\.0"),
        ({"masspole": np.nan}, r"masspole is nan"),
        ({"masscart": "heavy"}, r"masscart is 'heavy'"),
        ({"force_mag": 0.0}, r"force_mag is 0\.0, must be a number other than 0"),
        ({"wind": 1.0}, r"wind is no parameter, must be one of gravity, length, force_mag, masscart, masspole"),
    ],
)
def test_wrong_parameters_are_refused(parameters, message):
    for made in (cart_pole.CartPoleEnv, cart_pole.CartPoleVectorEnv):
        with pytest.raises(InvalidInputError, match=message):
            made(**parameters)


def test_a_wrong_number_of_seeds_is_refused():
    with pytest.raises(InvalidInputError, match=r"seed has 2 entries, must be 3, one to a lane"):
        lanes(3).reset(seed=[1, 2])


def test_the_settings_of_a_family_are_those_of_its_tasks(rng):
    for task in cart_pole.family(2, rng=rng, gamma=0.9, horizon=50):
        assert (task.gamma, task.horizon) == (0.9, 50)
    with pytest.raises(
        InvalidInputError, match=r"cart_pole\.task: horizon is 501, must be a whole number, in 1\.\.500"
    ):
        cart_pole.task(9.8, 0.5, 10.0, horizon=501)
