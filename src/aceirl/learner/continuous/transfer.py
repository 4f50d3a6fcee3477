"""Planning with a reward in any simulator, by sampling: nothing is known of its dynamics beforehand.

First random actions, then tours to where little was seen, then rounds of planning for the reward in the dynamics
learned so far and playing the plan, by which the plans of all rounds are compared. The best of them is kept. That takes
a grid, of at most four coordinates. Where there are more, random actions show what the actions do, and controllers are
searched for about a copy of the expert (`aceirl.models.vectors.controllers`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aceirl.errors import InputError
from aceirl.experts.tasks.continuous import ContinuousTask
from aceirl.irl.deviations import RewardByDeviations, recover_reward
from aceirl.models.vectors.controllers import Controller, Effects, search
from aceirl.models.vectors.episodes import BatchReward, Episode, worth
from aceirl.models.vectors.experience import Experience
from aceirl.models.vectors.features import Ends
from aceirl.models.vectors.planning import COARSE, FINE, GridPlan, Prepared

FIRST, EXPLORING, TOURS = 0.15, 0.5, 6
"""The shares of the steps by which the first random episodes and the exploring ones are done, and how often it is
planned anew where to explore."""

ROUNDS, NOISE, TESTS = 3, 0.1, 3
"""How often it is then planned for the reward; the share of random actions while exploring; and the episodes a plan is
judged by, which start from the same seeds in every round: fewer if that would take more steps than are left to it."""

SHORT, UNSURE, ASKED = 0.8, 0.8, 3
"""When a plan is warned of: it falls short of the expert at home by so much of what random actions lose there; or, by
one of so many other rewards of the confidence set, it gains less than this share of what that reward's plan gains."""


PLANNING, SEARCHING, MOST_RANDOM = 6_000, 18_000, 20
"""The steps in another simulator by default: for plans on a grid, and for a search; and the episodes of random actions
before a search, at most."""


@dataclass(frozen=True, eq=False)
class Planned:
    """A plan for a reward in a simulator: `predict` says what to do. `value` is what its test episodes were worth by
    that reward, discounted; `steps` is what was spent in the simulator; `warning` why it may not be what the expert
    wants, None if nothing speaks against it. `prepared` are the dynamics as they were learned last; the first `aimless`
    episodes were of random actions. Where it was searched for, there is nothing `prepared`, and `others` are the
    episodes of controllers that were tried last, all from the same seeds, those of the plan first."""

    plan: GridPlan | Controller
    value: float
    steps: int
    episodes: tuple[Episode, ...]
    prepared: Prepared | None
    aimless: int
    warning: str | None = None
    others: tuple[tuple[Episode, ...], ...] = ()

    def predict(self, observation: Any) -> Any:
        """The action on an observation, as the environment takes it."""
        return self.plan.predict(observation)

    def in_words(self) -> str:
        """What it took, what it is worth, and what speaks against it."""
        lines = [
            f"Planned with the recovered reward after {self.steps:,} steps in the simulator, whose dynamics were not "
            f"known; by that reward, the mean discounted return of test episodes is {self.value:.3g}."
        ]
        lines.append("No check found a problem." if self.warning is None else f"Do not trust it: {self.warning}.")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"steps": self.steps, "value": self.value, "warning": self.warning}


def transfer_reward(
    make_env: Callable[[], Any],
    recovered: RewardByDeviations,
    rng: np.random.Generator,
    steps: int | None = None,
    report: Callable[[int], None] | None = None,
) -> Planned:
    """Plan with a recovered reward in another simulator, about which nothing is known, with about `steps` steps in it.

    Unless told, `steps` are 6,000, or 18,000 where observations have more than four coordinates. The plan has a
    warning if something speaks against it; that needs no true reward. `report` is told after each episode how many
    steps were taken.
    """
    gamma, reward, home = recovered.home.gamma, recovered.reward.batch, recovered.home
    if home.copy is None or home.effects is None:
        steps = PLANNING if steps is None else steps
        planned = plan_by_sampling(make_env(), reward, rng, steps, gamma, report, recovered.reward.features.ends)
    else:
        planned = search_by_sampling(
            make_env(),
            lambda one: worth(reward, one, gamma),
            rng,
            SEARCHING if steps is None else steps,
            (home.copy, home.effects),
            report,
        )
    found = [recovered.warning, falls_short(planned, recovered), members_disagree(planned, recovered)]
    return replace(planned, warning="; ".join(reason for reason in found if reason) or None)


