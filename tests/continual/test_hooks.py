from __future__ import annotations

import io
import json
import sys
from dataclasses import asdict, replace

import numpy as np
import pytest
from seams import stored_runs

from pastmaster import ContinualTransfer, InvalidInputError, Repository, solve
from pastmaster.continual import JsonLines, Progress, Reclustered, TaskDone, TensorBoard
from pastmaster.domains import coloured_grid

TASKS = coloured_grid.family([[1, 1], [1, 0.1], [0.1, 1], [0.5, 0.5], [0.9, 0.2]], size=4)
STORY = ["task 0", "task 1", "clustered 2", "task 2", "task 3", "clustered 4", "task 4"]


def lifelong(repository, *hooks, seed=7, **changes):
    fine = {"episodes": 30, "recluster_every": 2, "clustering": {"restarts": 1, "iterations": 500, "n_clusters": 2}}
    return ContinualTransfer(repository, rng=np.random.default_rng(seed), hooks=hooks, **(fine | changes))


class Stopped(Exception):  # noqa: N818  not an error of the agent
    """Someone pulls the plug."""


def stop_at(position):
    def stop(event):
        if isinstance(event, TaskDone) and event.position == position and not event.replayed:
            raise Stopped

    return stop


def heading(event):
    return f"{'task' if isinstance(event, TaskDone) else 'clustered'} {event.position}"


# Events


def test_events_come_in_order_each_after_its_commit(repository):
    seen = []

    def look(event):
        seen.append(event)
        if isinstance(event, TaskDone):
            assert stored_runs(repository.database, 1)[-1].position == event.position
            assert len(repository) == event.position + 1
        else:
            assert repository.clusterings()[-1].stream == (1, event.position)

    run = lifelong(repository, look).run(TASKS)
    assert [heading(event) for event in seen] == STORY
    assert not any(event.replayed for event in seen)
    done = [event for event in seen if isinstance(event, TaskDone)]
    for event, stored in zip(done, stored_runs(repository.database, 1), strict=True):
        assert event.mean_return == pytest.approx(run.mean_returns[event.position])
        assert event.total == stored.returns.sum()
        assert event.learner_share == np.mean(stored.arms == event.n_sources)
        assert (event.name, event.task_id) == (TASKS[event.position].name, event.position + 1)
        assert (event.episodes, event.evaluation_episodes) == (30, 0)
    assert [event.n_sources for event in done] == [0, 0, 2, 2, 2]
    assert [event.value for event in done] == run.values.tolist()
    clustered = [event for event in seen if isinstance(event, Reclustered)]
    for event, record in zip(clustered, repository.clusterings(), strict=True):
        expected = [record.result[name] for name in ("n_tasks", "n_clusters", "cost", "mean_radius")]
        assert [event.n_tasks, event.n_clusters, event.cost, event.mean_radius] == expected


def test_a_resumed_agent_tells_first_what_is_stored(repository):
    with pytest.raises(Stopped):
        lifelong(repository, stop_at(3)).run(TASKS)
    seen = []
    lifelong(repository, seen.append).run(TASKS)
    assert [heading(event) for event in seen] == STORY
    assert [event.replayed for event in seen] == [True] * 5 + [False] * 2  # the clustering after task 3 was still due
    seen.clear()
    lifelong(repository, seen.append).run(TASKS)
    assert [heading(event) for event in seen] == STORY
    assert all(event.replayed for event in seen)


def test_what_was_clustered_before_the_first_task_is_told_first(repository):
    for task in TASKS[:2]:
        repository.add(task)
    for replayed in (False, True):
        seen = []
        lifelong(repository, seen.append).run(TASKS[2:])
        assert [heading(event) for event in seen] == ["clustered 0", "task 0", "task 1", "clustered 2", "task 2"]
        assert {event.replayed for event in seen} == {replayed}


def test_an_exception_in_a_hook_does_not_lose_the_committed_task(repository):
    with pytest.raises(ZeroDivisionError):
        lifelong(repository, lambda event: 1 / event.position).run(TASKS)
    assert [run.position for run in stored_runs(repository.database, 1)] == [0]
    assert repository.check() == []
    seen = []
    assert lifelong(repository, seen.append).run(TASKS[:2]).returns.shape == (2, 30)
    assert [event.replayed for event in seen] == [True, False, False]


def test_every_hook_is_called_in_turn(repository):
    calls = []
    hooks = [
        lambda event: calls.append(("first", heading(event))),
        lambda event: calls.append(("second", event.position)),
    ]
    lifelong(repository, *hooks, sources="none").run(TASKS[:2])
    assert calls == [("first", "task 0"), ("second", 0), ("first", "task 1"), ("second", 1)]


# JSON lines


