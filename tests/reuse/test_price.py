"""What a kept policy should cost: the price at which tasks left out earn most."""

from __future__ import annotations

import numpy as np
import pytest

from pastmaster import Experience, Informed, InvalidInputError, Repository, keep
from pastmaster.domains import windy_corridor
from pastmaster.reuse import _price_kernels as kernels, price as pricing
from pastmaster.reuse.price import measured_price, met


def groups(rng, n_groups=5, each=8, c=12, noise=0.01):
    """Tasks of some kinds, and policies of which each kind has one that is best by far, and others next to useless."""
    kinds = rng.uniform(0.0, 0.3, (n_groups, c))
    kinds[np.arange(n_groups), np.arange(n_groups)] = rng.uniform(0.8, 1.0, n_groups)
    return np.repeat(kinds, each, axis=0) + noise * rng.standard_normal((n_groups * each, c))


def test_at_the_measured_price_every_kind_has_its_policy(rng):
    U = groups(rng)
    kept = keep(U, price="measured", episodes=200, rng=0)
    assert set(range(5)) <= set(kept.columns.tolist())
    assert kept.mean_loss < 0.01


def test_the_price_is_one_at_which_tasks_left_out_earn_most(rng):
    """By hand: each of the prices tried, with the same tasks left out, earns no more than the one that is found."""
    U, T = groups(rng), 100
    found = measured_price(U, T, np.random.default_rng(3))
    order = np.random.default_rng(4).permutation(len(U))
    earned = {}
    for factor in (0.01, 1.0, 1e9):
        kept = keep(U, price=found * factor, certify=False, rng=0).columns
        rest = order[10:]
        earned[factor] = np.mean([met(U, None, rest, kept, int(i), T, np.random.default_rng(i)) for i in order[:10]])
    assert earned[1.0] >= earned[0.01] - 0.02
    assert earned[1.0] > earned[1e9] + 0.2  # one policy alone


def test_the_seed_that_is_told_gives_the_same_answer(rng):
    U = rng.random((24, 24))
    np.fill_diagonal(U, 1.2)
    first = keep(U, price="measured", episodes=30, certify=False)
    assert (
        keep(U, price="measured", episodes=30, certify=False, rng=first.seed).columns.tolist() == first.columns.tolist()
    )


def test_policies_that_are_never_kept_do_not_settle_the_price(rng):
    U = groups(rng)
    better = np.column_stack([np.full(len(U), 2.0), U])
    kept = keep(better, price="measured", episodes=50, rng=0, never_keep=[0], certify=False).columns
    assert (kept - 1).tolist() == keep(U, price="measured", episodes=50, rng=0, certify=False).columns.tolist()


def test_a_row_is_met_as_a_selector_meets_it(rng):
    """The compiled loop and ask and tell choose alike."""
    values, worth = rng.random((6, 3)), np.append(rng.random(3), 0.0)
    two = [Informed(3, 50, bounds=(0, 1), experience=Experience(values), clip=True, rng=1) for _ in range(2)]
    uniforms = np.random.default_rng(1).random(50)
    total, best = kernels.meet(
        two[0]._arms, two[0]._memory, two[0]._settings, worth, np.zeros(4), uniforms, np.zeros(50)
    )
    arms = []
    for _ in range(50):
        episode = two[1].ask()
        two[1].tell(episode, worth[episode.arm])
        arms.append(episode.arm)
    assert total == pytest.approx(worth[arms].sum())
    assert best == max(set(arms) - {3}, key=lambda arm: worth[arm])


def test_few_tasks_and_tasks_that_lose_nothing_have_a_price_too(rng):
    assert measured_price(np.ones((20, 3)), 10, rng) == 0.0
    assert 0.0 < measured_price(np.array([[1.0, 0.0], [0.0, 1.0]]), 10, rng) < 0.001
    assert keep([[1.0, 0.0], [0.0, 1.0]], price="measured", episodes=5, rng=0).columns.tolist() == [0, 1]


@pytest.mark.parametrize("n_tasks", [5, 12])
def test_a_policy_that_one_task_needs_is_kept(n_tasks, rng):
    """Left out with its own policy, the task says nothing: so the price must not be high where all earn alike."""
    U = np.full((n_tasks, n_tasks), 0.9)
    U[-1], U[:, -1], U[-1, -1] = 0.1, 0.1, 0.9
    price = measured_price(U, 30, rng, own=range(n_tasks))
    assert n_tasks - 1 in keep(U, price=price).columns


def test_a_task_left_out_is_not_met_with_its_own_policy(rng, monkeypatch):
    """Nor with those of the tasks that are left out with it."""
    seen = []

    def watched(values, spread, rest, kept, task, *others):
        seen.append((set(kept.tolist()), set(rest.tolist()), task))
        return met(values, spread, rest, kept, task, *others)

    monkeypatch.setattr(pricing, "met", watched)
    measured_price(rng.random((16, 16)), 50, rng, own=range(16))
    assert {task for _, _, task in seen} == set(range(16))
    assert all(task not in rest and kept <= rest for kept, rest, task in seen)


def test_a_repository_measures_with_its_own_tasks(tmp_path):
    with Repository(tmp_path / "tasks.db") as repository:
        for task in windy_corridor.family()[::8]:
            repository.add(task)
        kept = repository.keep(price="measured", episodes=50, rng=0)
        again = repository.keep(price="measured", episodes=50, rng=0)
        assert kept.columns.tolist() == again.columns.tolist()
        asked = repository.clusterings()[-1].settings
        assert asked["measured"] == 50
        assert asked["price"] > 0
        with pytest.raises(InvalidInputError, match=r"^Repository.keep: price is 'cheap'"):
            repository.keep(price="cheap", episodes=50)
