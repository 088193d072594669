"""What an answer found on landmarks tells of all tasks: a limit that others exceed, units, estimates."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import scipy.stats
from click.testing import CliRunner
from seams import admission, asked, auditing, clusterings

from pastmaster import GymTask, Repository, cross_values
from pastmaster.cli import main
from pastmaster.clustering.over_all import OverAll, largest_share
from pastmaster.domains import windy_corridor


@pytest.fixture(scope="module")
def corridors(tmp_path_factory):
    """A place with 100 tasks, whose landmarks are always the same."""
    place = tmp_path_factory.mktemp("corridors") / "r.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(admission.secrets, "token_hex", lambda n: "5a" * n)
        with Repository(place, max_loss=1.0) as repository:
            repository.add_many(windy_corridor.family())
    return place


def losses_of_all(repository, kept):
    """What every task loses under kept policies."""
    policies = [repository.policy(record.id) for record in repository.policy_records()]
    U, best = cross_values(list(repository.tasks()), policies), [r.best_value for r in repository.records()]
    return np.maximum(best, U.max(axis=1)) - U[:, kept.columns].max(axis=1)


def test_tasks_that_lose_more_than_asked_join_the_landmarks(corridors, tmp_path, monkeypatch):
    monkeypatch.setattr(asked, "LANDMARKS", 13)
    with Repository(shutil.copy(corridors, tmp_path / "r.db")) as repository:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(clusterings, "ROUNDS", 1)
            kept = repository.keep(max_loss=2.0, rng=0)
            lost = losses_of_all(repository, kept)
            above = int((lost > 2.0 + 1e-9).sum())
            assert above == kept.over_all.n_above > 0
            assert kept.over_all.share_above == above / 100
            assert kept.over_all.largest_loss == pytest.approx(float(lost.max()))
            assert kept.largest_loss <= 2.0 < lost.max()
            assert f"over all 100 tasks: {above} tasks above the limit, largest loss {lost.max():.4g}" in repr(kept)
        kept = repository.keep(max_loss=2.0, rng=0)
        assert losses_of_all(repository, kept).max() <= 2.0 + 1e-9
        assert (kept.over_all.n_above, kept.over_all.share_above) == (0, 0.0)
        assert 13 < len(kept.labels) < 100
        assert kept.weights.sum() > 0 == kept.weights.min()
        assert "none above the limit" in repr(kept)
        assert "policies are needed" in repr(kept.over_all)
        assert repr(repository.clustering()) == repr(kept)
        assert [*repository.cells()] == sorted(repository.cells())
        assert repository.check() == []


def test_the_share_of_tasks_above_a_limit_is_within_its_bound(corridors, tmp_path, monkeypatch):
    """[60 draws of 40 tasks]: the bound of one round in three, 1 in 60, is missed at most 6 times (1 in 10,000)."""
    monkeypatch.setattr(asked, "LANDMARKS", 13)
    monkeypatch.setattr(auditing, "AUDIT", 40)
    with Repository(shutil.copy(corridors, tmp_path / "r.db")) as repository:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(clusterings, "ROUNDS", 1)
            kept = repository.keep(max_loss=2.0, rng=0, certify=False)
        truth = float((losses_of_all(repository, kept) > 2.0 + 1e-9).mean())
        values = asked.Values.of_all(repository._contents, True)
        told = [
            auditing.audit(repository._contents, values, kept, np.random.default_rng([3, i])).told for i in range(60)
        ]
        assert truth > 0
        assert sum(one.share_above < truth for one in told) <= 6
        assert sum(one.n_above / 40 < truth for one in told) > 6  # the share of those drawn is no bound
        assert all("lose more, largest loss seen" in repr(one) for one in told)


def test_the_largest_share_is_where_so_few_have_the_chance_of_the_level():
    for n_above, n_drawn, level in ((0, 40, 0.05), (3, 40, 0.05), (17, 10_000, 0.01)):
        share = largest_share(n_above, n_drawn, level)
        assert scipy.stats.binom.cdf(n_above, n_drawn, share) == pytest.approx(level)
    assert largest_share(40, 40, 0.05) == 1.0


def test_a_bound_is_told_in_its_own_unit(corridors, tmp_path):
    with Repository(shutil.copy(corridors, tmp_path / "r.db")) as repository:
        assert "no choice loses less than" in repr(repository.keep(k=2, rng=0).over_all)
        assert "no choice costs less than" in repr(repository.keep(price=0.3, rng=0).over_all)
        kept = repository.keep(max_loss=3.0, rng=0)
        assert f"at least {kept.lower_bound:g} policies are needed" in repr(kept.over_all)
        assert "(exact)" in repr(repository.keep(k=2, rng=0).over_all)


def test_what_episodes_value_is_not_called_exact(tmp_path):
    lake = GymTask("FrozenLake-v1", {"is_slippery": True, "map_name": "4x4"}, gamma=0.99)
    with Repository(tmp_path / "r.db", max_loss=0.5) as repository:
        repository.add(lake, np.full(16, 2))
        told = repository.keep(k=1, rng=0).over_all
        assert told.estimated
        assert "(of estimates)" in repr(told)
        assert "exact" not in repr(told)
        assert OverAll.of(told.told()) == told or np.isnan(told.lower_bound)


def test_the_command_names_the_tasks_that_landmarks_are(corridors, tmp_path, monkeypatch):
    monkeypatch.setattr(asked, "LANDMARKS", 13)
    place = str(shutil.copy(corridors, tmp_path / "r.db"))
    found = CliRunner().invoke(main, ["repo", "keep", place, "-k", "3", "--json"])
    told = json.loads(found.stdout)
    served = sorted(number for cell in told["kept"] for number in cell["serves"])
    assert served == [task["id"] for task in told["tasks"]]
    assert max(served) > len(served)