def logged(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def unreplayed(lines):
    return [{name: value for name, value in line.items() if name != "replayed"} for line in lines]


def test_json_lines_hold_the_events(repository, tmp_path):
    seen, log = [], tmp_path / "log.jsonl"
    with JsonLines(log) as hook:
        lifelong(repository, seen.append, hook).run(TASKS)
        lines = logged(log)  # written at once, not when it is closed
    assert [line.pop("event") for line in lines] == ["task" if "task" in entry else "reclustered" for entry in STORY]
    assert lines == [asdict(event) for event in seen]


@pytest.mark.parametrize("k", [0, 1, 3])
def test_json_lines_after_a_resume_are_those_of_an_uninterrupted_run(repository, tmp_path, k):
    with Repository(tmp_path / "whole.db") as whole, JsonLines(tmp_path / "whole.jsonl") as hook:
        lifelong(whole, hook).run(TASKS)
    log = tmp_path / "log.jsonl"
    with JsonLines(log) as hook, pytest.raises(Stopped):
        lifelong(repository, hook, stop_at(k)).run(TASKS)
    assert len(logged(log)) == STORY.index(f"task {k}") + 1
    with JsonLines(log) as hook:
        lifelong(repository, hook).run(TASKS)
    assert unreplayed(logged(log)) == unreplayed(logged(tmp_path / "whole.jsonl"))
    assert [line["replayed"] for line in logged(log)].count(True) == STORY.index(f"task {k}") + 1


def test_a_refused_run_leaves_the_log_of_the_last(repository, tmp_path):
    log = tmp_path / "log.jsonl"
    with JsonLines(log) as hook:
        lifelong(repository, hook).run(TASKS[:2])
    before = log.read_text()
    assert before
    with JsonLines(log) as hook, pytest.raises(InvalidInputError, match=r"rng .* is another"):
        lifelong(repository, hook, seed=8).run(TASKS)
    assert log.read_text() == before


def test_a_log_that_cannot_be_written_gives_one_sentence(repository, tmp_path):
    with pytest.raises(InvalidInputError, match=r"JsonLines: .* cannot be written: Is a directory"):
        JsonLines(tmp_path)
    with pytest.raises(InvalidInputError, match=r"JsonLines: .* cannot be written: No such file"):
        JsonLines(tmp_path / "nowhere" / "log.jsonl")
    with (
        JsonLines("/dev/full") as hook,
        pytest.raises(InvalidInputError, match="JsonLines: /dev/full cannot be written: No space left"),
    ):
        lifelong(repository, hook).run(TASKS[:1])
    assert len(repository) == 1  # the task was committed all the same


# The bar


def test_on_a_dumb_terminal_the_bar_prints_nothing_broken(repository, capfd, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    with Progress(5) as hook:
        lifelong(repository, hook).run(TASKS)
    out, err = capfd.readouterr()
    assert out == ""  # where a script reads
    assert "\x1b" not in err
    assert err.strip() == ""


def test_on_a_terminal_the_bar_counts_tasks_and_is_gone_in_the_end(repository, monkeypatch):
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stderr", screen)
    with Progress(5) as hook:
        lifelong(repository, hook).run(TASKS)
        hook._bar.refresh()  # as its own clock would have done
    text = screen.getvalue()
    assert "5/5" in text
    assert "2 sources" in text
    assert text.endswith("\x1b[2K")  # the line is wiped


def test_an_exception_stops_the_bar(repository, monkeypatch):
    with Progress() as hook, pytest.raises(Stopped):  # of an unknown number of tasks
        lifelong(repository, hook, stop_at(1)).run(TASKS)
    assert hook._bar.live.is_started is False


# TensorBoard


def scalars(folder):
    """What TensorBoard shows: steps and values by tag."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    shown = EventAccumulator(str(folder)).Reload()
    return {tag: [(event.step, event.value) for event in shown.Scalars(tag)] for tag in shown.Tags()["scalars"]}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # tensorboard's own
def test_tensorboard_shows_every_event_once_even_after_a_resume(repository, tmp_path):
    folder, seen = tmp_path / "board", []
    with TensorBoard(folder) as hook, pytest.raises(Stopped):
        lifelong(repository, hook, stop_at(2)).run(TASKS)
    assert [step for step, _ in scalars(folder)["task/value"]] == [0, 1, 2]
    stranger = folder / "events.out.tfevents.1.another"
    stranger.write_bytes(b"")
    with TensorBoard(folder) as hook:
        lifelong(repository, hook, seen.append).run(TASKS)
    shown = scalars(folder)
    done = [event for event in seen if isinstance(event, TaskDone)]
    clustered = [event for event in seen if isinstance(event, Reclustered)]
    named = {
        "task": ("episodes", "total", "value", "n_sources", "learner_share", "evaluation_episodes", "mean_return"),
        "clustering": ("n_tasks", "n_clusters", "cost", "mean_radius"),
    }
    assert set(shown) == {f"{group}/{name}" for group, names in named.items() for name in names}
    for group, events in (("task", done), ("clustering", clustered)):
        for name in named[group]:
            steps, values = zip(*shown[f"{group}/{name}"], strict=True)
            assert list(steps) == [event.position for event in events]
            assert values == pytest.approx([getattr(event, name) for event in events], rel=1e-6)
    assert stranger.exists()  # not ours to remove


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_refused_run_leaves_what_tensorboard_shows(repository, tmp_path):
    with TensorBoard(tmp_path / "board") as hook:
        lifelong(repository, hook).run(TASKS[:2])
    before = scalars(tmp_path / "board")
    with TensorBoard(tmp_path / "board") as hook, pytest.raises(InvalidInputError, match=r"rng .* is another"):
        lifelong(repository, hook, seed=8).run(TASKS)
    assert before == scalars(tmp_path / "board") != {}


def test_without_tensorboard_there_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    for name in [name for name in sys.modules if name.startswith("tensorboard.")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InvalidInputError, match=r"TensorBoard: tensorboard is missing .*: pip install tensorboard"):
        TensorBoard(tmp_path / "board")
    assert not (tmp_path / "board").exists()


def test_a_file_in_the_folders_place_is_refused(tmp_path):
    (tmp_path / "board").write_text("not a folder")
    with pytest.raises(InvalidInputError, match=r"TensorBoard: .*board cannot be written: File exists"):
        TensorBoard(tmp_path / "board")
    assert (tmp_path / "board").read_text() == "not a folder"


# Names


QUICK = {"restarts": 1, "iterations": 500}


def stock(repository):
    """Two tasks with policies from files, both of which are kept."""
    for i, task in enumerate(TASKS[1:3]):
        repository.add(task, solve(task).policy, source=f"drawer/p{i}.npy")
    repository.keep(k=2)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # tensorboard's own
def test_events_speak_of_policies_by_name_also_after_a_resume(repository, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    stock(repository)
    seen, log, board = [], tmp_path / "log.jsonl", tmp_path / "board"
    stream = [TASKS[0], *TASKS[3:]]
    with pytest.raises(Stopped):
        lifelong(repository, stop_at(1), recluster_every=1, clustering=QUICK).run(stream)
    with JsonLines(log) as lines, TensorBoard(board) as shown:
        lifelong(repository, seen.append, lines, shown, recluster_every=1, clustering=QUICK).run(stream)
    for event, run in zip((e for e in seen if isinstance(e, TaskDone)), repository.runs(), strict=True):
        names = [*run.source_names, "learner"]
        assert event.shares == {names[arm]: np.mean(run.arms == arm) for arm in set(run.arms.tolist())}
        assert list(event.shares.values()) == sorted(event.shares.values(), reverse=True)
        assert run.stream_name == "continual"
    assert repository.runs()[0].source_names == ["p0.npy", "p1.npy"]
    clustered = [event for event in seen if isinstance(event, Reclustered)]
    assert [event.kept for event in clustered] == [
        record.result["kept"] for record in repository.clusterings() if record.stream
    ]
    assert {name for event in clustered for name in event.kept} <= {"p0.npy", "p1.npy", *(t.name for t in stream)}
    assert [line.get("shares", line.get("kept")) for line in logged(log)] == [
        event.shares if isinstance(event, TaskDone) else event.kept for event in seen
    ]
    texts = EventAccumulator(str(board), size_guidance={"tensors": 0}).Reload()
    told = [event.tensor_proto.string_val[0].decode() for event in texts.Tensors("task/name")]
    assert [line.split(":")[0] for line in told] == [task.name for task in stream]
    assert "p0.npy" in told[0]
    assert len(texts.Tensors("clustering/kept")) == len(clustered)


def test_a_picture_of_a_stream_names_its_tasks(repository):
    run = lifelong(repository).run(TASKS[:3])
    axes = run.plot().axes[-1]
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert len(labels) == 3
    assert all(label.startswith("weights") for label in labels)  # what differs between their names
    many = replace(
        run, names=run.names * 20, returns=np.tile(run.returns, (20, 1)), values=np.tile(run.values, 20),
        n_sources=np.tile(run.n_sources, 20), evaluation_episodes=np.tile(run.evaluation_episodes, 20),
    )  # fmt: skip
    assert "coloured" not in many.plot().axes[-1].get_xticklabels()[0].get_text()


def test_the_bar_names_the_task_at_hand(repository, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with Progress(2) as hook:
        lifelong(repository, hook).run(TASKS[:2])
        assert hook._bar.tasks[0].description.startswith("coloured")
