"""Which policies a streaming repository stores: those in use stay, names come back, and none is stored twice."""

from __future__ import annotations

import pytest
from faults import small_task
from repository_reference import constant_policy, one_step_task

from pastmaster import GymTask, InvalidInputError, Repository


def test_a_task_that_comes_again_is_compared_with_all_candidates(path):
    """The policy it comes with now was stored with another task meanwhile."""
    with Repository(path, max_loss=0.5) as repository:
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


def test_a_repository_tells_its_rule(path):
    with Repository(path) as repository:
        assert repr(repository).endswith("0 tasks, 0 policies)")
    with Repository(path, max_loss=0.5) as repository:  # still without tasks
        repository.add(small_task(0))
        assert repr(repository).endswith("1 tasks, 1 policies, max_loss 0.5)")


def test_many_black_boxes_are_refused_with_what_stores_them(tmp_path):
    lake = GymTask("FrozenLake-v1", {"is_slippery": True}, gamma=0.99)
    with Repository(tmp_path / "r.db", max_loss=0.5) as repository:
        wanted = r"Repository.add_many: tasks\[1\] is .*, must be a TabularMDP: add\(task, policy\) stores other tasks"
        with pytest.raises(InvalidInputError, match=wanted):
            repository.add_many([small_task(0), lake])
        assert len(repository) == 0
