"""``Clustering.stability``: how sure an answer of ``keep`` is, where scores are noisy."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from pastmaster import Clustering, InvalidInputError, keep
from pastmaster.clustering import Scores


def noisy(values, error, **names) -> Scores:
    values = np.asarray(values, float)
    return Scores(values, standard_errors=np.full(values.shape, float(error)), **names)


def test_who_is_kept_for_certain_and_who_by_luck():
    """Column a is far ahead in one task; b and c are as good as each other in the other."""
    table = noisy([[9, 0, 0], [0, 5.0, 5.0001]], 0.5, policies=("a", "b", "c"))
    found = keep(table, k=2).stability(rng=0)
    assert found.resamples == 200
    assert found.kept["a"] == 1.0
    assert 0.35 < found.kept["c"] < 0.65  # a fair coin, 200 times, is within 30 of 100 but for 1e-4
    assert found.kept_share.sum() == pytest.approx(2.0)
    assert found.least == found.kept["c"]
    assert 0.2 < found.high < 1.0  # b may be better than c by two or three of their standard errors
    assert str(found).startswith("mean loss 0, between 0 and 0.")
    assert f"200 resamples keep a in 100%, c in {100 * found.kept['c']:.0f}%" in str(found)


def test_without_noise_nothing_changes(rng):
    answer = keep(noisy(rng.normal(size=(12, 6)), 0.0), k=3)
    found = answer.stability(resamples=5)
    assert found.kept_share.tolist() == np.isin(np.arange(6), answer.columns).astype(float).tolist()
    assert found.low == pytest.approx(answer.mean_loss) == found.high


def test_scores_that_were_measured_once_tell_nothing():
    found = keep([[1, 2], [3, 1]], k=1).stability()
    assert found.resamples == 0
    assert math.isnan(found.low)
    assert np.isnan(found.kept_share).all()
    assert str(found) == "each score was measured once: nothing is known of noise, nor how sure the choice is"


def test_a_seed_gives_the_same(rng):
    answer = keep(noisy(rng.normal(size=(10, 5)), 0.4), k=2)
    one = answer.stability(resamples=30)
    again, other = answer.stability(resamples=30, rng=one.seed), answer.stability(resamples=30, rng=one.seed + 1)
    assert again.kept_share.tolist() == one.kept_share.tolist()
    assert (again.low, again.high) == (one.low, one.high) != (other.low, other.high)


@pytest.mark.parametrize("question", [{"k": 3}, {"price": 0.1}, {"max_loss": 1.0}], ids=str)
def test_the_same_question_is_asked_again(rng, question):
    """With little noise every resample has the same answer; must and never are heeded; nan stays untried."""
    values = rng.normal(size=(14, 7))
    values[0, 1] = np.nan
    told = {"must_keep": [2], "never_keep": [4], "weights": rng.random(14)}
    answer = keep(noisy(values, 1e-6), **question, **told)
    quiet, loud = answer.stability(resamples=20, rng=0), keep(noisy(values, 1.0), **question, **told).stability(rng=0)
    assert quiet.kept_share.tolist() == np.isin(np.arange(7), answer.columns).astype(float).tolist()
    assert (loud.kept_share[2], loud.kept_share[4]) == (1.0, 0.0)
    assert loud.kept_share.max() <= 1.0
    assert loud.high - loud.low > quiet.high - quiet.low


def test_a_mean_loss_that_no_resample_changes_is_given_no_interval():
    found = keep(noisy(np.array([[5.0, 1.0], [1.0, 5.0]]), 0.1), k=2).stability(rng=0)
    assert str(found).startswith("mean loss 0, the same in 95% of the resamples or more; 200 resamples keep 0 in 100%")


def test_the_interval_holds_the_true_mean_loss(rng):
    """Of 60 tables fewer than 45 have a chance of 1e-6 at 94%, as measured."""
    held = wrong = 0
    for _ in range(60):
        truth = rng.normal(size=(20, 8)) + rng.normal(size=8)
        answer = keep(noisy(truth + 0.4 * rng.normal(size=truth.shape), 0.4), k=2, certify=False)
        loss = float((truth.max(axis=1) - truth[:, answer.columns].max(axis=1)).mean())
        found = answer.stability(resamples=60, rng=rng)
        held += found.low <= loss <= found.high
        wrong += found.low <= 3.0 * loss <= found.high  # a wrong target must be missed
    assert held >= 45
    assert wrong < 20


def test_a_small_table_takes_less_than_a_second(rng):
    answer = keep(noisy(rng.normal(size=(40, 12)), 0.3), k=3)
    answer.stability(resamples=2)  # compiles, if nobody has
    begun = time.process_time()
    assert answer.stability(rng=0).resamples == 200
    assert time.process_time() - begun < 1.0


def test_large_tables_get_fewer_resamples(rng):
    assert keep(noisy(rng.normal(size=(500, 200)), 0.3), k=2, certify=False, time_limit=0).stability().resamples == 40


def test_long_lists_of_names_are_told_by_the_least_sure(rng):
    table = noisy(rng.normal(size=(40, 20)), 0.3, policies=tuple(f"a rather long name {j}" for j in range(20)))
    found = keep(table, k=12, certify=False).stability(resamples=20, rng=0)
    assert str(found).endswith(f"20 resamples keep every one in {100 * found.least:.0f}% at least")


def test_the_paper_cost_is_refused():
    with pytest.raises(InvalidInputError, match=r"^Clustering\.stability: the answer is to episodes and span, must be"):
        Clustering.from_labels([[0, 1], [1, 0]], [0, 1]).stability()


def test_nothing_is_sure_where_nothing_is_known_of_noise(tmp_path):
    """Neither where no score has a standard error, nor where the only one that has is 0."""
    unknown = keep(Scores([[1.0, 0.0]], standard_errors=[[math.nan, math.nan]]), k=1).stability(rng=0)
    (tmp_path / "same.csv").write_text("task,policy,score\nx,a,1\nx,a,1\nx,b,0.9\ny,a,1\ny,b,0.5\n")
    same = keep(tmp_path / "same.csv", k=1).stability(rng=0)
    assert (unknown.resamples, same.resamples) == (0, 0)
    assert "measured once" in str(unknown)
    assert "the same again" in str(same)
    (tmp_path / "same.csv").write_text("task,policy,score\nx,a,1\nx,a,1\nx,b,0.9\nx,b,0.9\n")
    assert keep(tmp_path / "same.csv", k=1).stability(rng=0).kept == {"a": 1.0}


def test_the_question_is_asked_again_at_its_price_of_nothing_too():
    table = Scores([[5.0, 1.0, 1.0], [1.0, 5.0, 1.0], [1.0, 1.0, 1.0]], standard_errors=[[0.5] * 3] * 3)
    free, cheap = (keep(table, price=price, rng=0) for price in (0.0, 1e-12))
    assert (free.price, cheap.price, keep(table, k=1).price) == (0.0, 1e-12, None)
    assert free.stability(rng=0).kept_share.tolist() == cheap.stability(rng=0).kept_share.tolist()
