"""``pastmaster keep``: every option, what is printed, exit codes, and tables that cannot be read."""

from __future__ import annotations

import json
import os
import pty
import resource
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from click.testing import CliRunner, Result
from seams import Output, waiting

from pastmaster import keep, keep_curve
from pastmaster.cli import main, print_table

WIDE = """customer,baseline,ppo,dqn,rules,mpc
Adler,61,80,66,58,79
Busch,55,78,60,52,
Conti,40,31,72,70,45
Doro,42,35,75,76,50
Evers,58,71,61,55,74
Funk,12,9,30,33,10
"""
LONG = "task,policy,score\nx,a,1\nx,a,3\nx,b,2.4\nx,b,2.6\ny,a,5\ny,b,4\n"
ONCE = "each score was measured once: nothing is known of noise, nor how sure the choice is"
KEPT = ("policy", "column", "serves", "mean_loss", "largest_loss")


@pytest.fixture
def scores(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "scores.csv"
    path.write_text(WIDE)
    return path


def run(*arguments: object, text: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["keep", *map(str, arguments)], input=text)


def told(*arguments: object, text: str | None = None) -> dict:
    done = run(*arguments, "--json", text=text)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def random_table(path, n_tasks, n_policies, seed=0):
    table = np.random.default_rng(seed).normal(size=(n_tasks, n_policies)).round(3)
    lines = [f"task {i}," + ",".join(map(str, row)) for i, row in enumerate(table.tolist())]
    path.write_text("\n".join(["task," + ",".join(f"p{j}" for j in range(n_policies)), *lines]))
    return path


# what is printed


def test_the_kept_policies_a_line_to_each_task_and_the_proof(scores):
    done = run(scores, "-k", 2)
    assert (done.exit_code, done.stderr) == (0, "")
    *lines, last = done.stdout.splitlines()
    assert last == "2 of 5 policies kept (ppo, rules), mean loss 0.8333, largest 3, proven optimal, seed 0"
    assert [line.split() for line in lines] == [
        ["kept", "policy", "serves", "tasks", "mean", "loss", "most", "lost"],
        ["ppo", "3", "1", "3"],
        ["rules", "3", "0.6667", "2"],
        [],
        ["task", "policy", "loss"],
        ["Evers", "ppo", "3"],
        ["Conti", "rules", "2"],
        *([name, policy, "0"] for name, policy in (("Adler", "ppo"), ("Busch", "ppo"))),
        *([name, "rules", "0"] for name in ("Doro", "Funk")),
        [],
        ONCE.split(),
    ]


def test_of_many_tasks_the_worst_are_told_and_the_rest_counted(tmp_path):
    path = random_table(tmp_path / "many.csv", 100, 4)
    losses = np.sort(keep(path, k=2, rng=0).losses)[::-1]
    lines = run(path, "-k", 2).stdout.splitlines()
    rows = lines[5 : lines.index(next(line for line in lines if line.startswith("... and ")))]
    assert [float(row.split()[-1]) for row in rows] == [float(f"{loss:.4g}") for loss in losses[:20]]
    rest = f"... and 80 tasks more, which lose {losses[20]:.4g} at most, {(losses == 0).sum()} of them nothing"
    assert f"{rest} (--all shows them)" in lines
    everything = run(path, "-k", 2, "--all").stdout.splitlines()
    assert len(everything) == len(lines) - 21 + 100
    assert not any(line.startswith("... and ") for line in everything)


def test_a_table_of_forty_tasks_is_told_whole(tmp_path):
    lines = run(random_table(tmp_path / "forty.csv", 40, 12), "-k", 3).stdout.splitlines()
    assert sum(line.startswith("task ") for line in lines) == 41  # with the head


def test_scores_that_were_measured_several_times_are_told_with_what_to_measure_again(tmp_path):
    (tmp_path / "trials.csv").write_text(LONG)
    lines = run(tmp_path / "trials.csv", "-k", 1).stdout.splitlines()
    at = lines.index("measure again first, to be sure of the mean loss:")
    rows = [["x", "a", "1", "1"], ["y", "a", "-", "0.5"], ["y", "b", "-", "0.5"], ["x", "b", "0.1", "0.1"]]
    assert [line.split() for line in lines[at + 2 : at + 6]] == rows
    again = told(tmp_path / "trials.csv", "-k", 1)["measure_again"]
    assert again[0] == {"task": "x", "policy": "a", "standard_error": pytest.approx(1.0), "shift": pytest.approx(1.0)}
    assert [doubt["standard_error"] for doubt in again[1:3]] == [None, None]  # measured once


def test_noisy_scores_are_told_with_how_sure_the_choice_is(tmp_path, scores):
    (tmp_path / "trials.csv").write_text(LONG)
    found = keep(tmp_path / "trials.csv", k=1, rng=0).stability(rng=0)
    assert str(found) in run(tmp_path / "trials.csv", "-k", 1).stdout.splitlines()
    assert told(tmp_path / "trials.csv", "-k", 1)["stability"] == {
        "resamples": 200, "mean_loss": [found.low, found.high], "kept": found.kept,
    }  # fmt: skip
    assert told(scores, "-k", 2)["stability"] == {"resamples": 0, "mean_loss": None, "kept": None}


def test_of_many_doubts_the_first_are_told(tmp_path):
    rows = [f"t{i},{policy},{score}" for i in range(9) for policy, score in (("a", i), ("a", i + 1), ("b", i))]
    (tmp_path / "trials.csv").write_text("\n".join(["task,policy,score", *rows]))
    doubts = keep(tmp_path / "trials.csv", k=1, rng=0).doubts()
    assert f"... and {len(doubts) - 5} scores more (--json has all)" in run(tmp_path / "trials.csv", "-k", 1).stdout
    assert len(told(tmp_path / "trials.csv", "-k", 1)["measure_again"]) == len(doubts)


def test_quiet_prints_only_the_kept_policies(scores):
    done = run(scores, "-k", 2, "--quiet")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "ppo\nrules\n", "")
    assert run(scores, "--curve", "--quiet").stdout == "2\n"


