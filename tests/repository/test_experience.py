"""What a repository knows of its policies in its tasks, as ``transfer`` takes it."""

from __future__ import annotations

import numpy as np
import pytest
from repository_reference import N_ACTIONS, constant_policy, one_step_task, random_tasks, same_bits
from seams import evaluation_seed, known, task_row

from pastmaster import InvalidInputError, Repository, RepositoryError, TabularMDP, cross_values, return_spread, transfer
from pastmaster.estimation.rollouts import EpisodeRange, episode_returns
from pastmaster.policies import as_policy

ALWAYS = [constant_policy(action) for action in range(N_ACTIONS)]
TASKS = [one_step_task(9, 1, 2), one_step_task(0, 8, 3), one_step_task(4, 5, 7), one_step_task(8, 1, 2)]


def coin(heads: float, tails: float) -> TabularMDP:
    """A task of one step: action 0 pays one of two rewards by chance, the others pay 1."""
    shape = (6, N_ACTIONS, 2)
    reward, chance = np.ones(shape), np.zeros(shape)
    reward[:, 0], chance[..., 0] = (heads, tails), 1.0
    chance[:, 0] = 0.5
    return TabularMDP(
        np.zeros(shape, int), reward, probability=chance, terminated=np.ones(shape, bool), gamma=0.9, horizon=20
    )


def filled(repository, tasks=TASKS, policies=ALWAYS, **options):
    for task, policy in zip(tasks, policies, strict=False):
        repository.add(task, policy, **options)
    return repository


def test_experience_is_what_the_kept_policies_are_worth_in_every_task(repository, rng):
    tasks = random_tasks(rng, 8)
    for task in tasks:
        repository.add(task)
    repository.keep(k=3, rng=0)
    repository.add(one_step_task(1, 2, 3))  # after the clustering: its row is there, its policy is not kept
    stored, sources, found = list(repository.tasks()), repository.sources(), repository.experience()
    assert same_bits(found.values, cross_values(stored, sources))
    assert same_bits(found.spread, return_spread(stored, sources))
    assert found.spread[1::2].any()
    assert found.best.tolist() == [record.value for record in repository.records()]
    assert found.errors is None
    assert list(found.sources) == list(repository.named_sources())


def test_transfer_takes_it_beside_the_named_sources(repository):
    filled(repository)
    repository.keep(k=2, rng=0)
    given = {"experience": repository.experience(), "episodes": 20, "bounds": (0, 9), "rng": 0}
    run = transfer(one_step_task(9, 1, 2), repository.named_sources(), **given)
    assert run.selectors[0].name == "informed"
    swapped = dict(reversed(repository.named_sources().items()))
    with pytest.raises(InvalidInputError, match=r"column 0 of experience is .* but source 0 is"):
        transfer(one_step_task(9, 1, 2), swapped, **given)


@pytest.mark.parametrize(
    "called",
    [("learner", "b", "c"), ("a", "a", "a"), ("a", "a", "a (1)"), ("a\nb", " ", "x" * 900), ("1", "2", "3")],
    ids=str,
)
def test_names_are_those_that_transfer_gives_whatever_policies_are_called(repository, called):
    for task, policy, name in zip(TASKS, ALWAYS, called, strict=False):
        repository.add(task, policy, name=name)
    repository.keep(k=3, rng=0)
    assert len(repository.named_sources()) == len(repository.sources()) == 3
    run = transfer(
        TASKS[3], repository.named_sources(), experience=repository.experience(), episodes=5, bounds=(0, 9), rng=0
    )
    assert run.arm_names[:-1] == list(repository.experience().sources)


def test_policies_are_named_by_id_in_any_order(repository):
    filled(repository)
    found = repository.experience([3, 1])
    assert same_bits(found.values, cross_values(TASKS[:3], [ALWAYS[2], ALWAYS[0]]))
    assert found.best.tolist() == [9, 8, 7]


def test_estimates_come_with_the_standard_errors_and_the_spread_that_their_episodes_tell(repository):
    tasks = [coin(0, 4), coin(2, 6), coin(1, 1)]
    filled(repository, tasks, evaluation_episodes=9)
    found = repository.experience([1, 2])
    returns = [[_returns(task, policy, episodes=9) for policy in ALWAYS[:2]] for task in repository.tasks()]
    squares = 9 * np.var(returns, axis=2)
    pooled = squares.sum() / (6 * 8)
    assert np.allclose(found.values, np.mean(returns, axis=2))
    assert np.allclose(found.spread, np.sqrt((squares + pooled) / 9))
    assert np.allclose(found.errors, found.spread / 3)
    assert 0 < found.spread[2, 0] < found.spread[0, 0]  # nine equal returns prove little


def _returns(task, policy, episodes):
    seed = evaluation_seed(task_row(task)[0]["digest"])
    return episode_returns(task, [as_policy(policy, "policy")], [EpisodeRange(0, 0, episodes)], seed)[0]


def test_where_nothing_is_left_to_chance_episodes_tell_a_spread_of_nothing(repository):
    filled(repository, evaluation_episodes=4)
    found = repository.experience([1, 2, 3])
    assert not found.spread.any()
    assert not found.errors.any()


def test_models_and_episodes_may_stand_side_by_side(repository):
    filled(repository, [coin(0, 4), coin(2, 6)])
    assert repository.experience([1]).spread.tolist() == [[2], [2]]
    assert repository.experience([1]).errors is None
    repository.add(coin(0, 9), ALWAYS[2], evaluation_episodes=50)
    found = repository.experience([1])
    assert found.spread[:2].tolist() == [[2], [2]]
    assert found.errors[:2].tolist() == [[0], [0]]
    assert 3.5 < found.spread[2, 0] < 5.5  # 4.5
    assert found.errors[2, 0] == pytest.approx(found.spread[2, 0] / np.sqrt(50))


def test_each_spread_is_computed_once_and_read_anew_it_is_the_same(place, monkeypatch):
    counted = []

    def counting(tasks, policies):
        counted.append(len(tasks) * len(policies))
        return return_spread(tasks, policies)

    monkeypatch.setattr(known, "return_spread", counting)
    with Repository(place) as repository:
        filled(repository, [coin(0, 4), coin(2, 6)])
        repository.experience([1, 2])
        repository.experience([2, 1])
        assert sum(counted) == 4
        repository.add(coin(1, 9), ALWAYS[2])
        first = repository.experience([1, 2])
        assert sum(counted) == 6
    with Repository(place) as repository:
        again = repository.experience([1, 2])
    for name in ("values", "spread", "best"):
        assert same_bits(getattr(first, name), getattr(again, name))


def test_where_there_is_nothing_to_know_it_says_so(repository):
    with pytest.raises(RepositoryError, match=r"keeps no tasks yet, so there is no experience: add\(\)"):
        repository.experience()
    filled(repository)
    with pytest.raises(RepositoryError, match=r"keeps no policies yet, so there is no experience: keep\(\)"):
        repository.experience()
    with pytest.raises(RepositoryError, match=r"Repository.experience: number is 7, must be the id of a stored policy"):
        repository.experience([1, 7])
    for wrong in (3, "12", [0], [1.5], [None]):
        with pytest.raises(InvalidInputError, match=r"^Repository\.experience: "):
            repository.experience(wrong)
