"""What was recorded, in words: how much, what contradicts the environment, and what it says of the expert."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from aceirl.experts.tasks import Task
from aceirl.experts.tasks.opening import ONLY_RECORDED
from aceirl.experts.tasks.world import GymWorld, OwnWorld
from aceirl.explain.goal import goal_of
from aceirl.explain.learned import Learned
from aceirl.learner.recorded import Demonstrations


def inferred_in_words(found: Learned, shown: Demonstrations, names: Sequence[str]) -> list[str]:
    """What the expert wants, what was recorded, what that leaves open, and what to record next; a sentence or two each.

    `names [S]` are what people call the states.
    """
    goal = goal_of(found.turn, names, found.actions)
    if goal is None:
        mean = found.turn.belief.recovered.reward.mean(axis=0).max(axis=1)
        most = names[int(np.where(found.turn.counts.visited.pooled.any(axis=1), mean, -np.inf).argmax())]
        wanted = [f"The answers name no goal. Of the states that were visited, the reward is largest in {most}."]
    else:
        wanted = replace(goal, undetermined=()).lines  # the support says more of that
    told = recording_summary(shown, found.task, names, found.actions)
    return [*wanted, *told, *_counted(found, shown), *found.support.in_words(names, found.actions), *_going_on(found)]


def _counted(found: Learned, shown: Demonstrations) -> list[str]:
    """How many answers the recorded actions are, where they are not as many, and how many of them can be compared."""
    told = found.turn.explanation
    if told is None or told.compared == told.answers == shown.actions:
        return []
    expert, all_of = found.task.expert, "All" if told.compared == told.answers else f"{told.compared:,}"
    at = "" if expert.stationary and expert.deterministic else " at each step"
    return [
        f"The {shown.actions:,} recorded actions count as {told.answers:,} answers, one for each state{at}. {all_of} "
        "of these can be compared, because another action was tried in the same state."
    ]


def _going_on(found: Learned) -> list[str]:
    """How to explore from here, where the environment of the recording is there to be acted in."""
    source = found.task.source
    if not isinstance(found.task.world, GymWorld | OwnWorld) or source is None or source.environment == ONLY_RECORDED:
        return []
    data = source.recordings
    in_python = "ActiveIRL().fit(environment, demonstrations=data)"
    command = in_python if data is None else f"aceirl run {source.environment} --recordings {data}"
    return [f"{source.environment} is there to act in, so what is open can be tried: {command}"]


def contradictions(shown: Demonstrations, task: Task) -> list[str]:
    """What the recording has and its environment cannot do, where the exact model of that is known; a sentence each."""
    model = task.world.table()
    if model is None:
        return []
    mdp, names = model
    number_of = {name: number for number, name in enumerate(names)}
    numbers = [number_of.get(name, -1) for name in shown.names] if names else list(range(mdp.n_states))
    moves = [move for walk in shown.walks for move in walk.walk]
    ends = sum(numbers[after] < 0 <= numbers[state] for _, state, _, after in moves)
    rows = mdp.transitions.matrix
    wrong = 0
    for step, state, action, after in moves:
        here, there = numbers[state], numbers[after]
        row = ((0 if mdp.stationary else step) * mdp.n_states + here) * mdp.n_actions + action
        wrong += here < 0 or (there >= 0 and rows[row, there] == 0)
    advice = "is it the environment of the recording, with the right parameters?"
    lines = []
    if ends:
        lines.append(
            f"Warning: {ends:,} of {len(shown.walks):,} episodes end where the environment has no end; {advice}"
        )
    if wrong:
        lines.append(f"Warning: {wrong:,} of {len(moves):,} steps are moves that the environment cannot make; {advice}")
    return lines


def recording_summary(
    shown: Demonstrations, task: Task, names: Sequence[str], actions: Sequence[str] = ()
) -> list[str]:
    """What was recorded, what contradicts the environment, and what the expert is taken to be.

    `names [S]` and `actions [A]` are what people call states and actions.
    """
    horizon, expert = task.environment.horizon, task.expert
    longest = max(len(walk.answers) for walk in shown.walks)
    so = "the length of the longest" if horizon == longest else f"the longest has {longest:,}"
    lines = [
        f"Recorded: {shown.steps:,} steps in {len(shown.walks):,} episodes, {shown.actions:,} actions. The horizon is "
        f"{horizon:,} steps ({so}).",
        *contradictions(shown, task),
    ]
    found = shown.contradicted(stationary=expert.stationary)
    if not expert.stationary:
        lines.append(
            "In the same state the expert did different things at different steps, so its actions are assumed to "
            "depend on the step."
        )
    if not found:
        return lines
    (step, state), taken = max(found.items(), key=lambda item: (sum(item[1].values()), -item[0][1]))
    did = ", ".join(f"{n:,} × {actions[a] if actions else f'action {a}'}" for a, n in taken.most_common())
    at = "" if step is None else f" at step {step + 1}"
    where = "1 state" if len(found) == 1 else f"{len(found):,} states"
    rule = (
        "it is assumed to do there what it did most often"
        if expert.deterministic
        else "it is assumed to draw its actions at random (declare it deterministic if these are errors)"
    )
    lines.append(f"The expert contradicts itself in {where}, for example in {names[state]}{at}: {did}; {rule}.")
    return lines
