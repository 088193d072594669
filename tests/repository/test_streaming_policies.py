"""Which policies a streaming repository stores: those in use stay, names come back, and none is stored twice."""

from __future__ import annotations

import numpy as np
import pytest
from faults import small_task
from repository_reference import constant_policy, one_step_task

from pastmaster import GymTask, InvalidInputError, Repository, solve


def test_policies_that_are_kept_are_not_forgotten(place):
    """Given ones cannot be made again: a change of the rule must not take them from whoever works with them."""
    with Repository(place) as repository:
        for i in range(20):
            repository.add(small_task(i), solve(small_task(i)).policy, name=f"given {i}")
        repository.keep(k=6, rng=0)
        ids, sources = repository.source_ids(), repository.named_sources()
        for limit in (0.5, 3.0, 1000.0):
            repository.set_max_loss(limit)
            assert repository.source_ids() == ids
            assert all(np.array_equal(policy, sources[name]) for name, policy in repository.named_sources().items())
            assert repository.check() == []
        repository.keep(k=2, rng=0)
        repository.set_max_loss(1000.0)
        assert len(repository.policy_records()) == 2
        assert repository.check() == []


def test_names_and_sources_come_back_with_the_policies(place):
    tasks = [small_task(i) for i in range(20)]
    with Repository(place) as repository:
        for i, task in enumerate(tasks[:10]):
            repository.add(task, name=f"mine {i}", source=f"drawer/{i}.npy")
        repository.add_many(tasks[10:])
        own = [record.own_policy for record in repository.records()]
        before = [(record.name, record.source, record.provenance) for record in repository.policy_records(own)]
        for limit in (0.5, 3.0, 0.1, None):
            repository.set_max_loss(limit)
            assert repository.check() == []
        own = [record.own_policy for record in repository.records()]
        assert [(record.name, record.source, record.provenance) for record in repository.policy_records(own)] == before


def test_a_name_that_a_covered_policy_came_with_comes_back(place):
    with Repository(place, max_loss=1000.0) as repository:
        for i in range(3):
            repository.add(small_task(i), provenance="solved", policy=solve(small_task(i)).policy, name=f"mine {i}")
        repository.set_max_loss(None)
        own = [record.own_policy for record in repository.records()]
        assert [record.name for record in repository.policy_records(own)] == ["mine 0", "mine 1", "mine 2"]


def test_a_task_that_comes_again_is_compared_with_all_candidates(place):
    """The policy it comes with now was stored with another task meanwhile."""
    with Repository(place, max_loss=0.5) as repository:
        again = one_step_task(0.0, 9.0, 0.0)
        repository.add(again, constant_policy(0))
        repository.add(one_step_task(0.0, 5.0, 0.0), constant_policy(1))
        assert len(repository.policy_records()) == 2
        assert repository.add(again, constant_policy(1)) == 1
        record, (policy,) = repository.record(1), repository.policy_records()  # nobody needs the first one now
        assert (record.own_policy, record.policy_of_record, record.value, record.best_value) == (2, 2, 9.0, 9.0)
        assert policy.id == 2
        assert repository.check() == []
        repository.add_many([one_step_task(0.0, 0.0, 4.0)])
        assert len(repository.policy_records()) == 2
        assert repository.keep(k=1, rng=0).over_all.mean_loss == pytest.approx(4.0 / 3.0)


def test_a_repository_tells_its_rule(place):
    with Repository(place) as repository:
        repository.add(small_task(0))
        assert repr(repository).endswith("1 tasks, 1 policies)")
        repository.set_max_loss(0.5)
        assert repr(repository).endswith("1 tasks, 1 policies, max_loss 0.5)")


def test_many_black_boxes_are_refused_with_what_stores_them(tmp_path):
    lake = GymTask("FrozenLake-v1", {"is_slippery": True}, gamma=0.99)
    with Repository(tmp_path / "r.db", max_loss=0.5) as repository:
        wanted = r"Repository.add_many: tasks\[1\] is .*, must be a TabularMDP: add\(task, policy\) stores other tasks"
        with pytest.raises(InvalidInputError, match=wanted):
            repository.add_many([small_task(0), lake])
        assert len(repository) == 0