def test_names_cannot_do_anything_to_a_terminal(tmp_path):
    (tmp_path / "odd.csv").write_text("task,\x1b[31mred,b\nx\x07,1,0\ny,2,0\n")
    done = run(tmp_path / "odd.csv", "-k", 1)
    assert r"\x1b[31mred" in done.stdout
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout
    assert told(tmp_path / "odd.csv", "-k", 1)["kept"][0]["policy"] == "\x1b[31mred"  # whole, and escaped by JSON


# the questions, and what may be told


def test_json_has_all_of_the_answer(scores):
    found, answer = told(scores, "-k", 2), keep(scores, k=2, rng=0)
    assert [tuple(policy) for policy in found["kept"]] == [KEPT, KEPT]
    assert [policy["policy"] for policy in found["kept"]] == answer.policies
    assert [policy["column"] for policy in found["kept"]] == answer.columns.tolist()
    assert sorted(task for policy in found["kept"] for task in policy["serves"]) == sorted(answer.task_names)
    assert [row["loss"] for row in found["tasks"]] == answer.losses.tolist()
    assert [row["task"] for row in found["tasks"]] == list(answer.task_names)
    assert (found["mean_loss"], found["largest_loss"], found["cost"]) == (answer.mean_loss, 3.0, answer.cost)
    assert (found["optimal"], found["interrupted"], found["seed"]) == (True, False, 0)
    assert (found["n_tasks"], found["n_policies"], found["measure_again"]) == (6, 5, [])
    assert found["lower_bound"] == answer.lower_bound
    assert found["gap"] == answer.gap


