"""Arguments that make no sense: each is refused by the function that was called, with value and remedy."""

from __future__ import annotations

import pytest
from repository_reference import constant_policy, one_step_task

from pastmaster import InvalidInputError, Repository, RepositoryError

TASK, POLICY = one_step_task(2.0, 1.0, 0.0), constant_policy(0)

REFUSED = {
    "a run in words": (lambda r: r.add(TASK, POLICY, run="x"), "Repository.add: run is 'x', must be what transfer ret"),
    "a path for a policy": (lambda r: r.add(TASK, "cart.zip"), r"Repository.add: policy is 'cart.zip'.*load_sb3"),
    "a folder": (lambda r: r.import_(3), "Repository.import_: folder is 3, must be the path of a folder"),
    "another folder": (lambda r: r.export(None), "Repository.export: folder is None, must be the path of a folder"),
    "no folder": (lambda r: r.export(""), "Repository.export: folder is '', must be the path of a folder"),
    "a place of a policy": (
        lambda r: r.policies()[99],
        "Repository.policies: index is 99, must be in 0..0: a place in",
    ),
    "a place of a task": (lambda r: r.tasks()[-2], "Repository.tasks: index is -2, must be in 0..0: a place in the li"),
    "a place in words": (lambda r: r.tasks()["a"], "Repository.tasks: index is 'a', must be in 0..0"),
    "a place of nothing": (lambda r: r.tasks()[1:][0], "Repository.tasks: index is 0, must be a place in the list, wh"),
    "a family of a text": (lambda r: r.check_family("x"), "Repository.check_family: task is a str, must be a Tabular"),
    "another word": (lambda r: r.cluster(k=2), r"Repository.cluster: k is no option here \(did you mean n_clusters\?"),
    "create": (lambda r: Repository(r.place, create="no"), "Repository: create is 'no', must be True or False"),
    "certify": (lambda r: r.cluster(n_clusters=1, certify="yes"), "Repository.cluster: certify is 'yes', must be True"),
}


@pytest.fixture
def held(tmp_path):
    """A repository of one task."""
    with Repository(tmp_path / "tasks.db") as repository:
        repository.add(TASK, POLICY)
        yield repository


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_in_a_sentence(held, what):
    call, sentence = REFUSED[what]
    with pytest.raises(InvalidInputError, match=f"^{sentence}"):
        call(held)
    assert len(held) == 1
    assert held.clusterings() == held.runs() == []


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("record", "task"), ("task", "task"), ("remove", "task"), ("replace_policy", "task"), ("policy", "policy"),
    ],
)  # fmt: skip
def test_an_id_that_nothing_has_is_refused_by_the_function_that_was_called(held, method, kind):
    more = [POLICY] if method == "replace_policy" else []
    sentence = rf"^Repository.{method}: number is 99, must be the id of a stored {kind}$"
    with pytest.raises(RepositoryError, match=sentence):
        getattr(held, method)(99, *more)
    with pytest.raises(RepositoryError, match=r"^Repository.policy_records: number is 7, must be the id of a stored"):
        held.policy_records([1, 7])
    assert len(held) == 1


def test_a_place_that_is_no_repository_is_refused_by_name(tmp_path):
    (tmp_path / "junk.zip").write_bytes(b"junk" * 1000)
    for place, sentence in (
        (tmp_path, "^Repository: .* is a directory, must be a file"),
        (tmp_path / "junk.zip", "^Repository: .*junk.zip is not a repository"),
        (tmp_path / "no" / "where.db", "^Repository: .* cannot be made: there is no folder"),
    ):
        with pytest.raises(RepositoryError, match=sentence):
            Repository(place)
    with pytest.raises(RepositoryError, match=r"^Repository: there is no repository at"):
        Repository(tmp_path / "none.db", create=False)


def test_loops_end_where_the_list_does(held):
    with pytest.raises(IndexError):
        held.tasks()[1]
    assert len(list(held.tasks())) == len(list(reversed(held.tasks()))) == 1
