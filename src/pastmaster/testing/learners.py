"""The contract of a learner, as a function that anyone can run."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np

from pastmaster.checks import whole
from pastmaster.errors import ContractError, InvalidInputError
from pastmaster.tables import shown
from pastmaster.testing.policies import check_policy
from pastmaster.testing.tasks import same

GAMMA = 0.9
LENGTH = 10  # steps of an episode


def check_learner(
    settings: Any,
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
    *,
    steps: int = 200,
    seed: int = 0,
) -> None:
    """Check that a learner keeps its contract, on steps drawn at random from its spaces.

    It checks that

    * ``start(observation_space, action_space, gamma, rng)`` gives a learner with ``act`` and ``learn``;
    * ``act`` gives actions of the action space, and neither ``act`` nor ``learn`` changes what it is given;
    * the same seed and steps give the same actions, also after another learner of the same settings has run;
    * ``policy``, if there is one, is a policy (see ``check_policy``); ``learn_from`` is "own" or "every";
    * ``likelihood(observation, action)``, if there is one, sums to 1 over Discrete actions and is above 0 for actions
      taken; ``unlearn``, if there is one, takes updates of ``Q`` back.

    Parameters
    ----------
    settings : LearnerSettings
        An object with a method ``start``, as ``transfer`` takes it for its ``learner``.
    observation_space, action_space : gymnasium.Space
        Where it learns.
    steps : int
        The number of steps that are learned from.
    seed : int
        Seeds the learner and the steps.

    Raises
    ------
    ContractError
        The first rule that the learner breaks, and the likely cause.

    Examples
    --------
    >>> import gymnasium as gym
    >>> from pastmaster import QLearning
    >>> from pastmaster.testing import check_learner
    >>> check_learner(QLearning(), gym.spaces.Discrete(4), gym.spaces.Discrete(2))
    """
    for name, space in (("observation_space", observation_space), ("action_space", action_space)):
        if not isinstance(space, gym.Space):
            raise InvalidInputError(f"check_learner: {name} is {shown(space)}, must be a space of Gymnasium")
    if isinstance(settings, type) or not callable(getattr(settings, "start", None)):
        raise ContractError(
            f"check_learner: {shown(settings)} has no method start(observation_space, action_space, gamma, rng): pass "
            "an object, not a class"
        )
    learn_from = getattr(settings, "learn_from", "own")
    if learn_from not in ("own", "every"):
        raise ContractError(f"check_learner: learn_from is {shown(learn_from)}, must be 'own' or 'every'")
    check = _Check(
        settings,
        observation_space,
        action_space,
        whole("check_learner", "steps", steps, at_least=1),
        seed,
    )
    learner = check.started()
    taken = check.run(learner)
    if not all(map(same, taken, check.run(check.started()))):
        raise ContractError(
            "check_learner: the same seed and steps give other actions: does it draw from a generator other than its "
            "rng, or do learners of the same settings share something that start should make anew?"
        )
    check.policy(learner)
    check.likelihood(learner)
    check.unlearn(learner)


class _Check:
    """Learners of one setting, and steps for them, from one seed."""

    def __init__(
        self,
        settings: Any,
        observations: gym.Space[Any],
        actions: gym.Space[Any],
        steps: int,
        seed: int,
    ) -> None:
        self.settings = settings
        self.seed = whole("check_learner", "seed", seed, at_least=0)
        self.observing = copy.deepcopy(observations)
        self.acting = copy.deepcopy(actions)
        self.observing.seed(self.seed)
        self.acting.seed(self.seed)
        self.observations = [self.observing.sample() for _ in range(steps + 1)]
        self.others = [self.acting.sample() for _ in range(steps)]  # of another arm
        self.rewards = np.random.default_rng(self.seed).normal(size=steps)

    def started(self) -> Any:
        spaces = copy.deepcopy(self.observing), copy.deepcopy(self.acting)
        learner = self.called("start", self.settings.start, *spaces, GAMMA, np.random.default_rng(self.seed))
        for name in ("act", "learn"):
            if not callable(getattr(learner, name, None)):
                raise ContractError(f"check_learner: start gives {shown(learner)}, which has no method {name}")
        return learner

    def run(self, learner: Any) -> list[Any]:
        """Own episodes, each followed by one of another arm; the learner's actions."""
        taken: list[Any] = []
        for t, reward in enumerate(self.rewards.tolist()):
            own = t // LENGTH % 2 == 0
            over = t % LENGTH == LENGTH - 1
            action = self.others[t]
            if own:
                action = self.action(learner, self.observations[t])
                taken.append(action)
            step = (
                self.observations[t],
                action,
                reward,
                self.observations[t + 1],
                over and t // LENGTH % 4 < 2,
            )
            given = copy.deepcopy(step)
            self.called("learn", learner.learn, *given)
            if not same(step, given):
                raise ContractError("check_learner: learn changes what it is given, must work on a copy")
            if own and over and hasattr(learner, "end_own_episode"):
                self.called("end_own_episode", learner.end_own_episode)
        return taken

    def called(self, name: str, method: Any, *arguments: Any) -> Any:
        try:
            return method(*arguments)
        except Exception as error:  # of whatever kind: it is the learner's
            raise ContractError(f"check_learner: {name} raises {shown(error)} in its spaces") from error

    def action(self, learner: Any, observation: Any) -> Any:
        """An action of the learner."""
        given = copy.deepcopy(observation)
        action = self.called("act", learner.act, given)
        if not same(given, observation):
            raise ContractError("check_learner: act changes its observation, must work on a copy")
        fits = np.asarray(action, self.acting.dtype) if isinstance(self.acting, gym.spaces.Box) else action
        if not self.acting.contains(fits):
            raise ContractError(
                f"check_learner: act gives {shown(action)}, must be an action of {self.acting}: does it know the space "
                "that start was given?"
            )
        return action

    def policy(self, learner: Any) -> None:
        """Its policy is one."""
        if hasattr(learner, "policy"):
            try:
                check_policy(learner.policy, (self.observing, self.acting))
            except ContractError as error:
                raise ContractError(f"check_learner: its policy breaks the contract of a policy: {error}") from error

    def likelihood(self, learner: Any) -> None:
        """Likelihoods are those of the actions it takes."""
        if not hasattr(learner, "likelihood") or not isinstance(self.acting, gym.spaces.Discrete):
            return
        first = int(self.acting.start)
        for observation in self.observations[:LENGTH]:
            actions = range(first, first + int(self.acting.n))
            chances = [self.called("likelihood", learner.likelihood, observation, a) for a in actions]
            if not (min(chances) >= 0 and abs(sum(chances) - 1) <= 1e-9):  # also where one is nan
                raise ContractError(
                    f"check_learner: likelihood gives {chances} for the actions, must be probabilities that sum to 1"
                )
            action = self.action(learner, observation)
            if chances[int(action) - first] <= 0:
                raise ContractError(f"check_learner: act takes {action}, which has likelihood 0")

    def unlearn(self, learner: Any) -> None:
        """Updates that are taken back leave Q as it was."""
        if not (hasattr(learner, "unlearn") and hasattr(learner, "Q")):
            return
        before = np.array(learner.Q)
        changes = []
        for t, reward in enumerate(self.rewards[:LENGTH].tolist()):
            s = self.observations[t]
            a = self.others[t]
            changes.append((s, a, float(learner.Q[s, a])))
            learner.learn(s, a, reward, self.observations[t + 1], False)
        self.called("unlearn", learner.unlearn, changes)
        if not np.array_equal(learner.Q, before):
            raise ContractError("check_learner: unlearn does not take the updates back: must undo the latest first")
