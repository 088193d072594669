from __future__ import annotations

import re

import numpy as np
import pytest
from leduc_table import Player, hands, may

from pastmaster import InvalidInputError, cross_values, evaluate, return_bounds, solve, transfer
from pastmaster_paper import leduc
from pastmaster_paper.leduc import (
    CALL,
    FOLD,
    GAMMA,
    KINDS,
    RAISE,
    opponents as leduc_opponents,
    tree as leduc_tree,
)

STATES = leduc.information_states()
LEGAL = np.array([[letter in may(s.second if s.public else s.first) for letter in "fcr"] for s in STATES])


def anyhow(rng: np.random.Generator) -> np.ndarray:
    """A strategy without rhyme or reason, which puts something on illegal actions too."""
    return rng.dirichlet(np.ones(3), len(STATES))


def value(task, policy) -> float:
    return float(task.start_distribution() @ evaluate(task, policy))


@pytest.fixture(scope="module")
def family():
    return leduc.family(18, rng=5)


# The game


def test_there_are_144_information_states_in_each_seat():
    assert len(STATES) == len(set(STATES)) == 288
    assert sum(state.seat == 0 for state in STATES) == 144
    for state in STATES:
        assert (state.public == "") == (state.first in leduc_tree.OPEN)
        assert len(state.second if state.public else state.first) % 2 == state.seat


def test_legal_actions_are_those_of_the_rules():
    assert np.array_equal(leduc_tree.tree().legal, LEGAL)


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_sum_to_one_and_only_the_end_of_a_hand_pays(kind, seed):
    task = leduc.task(leduc.opponent(kind, rng=seed))
    possible = task.probability > 0
    np.testing.assert_allclose(task.probability.sum(axis=2), 1.0, rtol=0, atol=1e-14)
    assert task.start_distribution().sum() == pytest.approx(1.0, abs=1e-14)
    assert not task.reward[possible & ~task.terminated].any()
    assert (task.n_states, task.n_actions, task.gamma, task.horizon) == (288, 3, GAMMA, 4)


def test_a_hand_starts_with_a_card_in_seat_0_and_with_what_the_opponent_did_in_seat_1():
    strategy = np.tile([0.0, 0.75, 0.25], (288, 1))
    start = leduc.task(strategy).start_distribution()
    for state, probability in zip(STATES, start, strict=True):
        chances = {(0, ""): 1 / 6, (1, "c"): 0.75 / 6, (1, "r"): 0.25 / 6}
        expected = 0.0 if state.public else chances.get((state.seat, state.first), 0.0)
        assert probability == pytest.approx(expected, abs=1e-15)


def test_a_chip_is_worth_the_same_at_every_decision():
    """What ends a hand pays a whole number of chips, once the discount of the decisions before it is counted."""
    task = leduc.task(leduc.opponent("random", rng=0))
    for s, state in enumerate(STATES):
        earlier = sum(len(betting[state.seat :: 2]) for betting in (state.first, state.second))
        chips = task.reward[s] * GAMMA**earlier
        np.testing.assert_allclose(chips, np.round(chips), rtol=0, atol=1e-12)
    bounds = return_bounds([task])
    assert (bounds.lower, bounds.upper) == (pytest.approx(-13, abs=1e-9), pytest.approx(13, abs=1e-9))


@pytest.mark.parametrize("action", [FOLD, RAISE])
def test_an_illegal_action_calls(action):
    task = leduc.task(leduc.opponent("rock", rng=0))
    for s in np.flatnonzero(~LEGAL[:, action]):
        for array in (task.next_state, task.reward, task.probability, task.terminated):
            assert np.array_equal(array[s, action], array[s, CALL])
    assert (~LEGAL[:, action]).any()


def test_an_opponents_illegal_action_calls_too():
    always_fold = leduc.task(np.zeros(288, int))
    meant = leduc.task(np.where(LEGAL[:, FOLD], FOLD, CALL))
    assert np.array_equal(always_fold.probability, meant.probability)
    assert np.array_equal(always_fold.start_distribution(), meant.start_distribution())


def test_who_folds_to_every_raise_loses_the_ante():
    assert solve(leduc.task(np.zeros(288, int))).start_value == pytest.approx(1.0, abs=1e-12)


def test_any_strategy_wins_nothing_from_itself(seed):
    for s in range(5):
        strategy = anyhow(np.random.default_rng([seed, s]))
        assert value(leduc.task(strategy), strategy) == pytest.approx(0.0, abs=1e-12)