def reward_of(task: ContinuousTask, seed: int, report: Callable[[int], None] | None = None) -> RewardByDeviations:
    """The reward of a task's expert, by some thousand steps in its environment."""
    ask = task.ask
    assert ask is not None
    if task.by_step:
        raise InputError("a reward of continuous observations needs an expert whose actions do not depend on the step")
    env, rng = simulator(task.env, task.horizon), np.random.default_rng([seed, 0x4E])
    return recover_reward(lambda: env, lambda seen: ask(seen, 0), rng, names=task.fields, report=report)


def simulator(env: Any, horizon: int) -> Any:
    """A Gymnasium environment whose observations are vectors, and whose episodes are at most so long."""
    from gymnasium import spaces
    from gymnasium.wrappers import TimeLimit

    space = env.observation_space
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise InputError(
            f"the observations are {space}; a reward of coordinates needs a Box with one axis: wrap the environment in "
            "gymnasium.wrappers.FlattenObservation"
        )
    return TimeLimit(env, horizon)


def falls_short(planned: Planned, recovered: RewardByDeviations) -> str | None:
    """A warning if the plan is worth much less than the expert at home."""
    w, home = recovered.reward.weights, recovered.home
    loss = float(w @ (home.expert - home.random))
    short = (float(w @ home.expert) - planned.value) / max(abs(loss), 1e-12)
    if short <= SHORT:
        return None
    return (
        f"by the recovered reward, the plan does worse than the expert did in its own environment, by {short:.0%} of "
        "what random actions lose"
    )


def members_disagree(planned: Planned, recovered: RewardByDeviations) -> str | None:
    """A warning if another reward of the confidence set plans something else, by which this plan gains much less.

    It takes no steps: everything is imagined in the learned dynamics, or, after a search, the other's plan is the best
    by that reward of what was tried last. Random actions count as a plan.
    """
    gamma = recovered.home.gamma
    w = recovered.reward.weights / np.linalg.norm(recovered.reward.weights)
    alike = [float(one.weights @ w) / np.linalg.norm(one.weights) for one in recovered.members]
    worst = 1.0
    for number in np.argsort(alike)[:ASKED]:
        reward = recovered.members[number].batch
        aimless = float(np.mean([worth(reward, one, gamma) for one in planned.episodes[: planned.aimless]]))
        ours, theirs = (
            float(np.mean([worth(reward, one, gamma) for one in played])) for played in _rivals(planned, reward, gamma)
        )
        theirs = max(aimless, theirs)
        range_ = max(ours, theirs, aimless) - min(ours, theirs, aimless)
        worst = min(worst, 1 - (theirs - ours) / max(range_, 1e-12))
    if worst >= UNSURE:
        return None
    return (
        "another reward that explains the expert equally well has another plan here; by that reward, this plan gains "
        f"only {worst:.0%} of what is possible"
    )


def _rivals(planned: Planned, reward: BatchReward, gamma: float) -> tuple[Sequence[Episode], Sequence[Episode]]:
    """Episodes of the plan, and of what is better by another reward, from the same starts.

    After a search that is the best of what was tried last, chosen by half of the starts and shown from the others.
    """
    if planned.prepared is None or isinstance(planned.plan, Controller):
        half = (len(planned.others[0]) + 1) // 2
        ours, *others = planned.others
        best = max(others, key=lambda one: sum(worth(reward, episode, gamma) for episode in one[:half]))
        return ours[half:] or ours, best[half:] or best
    starts = np.array([episode.observations[0] for episode in planned.episodes[:10]])
    horizon = max(episode.steps for episode in planned.episodes)
    return planned.plan.imagined(starts, horizon), planned.prepared.plan(reward).imagined(starts, horizon)


