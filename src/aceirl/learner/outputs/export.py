"""The reward as a table (CSV), and the expert's answers as demonstrations (lines of JSON)."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aceirl.learner.outputs.observed import GreedyPolicy, ObservedReward, answers_given
from aceirl.learner.turns import Turn
from aceirl.models.tabular.encoder import PADDING_STATE, plain
from aceirl.protocols import TERMINAL
from aceirl.rewards import Explanation


def save_demonstrations(path: Path, policy: GreedyPolicy) -> None:
    """The answers as lines of JSON, which `DemonstrationExpert` can replay."""
    _write_lines(
        path,
        (
            {"step": entry.step, "observation": plain(entry.observation), "action": plain(entry.action)}
            for entry in policy.demonstrations()
        ),
    )


def save_named_demonstrations(path: Path, turn: Turn, names: Sequence[str], actions: Sequence[str]) -> None:
    """The same of an environment without observations: states have `names [S]`, actions are called `actions [A]`."""
    given = answers_given(turn.counts.answers, turn.belief.estimate.kind)
    _write_lines(
        path,
        ({"step": h, "observation": names[s], "action": a, "action_name": actions[a]} for h, s, a in given),
    )


def save_table(path: Path, reward: ObservedReward, policy: GreedyPolicy) -> None:
    """The reward as a table: a line for each parameter, or for what is paid at each step if it depends on that."""
    _write_table(path, _observed_lines(reward, policy))


def save_named_table(path: Path, turn: Turn, names: Sequence[str], actions: Sequence[str]) -> None:
    """The same of an environment without observations, by the names of states and actions."""
    _write_table(path, _named_lines(turn, names, actions))


def _observed_lines(reward: ObservedReward, policy: GreedyPolicy) -> Iterator[tuple[Any, ...]]:
    states, told = reward.states, reward.explained

    def called(state: int) -> tuple[str, int]:
        return states.names[state].removeprefix(TERMINAL), int(state in states.terminal)

    if told is None:
        yield "step", "observation", "terminal", "action", "reward", "greedy"
        for step, state, action in np.ndindex(*reward.payments.shape):
            paid = f"{reward.payments[step, state, action]:.6g}"
            if state not in states.terminal:
                greedy = int(policy.policy[step, state] == action)
                yield step, *called(state), plain(reward.actions[action]), paid, greedy
            elif state != PADDING_STATE and action == 0:
                yield step, *called(state), "", paid, ""
        return
    yield "observation", "terminal", "action", "reward"
    for about, action, value in _parameters(told, reward.names):
        if isinstance(about, str):
            yield about, "", "", value
        elif about != PADDING_STATE:
            yield *called(about), "" if action < 0 else plain(reward.actions[action]), value


def _named_lines(turn: Turn, names: Sequence[str], actions: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    told = turn.explanation
    if told is None or told.space == "any":
        yield "step", "state", "action", "reward", "greedy"
        reward, policy = turn.belief.recovered.reward, turn.policy
        for step, state, action in np.ndindex(*reward.shape):
            value, greedy = f"{reward[step, state, action]:.6g}", int(policy[step, state] == action)
            yield step, names[state], actions[action], value, greedy
        return
    yield "state", "action", "reward"
    for about, action, value in _parameters(told, () if turn.space is None else turn.space.names):
        yield about if isinstance(about, str) else names[about], "" if action < 0 else actions[action], value


def _parameters(told: Explanation, names: Sequence[str]) -> Iterator[tuple[int | str, int, str]]:
    """Of each parameter the state, or what it is called if it is about none, the action or -1, and the value; `names`
    are those of features."""
    last = len(told.theta) - 1 if told.has_step_cost else -1
    for k, (state, action, value) in enumerate(zip(told.states, told.actions, told.theta, strict=True)):
        feature = names[k] if k < len(names) else f"feature {k}"
        about = "step cost" if k == last else feature if state < 0 else int(state)
        yield about, -1 if k == last else int(action), f"{value:.6g}"


def _write_lines(path: Path, lines: Iterator[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _write_table(path: Path, rows: Iterator[tuple[Any, ...]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