def test_two_strategies_win_from_each_other_what_the_other_loses(rng):
    one, two = anyhow(rng), anyhow(rng)
    assert value(leduc.task(one), two) == pytest.approx(-value(leduc.task(two), one), abs=1e-12)


def test_states_where_the_opponent_never_leads_go_by_the_cards_alone():
    task = leduc.task(np.full(288, CALL))
    state = STATES.index((0, "Q", "", "cr", ""))  # the opponent never raises: it may have J, Q or K
    for public, chance in {"J": 2 / 5, "Q": 1 / 5, "K": 2 / 5}.items():
        following = [STATES[s].public == public for s in task.next_state[state, CALL]]
        assert task.probability[state, CALL][following].sum() == pytest.approx(chance)
    np.testing.assert_allclose(task.probability.sum(axis=2), 1.0, rtol=0, atol=1e-14)


# Against hands that are dealt with cards


@pytest.mark.parametrize("kind", ["rock", "maniac", "near-equilibrium"])
def test_dealt_hands_earn_the_exact_value(kind, rng):
    strategy, ours = leduc.opponent(kind, rng=1), anyhow(rng)
    won, *_ = hands(Player(STATES, ours), Player(STATES, strategy), 100_000, rng)
    off = abs(won.mean() - value(leduc.task(strategy), ours))
    assert off < 5 * won.std() / np.sqrt(len(won))


def worst_score(task, followed) -> float:
    """The largest z-score of how often something followed, against its probability in the task."""
    numbers = {tuple(state): s for s, state in enumerate(STATES)}
    met: dict[tuple, int] = {}
    for (known, letter, _), n in followed.items():
        met[known, letter] = met.get((known, letter), 0) + n
    scores = []
    for (known, letter), n in met.items():
        s, action = numbers[known], "fcr".index(letter)
        for k in np.flatnonzero(task.probability[s, action] > 0):
            p = task.probability[s, action, k]
            chips = round(task.reward[s, action, k])
            end = task.terminated[s, action, k]
            seen = followed[known, letter, chips if end else tuple(STATES[task.next_state[s, action, k]])]
            if n * p * (1 - p) > 50:
                scores.append(abs(seen - n * p) / np.sqrt(n * p * (1 - p)))
    assert len(scores) > 200
    return max(scores)


def test_what_follows_does_not_depend_on_how_we_came_there(rng, monkeypatch):
    """Hands of two policies of ours, counted with cards on the table, follow the same probabilities: Bayes' rule."""
    strategy = leduc.opponent("tight-aggressive", rng=2)
    counted = [
        hands(Player(STATES, ours), Player(STATES, strategy), 120_000, rng)[2]
        for ours in (np.full((288, 3), 1 / 3), 0.5 * leduc.opponent("maniac", rng=3) + 0.5 / 3)
    ]
    task = leduc.task(strategy)
    assert max(worst_score(task, followed) for followed in counted) < 7.0  # of some hundred scores: level 1e-6
    monkeypatch.setattr(
        leduc_tree, "reach", lambda _: leduc_tree.tree().dealt
    )  # a player that learns nothing from bets
    assert min(worst_score(leduc.task(strategy), followed) for followed in counted) > 20


def test_episodes_of_transfer_earn_the_exact_value(family):
    policies = [solve(task).policy for task in family[:2]]
    run = transfer(family[0], policies, episodes=4000, trials=5, rng=0)
    for arm, policy in enumerate(policies):
        returns = run.returns[run.arms == arm]
        off = abs(returns.mean() - value(family[0], policy))
        assert off < 5 * returns.std() / np.sqrt(len(returns))
    np.testing.assert_allclose(run.returns, np.round(run.returns), rtol=0, atol=1e-12)  # chips


# Against OpenSpiel