@pytest.mark.parametrize(
    ("options", "question"),
    [
        (["--max-loss", 2], {"max_loss": 2.0}),
        (["--price", 1.0], {"price": 1.0}),
        (["--episodes", 1000, "--span", 90], {"episodes": 1000.0, "span": 90.0}),
        (["-k", 2, "--must-keep", "dqn", "--never-keep", "rules"], {"k": 2, "must_keep": "dqn", "never_keep": "rules"}),
        (["-k", 3, "--must-keep", "dqn", "--must-keep", 0], {"k": 3, "must_keep": ["dqn", 0]}),
        (["-k", 1, "--never-keep", "dqn", "--never-keep", "mpc"], {"k": 1, "never_keep": ["dqn", "mpc"]}),
        (["-k", 2, "--lower-is-better"], {"k": 2, "lower_is_better": True}),
        (["-k", 2, "--seed", 7], {"k": 2, "rng": 7}),
    ],
)
def test_options_ask_what_the_library_answers(scores, options, question):
    found, answer = told(scores, *options), keep(scores, **{"rng": 0} | question)
    assert [policy["policy"] for policy in found["kept"]] == answer.policies
    assert found["cost"] == answer.cost
    assert found["seed"] == answer.seed
    assert (found["stability"] is None) == ("--episodes" in options)
    assert [row["loss"] for row in found["tasks"]] == answer.losses.tolist()


def test_the_price_may_be_measured(tmp_path):
    path = random_table(tmp_path / "many.csv", 24, 6)
    found, answer = (
        told(path, "--price", "measured", "--episodes", 50, "--must-keep", "p3"),
        keep(path, price="measured", episodes=50, must_keep="p3", rng=0),
    )
    assert found["cost"] == answer.cost
    assert found["price"] == answer.size_cost / answer.n_clusters > 0
    assert [policy["policy"] for policy in found["kept"]] == answer.policies
    assert told(path, "-k", 2)["price"] is None


def test_weights_come_from_a_file_by_name_or_in_order(scores, tmp_path):
    weights = {"Adler": 1, "Busch": 1, "Conti": 5, "Doro": 5, "Evers": 1, "Funk": 0}
    by_name = tmp_path / "weights.csv"
    by_name.write_text("task,weight\n" + "\n".join(f"{name},{weight}" for name, weight in reversed(weights.items())))
    in_order = tmp_path / "plain.csv"
    in_order.write_text("\n".join(map(str, weights.values())))
    answer = keep(scores, k=1, weights=weights, rng=0)
    for path in (by_name, in_order):
        found = told(scores, "-k", 1, "--weights", path)
        assert found["mean_loss"] == answer.mean_loss
        assert found["kept"][0]["mean_loss"] == pytest.approx(answer.mean_loss)


def test_a_policy_that_serves_only_tasks_that_do_not_count_has_no_mean_loss(scores, tmp_path):
    (tmp_path / "w.csv").write_text("task,weight\nAdler,0\nBusch,0\nEvers,0\nConti,1\nDoro,1\nFunk,1\n")
    found = told(scores, "-k", 2, "--weights", tmp_path / "w.csv", "--must-keep", "ppo")
    assert found["kept"][0]["mean_loss"] is None
    assert found["kept"][0]["largest_loss"] is not None
    assert run(scores, "-k", 2, "--weights", tmp_path / "w.csv", "--must-keep", "ppo").exit_code == 0


def test_columns_without_names_are_told_by_number(tmp_path):
    (tmp_path / "bare.csv").write_text("9,4,1\n8,5,2\n1,6,7\n")
    found = told(tmp_path / "bare.csv", "-k", 2, "--must-keep", 1)
    assert 1 in [policy["policy"] for policy in found["kept"]]
    (tmp_path / "named.csv").write_text("2,1,x\n9,4,1\n8,5,2\n1,6,7\n")
    assert "1" in [policy["policy"] for policy in told(tmp_path / "named.csv", "-k", 1, "--must-keep", 1)["kept"]]


def test_the_table_may_come_from_standard_input(scores):
    assert told("-", "-k", 2, text=WIDE) == told(scores, "-k", 2)
    assert told("-", "-k", 1, text=LONG)["measure_again"]
    done = run("-", "-k", 2, "--quiet", text=WIDE)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "ppo\nrules\n", "")


def test_a_time_limit_ends_the_proof_and_the_answer_says_what_is_known(tmp_path):
    path = random_table(tmp_path / "hard.csv", 300, 120)
    begun = time.perf_counter()
    found = told(path, "-k", 10, "--time-limit", 0.5)
    assert time.perf_counter() - begun < 20.0
    assert not found["optimal"]
    assert 0 <= found["lower_bound"] < found["cost"]
    last = run(path, "-k", 10, "--time-limit", 0.5).stdout.splitlines()[-1]
    assert "% of optimal" in last or "no choice costs less than" in last
    assert "inf" not in run(path, "-k", 10, "--time-limit", 0).stdout.splitlines()[-1]


