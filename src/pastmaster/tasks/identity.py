"""All that a task is, as data: what saved results and stored records depend on, in one place.

The names of saved chunks are digests of these lists, so their order and content never change.
"""

from __future__ import annotations

import json
from typing import Any

from gymnasium.envs.registration import EnvSpec

from pastmaster.tasks.gym_task import GymTask
from pastmaster.tasks.gymnasium_table import code_of
from pastmaster.tasks.tabular import TabularMDP


def task_data(task: TabularMDP | GymTask) -> list[Any]:
    """All that values and episodes of a task depend on, as arrays, numbers and texts.

    Of a model its outcomes, discount, start and horizon; of an environment its fingerprint, as JSON, discount and
    horizon. ``InvalidInputError`` where an environment cannot be identified.
    """
    if isinstance(task, GymTask):
        return [json.dumps(task.fingerprint, sort_keys=True), task.gamma, task.horizon]
    outcomes = [task.next_state, task.reward, task.probability, task.terminated]
    return [*outcomes, task.gamma, task.start_states, task.start_probability, task.horizon]


def spec_data(spec: EnvSpec) -> list[Any] | None:
    """All that an environment of a registered spec depends on; None where its arguments are not plain JSON values."""
    try:
        arguments = json.dumps(spec.kwargs, sort_keys=True)
    except TypeError:
        return None
    return [spec.id, code_of(spec), arguments, spec.max_episode_steps]