def _check(steps: int) -> None:
    if steps < 1:
        raise InputError(f"steps is {steps}; at least one is needed to learn anything of the simulator")


def search_by_sampling(
    env: Any,
    value: Callable[[Episode], float],
    rng: np.random.Generator,
    steps: int,
    start: tuple[Controller, Effects],
    report: Callable[[int], None] | None = None,
) -> Planned:
    """A controller whose episodes have a large `value`, with about `steps` steps in a Gymnasium environment.

    The search begins with a controller of another simulator, which is translated by the effects of the actions there.
    """
    _check(steps)
    met = Experience(env, rng, report)
    first = translated_copy(met, start, steps)
    aimless = len(met.episodes)
    found = search(met, value, first, steps)
    return Planned(found.controller, found.value, met.steps, tuple(met.episodes), None, aimless, others=found.last)


def translated_copy(met: Experience, start: tuple[Controller, Effects], steps: int) -> Controller:
    """A controller of another simulator, by what the actions do in a few random episodes here.

    They take a share of all `steps` at most, the last episode being finished.
    """
    copy, effects = start
    while met.steps < FIRST * steps and len(met.episodes) < MOST_RANDOM:
        met.play(met.sticky())
    return copy.translated(effects, Effects.of(met.choices, met.episodes, copy.scale), met.choices)


def plan_by_sampling(
    env: Any,
    reward: BatchReward,
    rng: np.random.Generator,
    steps: int,
    gamma: float = 0.99,
    report: Callable[[int], None] | None = None,
    known: Ends | None = None,
) -> Planned:
    """Plan for `reward` in a Gymnasium environment with about `steps` steps in it, the last episode being finished.

    `report` is told after each episode how many steps were taken. Ends that are `known` of another simulator are
    expected here too.
    """
    _check(steps)
    met = Experience(env, rng, report, known)
    tests = [int(seed) for seed in rng.integers(2**31, size=TESTS)]
    while met.steps < FIRST * steps:
        met.play(met.sticky())
    aimless = len(met.episodes)
    for tour in range(TOURS):
        dynamics = met.dynamics()
        novel = met.prepared(dynamics, gamma, COARSE).plan(met.novelty(dynamics.coordinates))
        while met.steps < steps * (FIRST + (EXPLORING - FIRST) * (tour + 1) / TOURS):
            met.play(met.noisy(novel.predict, NOISE))
    best: tuple[float, GridPlan] | None = None
    plan: GridPlan | None = None
    for turn in range(ROUNDS):
        dynamics = met.dynamics()
        coarse = met.prepared(dynamics, gamma, COARSE)
        plan = coarse.plan(reward, plan)
        if turn > 0:
            plan = met.prepared(dynamics, gamma, FINE).plan(reward, plan)
        until = steps * (EXPLORING + (1 - EXPLORING) * (turn + 1) / ROUNDS)
        values: list[float] = []
        for seed in tests:
            if not values or met.steps < until:
                values.append(worth(reward, met.play(plan.predict, seed), gamma))
        value = float(np.mean(values))
        if best is None or value >= best[0]:
            best = value, plan
        if turn < ROUNDS - 1:
            novel = coarse.plan(met.novelty(dynamics.coordinates))
            while met.steps < until:
                met.play(met.noisy(plan.predict, NOISE))
                met.play(met.noisy(novel.predict, NOISE))
    assert best is not None
    return Planned(best[1], best[0], met.steps, tuple(met.episodes), coarse, aimless)