# the curve


def test_the_curve_has_a_line_to_each_number_of_policies(scores):
    done, curve = run(scores, "--curve"), keep_curve(scores, rng=0)
    assert done.exit_code == 0
    head, *lines, empty, last = done.stdout.splitlines()
    assert " ".join(head.split()) == "policies mean loss at least most lost mean loss which"
    assert [int(line.split()[0]) for line in lines] == [1, 2, 3, 4]
    assert [line.count("#") for line in lines] == [30, 4, 2, 0]
    assert lines[1].endswith("ppo, rules")
    assert (empty, last) == ("", "2 would do: after that a further policy saves little (seed 0)")
    found = told(scores, "--curve")
    assert (found["elbow"], found["seed"]) == (curve.elbow, 0)
    assert [one["mean_loss"] for one in found["curve"]] == curve.mean_loss.tolist()
    assert [one["policies"] for one in found["curve"]] == [answer.policies for answer in curve.answers]
    assert [one["lower_bound"] for one in found["curve"]] == curve.lower_bound.tolist()
    assert [one["k"] for one in told(scores, "--curve", "-k", 2)["curve"]] == [1, 2]


# pictures and bars


@pytest.mark.parametrize("question", [("-k", "2"), ("--curve",), ("--max-loss", "2")])
def test_a_picture_is_drawn(scores, tmp_path, question):
    done = run(scores, *question, "--picture", tmp_path / "new" / "kept.png", "--json")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "new" / "kept.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert "picture: " in done.stderr
    json.loads(done.stdout)


def test_a_picture_that_cannot_be_drawn_is_refused_first(scores, tmp_path):
    done = run(tmp_path / "none.csv", "-k", 2, "--picture", "kept.xyz")
    assert done.exit_code == 2
    assert "must end in .png, .svg or .pdf" in done.stderr