def known_by(text: str) -> tuple[int, str, str, str, str]:
    """OpenSpiel's text of an information state, as ours: cards 0..5 by rank."""
    seat, card, first, second = re.match(
        r"\[Observer: (\d)\]\[Private: (\d)\].*\[Round1: ?([\d ]*)\]\[Round2: ?([\d ]*)\]", text
    ).groups()
    public = re.search(r"\[Public: (\d)\]", text)
    betting = ["".join("fcr"[int(number)] for number in numbers.split()) for numbers in (first, second)]
    return (int(seat), "JQK"[int(card) // 2], "JQK"[int(public[1]) // 2] if public else "", *betting)


@pytest.fixture(scope="module")
def spiel():
    return pytest.importorskip("pyspiel", reason="OpenSpiel is not installed: pip install 'pastmaster-paper[games]'")


@pytest.fixture(scope="module")
def game(spiel):
    return spiel.load_game("leduc_poker")


def as_spiel(game, strategy: np.ndarray):
    """A strategy of ours as OpenSpiel's, in all its 936 states; illegal actions call."""
    from open_spiel.python.policy import TabularPolicy

    policy = TabularPolicy(game)
    done = np.where(LEGAL, strategy, 0.0)
    done[:, CALL] += np.where(LEGAL, 0.0, strategy).sum(axis=1)
    for text, row in policy.state_lookup.items():
        policy.action_probability_array[row] = done[STATES.index(known_by(text))]
    return policy


def test_information_states_legal_actions_and_payoffs_are_those_of_openspiel(game):
    """Every hand of OpenSpiel's tree, from its deal to its end."""
    rule, texts, ends = leduc_tree.tree(), set(), 0
    assert game.max_utility() == 13

    def walk(state):
        nonlocal ends
        if state.is_terminal():
            ends += 1
            return
        for action in state.legal_actions():
            if not state.is_chance_node():
                seat = state.current_player()
                text = state.information_state_string(seat)
                texts.add(text)
                s = STATES.index(known_by(text))
                assert np.flatnonzero(rule.legal[s]).tolist() == state.legal_actions()
                if (child := state.child(action)).is_terminal():
                    assert child.returns()[seat] in rule.reward[s, action][rule.terminated[s, action]]
            walk(state.child(action))

    walk(game.new_initial_state())
    assert len(texts) == 936
    assert {known_by(text) for text in texts} == set(STATES)
    assert ends > 5000


@pytest.mark.parametrize("kind", KINDS)
def test_fixed_policies_are_worth_what_openspiel_says(game, kind, rng):
    from open_spiel.python.algorithms.expected_game_score import policy_value

    theirs, ours = leduc.opponent(kind, rng=4), anyhow(rng)
    us, them, root = as_spiel(game, ours), as_spiel(game, theirs), game.new_initial_state()
    seats = policy_value(root, [us, them])[0], policy_value(root, [them, us])[1]
    assert value(leduc.task(theirs), ours) == pytest.approx(np.mean(seats), abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_best_responses_are_worth_what_openspiel_says(game, kind):
    """Also in the game that tells suits apart: they are of no use."""
    from open_spiel.python.algorithms.best_response import BestResponsePolicy

    theirs = leduc.opponent(kind, rng=6)
    them, root = as_spiel(game, theirs), game.new_initial_state()
    seats = [BestResponsePolicy(game, seat, them).value(root) for seat in (0, 1)]
    assert solve(leduc.task(theirs)).start_value == pytest.approx(np.mean(seats), abs=1e-9)


# Opponents


def test_a_best_response_is_beaten_by_no_other_policy(family):
    U = cross_values(family)
    own = np.diag(U)
    assert (own >= U.max(axis=1) - 1e-9).all()
    assert own.tolist() == pytest.approx([solve(task).start_value for task in family], abs=1e-9)


def test_the_family_has_as_many_of_each_kind_and_names_them(family):
    assert [task.params["kind"] for task in family] == [kind for kind in KINDS for _ in range(3)]
    for task in family:
        kind, number = task.params["kind"], task.params["seed"]
        assert task.name == f"Leduc, {kind} {number}"
        assert np.array_equal(task.probability, leduc.task(leduc.opponent(kind, rng=number)).probability)
    assert len(leduc.family(rng=0)) == 60


def test_tasks_share_states_rewards_and_actions_but_not_probabilities(family):
    for task in family[1:]:
        for array in ("next_state", "reward", "terminated"):
            assert np.array_equal(getattr(task, array), getattr(family[0], array))
        assert not np.array_equal(task.probability, family[0].probability)


@pytest.mark.parametrize("kind", KINDS)
def test_two_opponents_of_a_kind_differ_and_do_nothing_surely(kind):
    first, again, other = (leduc.opponent(kind, rng=s) for s in (1, 1, 2))
    assert np.array_equal(first, again)
    assert np.abs(first - other).max() > 0.01
    for strategy in (first, other):
        assert (strategy[LEGAL] >= leduc_opponents.SLIP / 3 - 1e-15).all()
        assert not strategy[~LEGAL].any()
        np.testing.assert_allclose(strategy.sum(axis=1), 1.0, rtol=0, atol=1e-14)


def test_kinds_play_as_they_are_called(seed):
    """Of a hundred draws of each kind, at the decisions of the first round, all cards alike."""
    folds, raises = {}, {}
    facing, first = LEGAL[:, FOLD], np.array([not state.public for state in STATES])
    for kind in KINDS[:4]:
        drawn = np.mean([leduc.opponent(kind, rng=np.random.default_rng([seed, i])) for i in range(100)], axis=0)
        folds[kind], raises[kind] = drawn[facing & first, FOLD].mean(), drawn[LEGAL[:, RAISE] & first, RAISE].mean()
    for tight in ("rock", "tight-aggressive"):
        for loose in ("calling station", "maniac"):
            assert folds[tight] > 1.5 * folds[loose]
    for aggressive in ("tight-aggressive", "maniac"):
        for passive in ("rock", "calling station"):
            assert raises[aggressive] > 1.5 * raises[passive]


def test_random_players_do_not_look_at_their_cards():
    strategy = leduc.opponent("random", rng=3)
    seen: dict[tuple, set] = {}
    for state, row in zip(STATES, strategy.round(12).tolist(), strict=True):
        seen.setdefault((state.seat, state.public != "", state.first, state.second), set()).add(tuple(row))
    assert all(len(rows) == 1 for rows in seen.values())


def test_regret_minimisation_comes_to_the_equilibrium():
    """The value of Leduc hold'em to the first player is -0.0856 chips a hand."""
    strategy = leduc_opponents.regret_minimisation(1000, np.zeros((288, 3)))
    task = leduc.task(strategy)
    assert solve(task).start_value < 0.01  # what the best response wins: the equilibrium loses nothing
    start = np.where([state.seat == 0 for state in STATES], task.start_distribution(), 0.0)
    assert 2 * start @ evaluate(task, strategy) == pytest.approx(-0.0856, abs=0.005)
    fewer = [solve(leduc.task(leduc_opponents.regret_minimisation(n, np.zeros((288, 3))))) for n in (1, 10, 100)]
    assert fewer[0].start_value > fewer[1].start_value > fewer[2].start_value > solve(task).start_value


def test_near_equilibrium_is_the_hardest_kind_to_win_from(family):
    best = {kind: [] for kind in KINDS}
    for task in family:
        best[task.params["kind"]].append(solve(task).start_value)
    hardest = best.pop("near-equilibrium")
    assert max(hardest) < 0.2 < min(value for values in best.values() for value in values)


def test_new_opponents_are_others(family):
    new = leduc.new_tasks(40, rng=6)
    assert {task.name for task in new}.isdisjoint(task.name for task in family)
    assert {task.params["kind"] for task in new} == set(KINDS)


def test_a_seed_gives_the_same_opponents(seed):
    for draw in (leduc.family, leduc.new_tasks):
        first, again, other = (draw(7, rng=s) for s in (seed, seed, seed + 1))
        for one, two in zip(first, again, strict=True):
            assert np.array_equal(one.probability, two.probability)
        assert [task.name for task in first] != [task.name for task in other]


def test_a_policy_can_be_an_opponent(family):
    best = solve(family[0])
    assert np.array_equal(leduc.task(best).probability, leduc.task(np.eye(3)[best.policy]).probability)


# Refusals


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: leduc.opponent("shark"), r"leduc\.opponent: kind is 'shark', must be one of 'rock', "),
        (lambda: leduc.opponent(3), r"leduc\.opponent: kind is 3, must be one of"),
        (lambda: leduc.task(np.zeros((288, 3))), r"leduc\.task: strategy\[0\] is .*, must be probabilities that sum"),
        (
            lambda: leduc.task(np.ones(287, int)),
            r"leduc\.task: strategy has shape \(287,\) .*, must be \[288\] integer",
        ),
        (lambda: leduc.task(np.full(288, 3)), r"leduc\.task: strategy\[0\] is action 3, must be in 0\.\.2"),
        (lambda: leduc.task(np.full((288, 3), np.nan)), r"leduc\.task: strategy\[0\] is .*nan"),
        (lambda: leduc.task(None), r"leduc\.task: strategy is None"),
        (lambda: leduc.task(np.ones(288, int), name=3), r"TabularMDP: name is 3, must be a text"),
        (lambda: leduc.task(np.ones(288, int), params=3), r"TabularMDP: params is 3, must be a mapping"),
        (lambda: leduc.family(0), r"leduc\.family: n_opponents is 0, must be a whole number"),
        (lambda: leduc.family(2.5), r"leduc\.family: n_opponents is 2\.5"),
        (lambda: leduc.new_tasks(-1), r"leduc\.new_tasks: n_tasks is -1, must be a whole number"),
        (lambda: leduc.new_tasks(True), r"leduc\.new_tasks: n_tasks is True"),
    ],
)
def test_what_makes_no_sense_is_refused(call, sentence):
    with pytest.raises(InvalidInputError, match=f"^{sentence}"):
        call()