def on_terminal(*arguments: object) -> tuple[str, str]:
    """What is printed, and what a person sees beside it on a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "pastmaster", "keep", *map(str, arguments)]
    environment = os.environ | {"TERM": "xterm"}
    seen = b""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True) as process:
        os.close(theirs)
        try:
            while some := os.read(ours, 4096):
                seen += some
        except OSError:  # nobody writes any more
            pass
        printed = process.stdout.read()
    os.close(ours)
    assert process.returncode == 0
    return printed, seen.decode()


def test_who_waits_longer_than_two_seconds_sees_a_bar(tmp_path):
    hard = random_table(tmp_path / "hard.csv", 500, 300)  # takes all of its time on a fast machine too
    printed, seen = on_terminal(hard, "-k", 20, "--time-limit", 3, "--seed", 1)
    assert "searching and proving" in seen
    assert "searching" not in printed


def test_bars_are_for_terminals_and_not_for_the_quiet(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert Output().bars
    assert not Output(quiet=True).bars
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    assert not Output().bars


def test_a_bar_waits_two_seconds(capfd):
    with waiting("proving", 9.0, wanted=True):
        time.sleep(0.3)
    assert capfd.readouterr().err == ""


def test_no_thread_is_left(scores, monkeypatch):
    monkeypatch.setattr(Output, "bars", True)
    threads = threading.active_count()
    assert run(scores, "-k", 2).exit_code == 0
    assert run(scores, "-k", 9).exit_code == 1
    assert threading.active_count() == threads


# endings


def test_ctrl_c_tells_the_best_so_far_and_exits_with_130(scores, monkeypatch):
    def stopped(*arguments, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["pastmaster.clustering.columns"]._Search, "prove", stopped)
    done = run(scores, "-k", 2)
    assert done.exit_code == 130
    assert done.stdout.splitlines()[-1].endswith("interrupted, seed 0")
    done = run(scores, "--curve")
    assert done.exit_code == 130
    assert len(done.stdout.splitlines()) == 4  # the first number only


def test_ctrl_c_while_reading_ends_with_130(scores, monkeypatch):
    def stopped(*arguments, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["pastmaster.clustering.scores"], "from_csv", stopped)
    done = run(scores, "-k", 2)
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", "interrupted\n")


ONE = "must be one question: k, or max_loss, or price, or episodes and span"
MEASURED = "--price is 'measured' beside another question, must be a number, or 'measured' with episodes alone"
WRONG = {
    "nothing asked": ((), 2, f"keep: nothing is asked, {ONE}"),
    "two questions": (("-k", 1, "--price", 2), 2, f"keep: k and price are given, {ONE}"),
    "episodes alone": (("--episodes", 9), 2, "--span is None, must be given where episodes is"),
    "a span with k": (("-k", 1, "--span", 9), 2, f"keep: k and span are given, {ONE}"),
    "a curve and a price": (("--curve", "--price", 1), 2, "--curve is given with another question, must be alone"),
    "a measured price alone": (("--price", "measured"), 2, "--episodes is None, must be a whole number, at least 1"),
    "a measured price with a span": (("--price", "measured", "--episodes", 9, "--span", 9), 2, MEASURED),
    "a measured price with k": (("--price", "measured", "--episodes", 9, "-k", 1), 2, MEASURED),
    "half an episode": (("--price", "measured", "--episodes", 9.5), 2, "Invalid value for '--episodes': '9.5' is not"),
    "no price": (("--price", "cheap"), 2, "Invalid value for '--price': 'cheap' is not a number, nor measured"),
    "a price with episodes": (("--price", 2, "--episodes", 9), 2, f"keep: price and episodes are given, {ONE}"),
    "a measured price of times": (
        ("--price", "measured", "--episodes", 9, "--lower-is-better"), 1, "--lower-is-better is True, must be False"
    ),
    "words": (("-k", "three"), 2, "Invalid value for '-k'"),
    "no such option": (("-k", 1, "--loud"), 2, "No such option"),
    "too many": (("-k", 9), 1, "-k is 9, must be a whole number, in 1..5"),
    "a curve too long": (("--curve", "-k", 9), 1, "-k is 9, must be a whole number, in 1..5"),
    "a loss below 0": (("--max-loss", -1), 1, "--max-loss is -1.0, must be at least 0"),
    "a loss too low": (
        ("--max-loss", 1, "--never-keep", "ppo"),
        1,
        "--max-loss is 1, but task 'Busch' loses at least 18 under every policy that may be kept, must be at least 18",
    ),
    "a price below 0": (("--price", -2), 1, "--price is -2.0, must be in 0 .. 1e+300"),
    "an unknown policy": (("-k", 2, "--must-keep", "pp"), 1, "--must-keep holds 'pp', must be the name of a policy or"),
    "a column too far": (("-k", 2, "--never-keep", 5), 1, "--never-keep holds 5, must be the name of a policy or a"),
    "time": (("-k", 1, "--time-limit", -1), 1, "--time-limit is -1.0, must be at least 0"),
    "time without end": (("-k", 1, "--time-limit", "nan"), 1, "--time-limit is nan, must be at least 0"),
    "no weights": (("-k", 1, "--weights", "none.csv"), 1, "--weights is 'none.csv', which does not exist, must be a"),
    "weights with the paper's cost": (
        ("--episodes", 9, "--span", 1, "--weights", "scores.csv"), 1, "--weights has 5 columns of numbers, must have o"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_slip_is_one_sentence_that_names_the_option(scores, what):
    options, code, sentence = WRONG[what]
    done = run(scores, *options)
    assert (done.exit_code, done.stdout) == (code, "")
    assert isinstance(done.exception, SystemExit)
    line = done.stderr.splitlines()[-1]
    assert line.startswith(f"Error: {sentence}")
    assert code == 2 or len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("task,weight\nAdler,1\n", "--weights: 'Busch' has none, must be one weight to each task"),
        ("task,weight\nAdler,1\nAdler,2\n", "--weights has 'Adler' twice, must have a line to each task"),
        ("task,weight\nAdler,heavy\n", "--weights: line 2, column 'weight' is 'heavy', must be a number"),
        ("task,weight\n", "--weights has a header only, must have a row to each task"),
        ("1\n2\n", "--weights has shape (2,), must be [6]"),
        ("1\n2\n3\n4\n5\n-6\n", "--weights of task 'Funk' is -6.0, must be finite and at least 0"),
    ],
)
def test_weights_that_do_not_fit_are_refused(scores, tmp_path, text, sentence):
    (tmp_path / "weights.csv").write_text(text)
    done = run(scores, "-k", 1, "--weights", tmp_path / "weights.csv")
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: {sentence}")


BAD = {
    "text": ("task,a,b\nx,1,2\ny,3,fast\n", "bad.csv: line 3, column 'b' is 'fast', must be a number, or empty where"),
    "a short line": ("task,a,b\nx,1,2\ny,3\n", "bad.csv: line 3 has 2 cells, must have 3 as the first line"),
    "an open quote": ('task,a\n"x,1\n', "bad.csv: line 2 is not CSV: unexpected end of data"),
    "bytes": (b"task,a\nx,\xff\n", "bad.csv: line 2 is not text in UTF-8, must be: save as CSV UTF-8"),
    "a workbook": (b"PK\x03\x04rest", "SCORES is 'bad.csv', an Excel workbook, must be text: save as CSV UTF-8"),
    "a header only": ("task,a\n", "bad.csv has a header only, must have a row to each task"),
    "no scores": ("task,a\nx,\n", "bad.csv has none for task 'x', must have one at least: leave it out"),
    "infinity": ("task,a\nx,inf\n", "bad.csv: scores[task 'x', policy 'a'] is inf, must be finite (below 1e300)"),
    "no lines": ("\n\n", "SCORES is 'bad.csv', which has no lines, must have a header and a row to a task"),
    "nothing": ("", "SCORES is 'bad.csv', an empty file, must be a .csv file"),
    "a terminal's command": ("task,a\nx,\x1b[2J\n", r"bad.csv: line 2, column 'a' is '\x1b[2J', must be a number"),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("question", [("-k", 1), ("--curve",)])
def test_a_bad_file_is_refused_by_name_line_and_column(scores, tmp_path, what, question):
    text, sentence = BAD[what]
    content = text if isinstance(text, bytes) else text.encode()
    (tmp_path / "bad.csv").write_bytes(content)
    done = run("bad.csv", *question)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: {sentence}")
    assert len(done.stderr.splitlines()) == 1
    if content:
        from_input = run("-", *question, text=content)
        assert from_input.exit_code == 1
        assert from_input.stderr.startswith(f"Error: {sentence.replace('bad.csv', 'standard input')}")


def test_a_file_that_is_not_there_is_refused_with_what_is(scores):
    done = run("scorse.csv", "-k", 1)
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: SCORES is 'scorse.csv', which does not exist, must be a .csv file; '.' has ")
    assert "'scores.csv'" in done.stderr
    assert run("-", "-k", 1, text="").stderr.startswith("Error: SCORES is 'standard input', which has no lines")


# the clock


def test_a_small_table_is_answered_in_a_second_and_a_half(tmp_path):
    """Start and all; in seconds of this process's own, since others may be at work on the machine."""
    path = random_table(tmp_path / "small.csv", 40, 12)
    command, taken = [sys.executable, "-m", "pastmaster", "keep", str(path), "-k", "3"], []
    subprocess.run(command, capture_output=True, check=True)  # compiles, if nobody has
    while len(taken) < 3 and not (taken and taken[-1] < 1.5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(taken) < 1.5


def test_the_command_loads_no_more_than_it_needs(scores):
    asked = "import sys; from pastmaster.cli import main; main(sys.argv[1:], standalone_mode=False); "
    code = (
        asked + "print(sorted({'pandas', 'matplotlib', 'rich', 'sqlalchemy', 'torch', 'highspy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "keep", str(scores), "-k", "2"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_long_names_of_a_column_can_be_told_apart(capsys):
    """In every column: a name is cut where it is alike, not where it differs."""
    names = [f"{'a' * 70}, gravity {gravity}, {'b' * 70}" for gravity in (5, 9)]
    print_table(("policy", "file", "n"), [(name, f"drawer/{name}.zip", 1) for name in names])
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ") for line in lines] == [["gravity 5"] * 2 + ["1"], ["gravity 9"] * 2 + ["1"]]
