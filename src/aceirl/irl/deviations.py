"""A reward from what the expert could have done otherwise, where observations are vectors and dynamics are unknown.

The expert plays some episodes. Then, from the same seeds, it is followed up to a random step, a *deviation* of some
steps is forced on it (one action, or random ones), and it goes on: it prefers what it does without the detour.
One step would not do: a good expert repairs it, and what keeps it alive stays undetermined. Policies of other kinds
(noisy copies, random controllers) are compared in the same way. With `D` the discounted sum of the features of the
expert's episode less that of the other, `w·E[D | group] ≥ 0` for every group of comparisons; `w` minimises

    Σ_j ω_j·log(1 + exp(-w·D_j/σ)) + ridge/2·‖w‖²,

columns scaled by their size. Many rewards do that, and most fall apart where the dynamics are others. So the simplest
is kept that implies what the expert does: ends and the step first, then squares of coordinates, then hats. For each the
best response in learned dynamics is played. If its feature expectations are near the expert's, or the expert is as
good, the reward is kept; else the response is a *rival*, one more policy that the expert is preferred to, and the next
reward is tried. Where a grid would have too many coordinates, the response is the best controller that a search about a
copy of the expert finds, and squares are tried first: by ends alone a search hardly knows where to go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aceirl.data.arrays import BoolArray, FloatArray
from aceirl.errors import InputError
from aceirl.irl.responses import BySearch, EpisodePair, OnGrid
from aceirl.models.vectors.controllers import Controller, Effects
from aceirl.models.vectors.episodes import Act, Episode, discounted
from aceirl.models.vectors.experience import Experience
from aceirl.models.vectors.features import Coordinates, Features, VectorReward, logistic
from aceirl.models.vectors.planning import MOST_COORDINATES, Prepared

EXPERT_EPISODES, LONGEST_DEVIATION, TESTS = 8, 50, 3
"""Episodes of the expert alone, the longest deviation in steps, and the episodes a best response plays."""

RECOVERING, RECOVERING_WIDE = 12_000, 16_000
"""The steps by default: where plans are made on a grid, and where they are searched for."""

DEVIATIONS, POOL = 0.5, 0.62
"""The shares of the steps that are spent when all deviations and the other policies are done."""

WIDE_OWN, WIDE_DEVIATIONS, WIDE_POOL = 0.25, 0.35, 0.6
"""The same where plans are searched for, and first the share that is spent on the expert's own episodes."""

RIDGE, RIVAL_SHARE, RIVAL_SIZE = 0.02, 0.3, 3.0
"""The ridge; the weight of a rival beside that of all other comparisons; and its size, a multiple of theirs."""

NEAR, EQUAL, EXPLAINED, FAILED = 0.6, 0.1, 0.4, 0.5
"""A plan does what the expert does if its feature expectations are at most `NEAR` times as far from the expert's as
those of random actions are. The expert is as good as a plan that is worth at most `EQUAL` times more than what random
actions lose; that counts if the reward explains a share `EXPLAINED` of the comparisons: the expert is worth more there
by `EQUAL`. A plan that is worth less than the expert by `FAILED` says nothing of the reward."""

LEVELS = (("ends and the step", 1), ("squares", 2), ("hats", 3))
"""The classes of rewards, the simplest first, and how many of each are tried."""

N_MEMBERS = 12
"""How many rewards of the confidence set are drawn."""


@dataclass(frozen=True, eq=False)
class PolicyComparison:
    """The expert is preferred to another policy: `difference [k]` of their discounted sums of features, and the `group`
    of policies that the other is of."""

    group: str
    difference: FloatArray


@dataclass(frozen=True, eq=False)
class TriedReward:
    """A reward that was tried: its weights `[k]` and their class.

    `gap` is how far the feature expectations of its plan are from the expert's, as a share of those of random actions;
    `advantage` by how much the plan was worth more than the expert, as a share of what random actions lose;
    `explained` the share of comparisons in which the expert is worth clearly more; `difference [k]` the discounted sums
    of features of the expert less those of the plan.
    """

    weights: FloatArray
    level: str
    gap: float
    advantage: float
    explained: float
    difference: FloatArray
    searched: bool = False

    @property
    def accepted(self) -> bool:
        """Whether the plan does what the expert does, or the expert is no worse and that tells something.

        A plan that was `searched` for about a copy of the expert is near it anyway, which alone tells nothing.
        """
        if self.gap <= NEAR and not self.searched:
            return True
        return (self.gap <= NEAR or self.advantage <= EQUAL) and self.explained >= EXPLAINED


@dataclass(frozen=True, eq=False)
class Home:
    """What is known of the simulator in which the expert was observed.

    Its learned dynamics, `prepared` for plans, or, where these have too many coordinates for a grid, a `copy` of the
    expert and the `effects` of actions; where episodes of the expert started, `starts [n, d]`, and how long they can
    be; and the expected sums of features of the expert and of random actions, both `[k]`, discounted by `gamma`.
    """

    prepared: Prepared | None
    copy: Controller | None
    effects: Effects | None
    gamma: float
    starts: FloatArray
    horizon: int
    expert: FloatArray
    random: FloatArray


@dataclass(frozen=True, eq=False)
class RewardByDeviations:
    """A recovered `reward`, with everything it rests on.

    `members` are rewards of the same class that fit resampled comparisons: the confidence set, in draws. `tried` has
    the rewards in the order in which they were tried. `warning` says why the reward may not survive planning; None if
    nothing speaks against it. `steps` were taken in the simulator, `answers` were asked of the expert.
    """

    reward: VectorReward
    members: tuple[VectorReward, ...]
    chosen: TriedReward
    comparisons: tuple[PolicyComparison, ...]
    tried: tuple[TriedReward, ...]
    warning: str | None
    steps: int
    answers: int
    home: Home


class _Asked:
    """An expert, and what it was asked and answered."""

    def __init__(self, act: Act) -> None:
        self.act = act
        self.observations: list[Any] = []
        self.actions: list[Any] = []

    def __call__(self, observation: Any) -> Any:
        self.observations.append(np.array(observation))
        self.actions.append(self.act(observation))
        return self.actions[-1]


def recover_reward(
    make_env: Callable[[], Any],
    expert: Act,
    rng: np.random.Generator,
    steps: int | None = None,
    gamma: float = 0.99,
    names: Sequence[str] = (),
    report: Callable[[int], None] | None = None,
) -> RewardByDeviations:
    """The reward of an expert, a function of an observation, in a simulator that `make_env` makes.

    About `steps` steps are taken: 12,000 unless told, 16,000 where observations have more than four coordinates.
    `names` are what the entries of an observation are called. `report` is told after each episode how many steps were
    taken.
    """
    if steps is not None and steps < 100:
        raise InputError(f"steps is {steps}; comparing policies takes at least 100")
    met = Experience(make_env(), rng, report)
    asked = _Asked(expert)
    own = [met.play(asked) for _ in range(EXPERT_EPISODES)]
    on_grid = len(Coordinates.of(met.observations)) <= MOST_COORDINATES
    steps = steps or (RECOVERING if on_grid else RECOVERING_WIDE)
    while not on_grid and met.steps < WIDE_OWN * steps:
        own.append(met.play(asked))
    pairs = _deviations(met, asked, own, (DEVIATIONS if on_grid else WIDE_DEVIATIONS) * steps)
    pairs += _other_policies(met, asked, own, (POOL if on_grid else WIDE_POOL) * steps)
    responses = OnGrid(met, gamma) if on_grid else BySearch(met, gamma, own, asked.observations, asked.actions)
    pairs += responses.prepare(steps)
    features = Features.of(met.inside, met.ends, names)

    def sums(episode: Episode, first: int = 0) -> FloatArray:
        return discounted(features(episode.arrivals[first:], episode.ends[first:]), episode.terminated, gamma)

    comparisons = [
        PolicyComparison(group, sums(base, first) - sums(other, first)) for group, base, other, first in pairs
    ]
    D = np.array([one.difference for one in comparisons])
    scale = column_scale(D)
    expected = np.mean([sums(episode) for episode in own], axis=0)
    aimless = np.mean([sums(other) for group, _, other, _ in pairs if group == "random actions"], axis=0)
    spread = np.std([sums(episode) for episode in met.episodes], axis=0)
    kept = spread > 1e-6 * spread.max()
    unit = float(np.linalg.norm(((expected - aimless) / np.where(kept, spread, 1))[kept]))
    tests = own[: TESTS if on_grid else EXPERT_EPISODES]
    rivals: list[FloatArray] = []
    tried: list[TriedReward] = []

    def allowed_in(level: str) -> BoolArray:
        allowed = allowed_features(features, level)
        allowed[-1] &= on_grid  # the ends say as much as the step does, and a search by it learns to hover
        return allowed

    for level, times in LEVELS if on_grid else LEVELS[1:]:
        allowed = allowed_in(level)
        for _ in range(times if allowed.any() else 0):
            if tried and met.steps >= steps:
                break
            w = _fitted(D, rivals, scale, allowed)
            loss = max(abs(float(w @ (expected - aimless))), 1e-12)
            explained = float(np.mean(D @ w > EQUAL * loss))
            for attempt in range(responses.attempts):
                act = responses.act(VectorReward(features, w), attempt)
                played = [met.play(act, base.seed) for base in tests]
                away = np.mean([sums(base) for base in tests], axis=0) - np.mean([sums(one) for one in played], axis=0)
                gap = float(np.linalg.norm((away / np.where(kept, spread, 1))[kept])) / max(unit, 1e-12)
                one = TriedReward(w, level, gap, float(-w @ away) / loss, explained, away, not on_grid)
                if one.gap <= NEAR or one.advantage >= -EQUAL:  # else it is the plan that failed: once more, with care
                    break
            tried.append(one)
            if tried[-1].accepted:
                break
            rivals.append(away)
        if tried and tried[-1].accepted:
            break
    best = tried[-1] if tried[-1].accepted else min(tried, key=lambda one: one.gap)
    allowed = allowed_in(best.level)
    draws = [D[rng.integers(len(D), size=len(D))] for _ in range(N_MEMBERS)]
    return RewardByDeviations(
        VectorReward(features, best.weights),
        tuple(VectorReward(features, _fitted(rows, rivals, scale, allowed)) for rows in draws),
        best,
        tuple(comparisons),
        tuple(tried),
        _distrust(best),
        met.steps,
        len(asked.actions),
        Home(
            responses.prepared,
            responses.copy,
            None if responses.copy is None else Effects.of(met.choices, met.episodes, responses.copy.scale),
            gamma,
            np.array([episode.observations[0] for episode in own]),
            max(episode.steps for episode in met.episodes),
            expected,
            aimless,
        ),
    )


def _distrust(best: TriedReward) -> str | None:
    """The warning if the reward does not imply what the expert does, or that could not be tried."""
    if not best.accepted:
        return (
            "no reward over these features was found whose plan acts as the expert does: the best plan is "
            f"{best.gap:.0%} as far from the expert as random actions are, and gains {best.advantage:+.0%} of what "
            "these lose"
        )
    if best.level == LEVELS[-1][0]:
        return (
            "only a reward with hat functions explains the expert, none of ends, the step and squares; rewards with "
            "hat functions that were tried under other dynamics failed there"
        )
    if best.gap > NEAR and best.advantage < -FAILED:
        return (
            "no good plan for the reward was found, even in the environment where the expert was observed: it loses "
            f"{-best.advantage:.0%} of what random actions lose"
        )
    return None


def _deviations(met: Experience, expert: Act, own: Sequence[Episode], until: float) -> list[EpisodePair]:
    """Episodes of the expert with a deviation, until so many steps were taken."""
    rng, pairs = met.rng, list[EpisodePair]()
    while met.steps < until or not pairs:
        base = own[len(pairs) % len(own)]
        first = int(rng.integers(max(1, int(0.6 * base.steps))))
        length = int(rng.integers(1, LONGEST_DEVIATION + 1))
        held = met.choices.action(int(rng.integers(len(met.choices)))) if rng.random() < 0.5 else None
        step = -1

        def act(observation: Any, first: int = first, length: int = length, held: Any = held) -> Any:
            nonlocal step
            step += 1
            if first <= step < first + length:
                return met.choices.draw(rng) if held is None else held
            return expert(observation)

        episode = met.play(act, base.seed)
        kind = "random" if held is None else "held"
        size = "short" if length <= LONGEST_DEVIATION // 2 else "long"
        if episode.steps > first:
            pairs.append((f"{size} deviations, {kind}", base, episode, first))
    return pairs


def _other_policies(met: Experience, expert: Act, own: Sequence[Episode], until: float) -> list[EpisodePair]:
    """Random actions, copies of the expert that err, and linear controllers at random, in turns."""
    rng, pairs = met.rng, list[EpisodePair]()
    seen = met.observations
    shift, scale = seen.mean(axis=0), seen.std(axis=0) + 1e-6
    while met.steps < until or len(pairs) < 6:
        base = own[len(pairs) % len(own)]
        turn = len(pairs) % 3
        if turn == 0:
            pairs.append(("random actions", base, met.play(met.sticky(), base.seed), 0))
        elif turn == 1:
            pairs.append(("erring copies", base, met.play(met.noisy(expert, rng.random() ** 2), base.seed), 0))
        else:
            W = rng.standard_normal((len(met.choices), len(shift)))

            def act(observation: Any, W: FloatArray = W) -> Any:
                return met.choices.action(int((W @ ((observation - shift) / scale)).argmax()))

            pairs.append(("random controllers", base, met.play(act, base.seed), 0))
    return pairs


def allowed_features(features: Features, level: str) -> BoolArray:
    """`[k]`: the features of a class of rewards; none if they can tell nothing, as the step alone."""
    names = np.array(features.names)
    ends = np.zeros(len(names), dtype=bool)
    ends[-1 - len(features.ends) :] = True
    if level == "ends and the step":
        return ends if len(features.ends) else np.zeros_like(ends)
    if level == "squares":
        flags = [part.name for part in features.coordinates.parts if part.kind == "flag"]
        return np.asarray(ends | np.char.endswith(names, " squared") | np.isin(names, flags))
    return np.ones_like(ends)


def column_scale(D: FloatArray) -> FloatArray:
    """`[k]`: the size of each feature's differences; hardly any difference is not made large."""
    size = np.sqrt((D**2).mean(axis=0))
    return np.asarray(np.maximum(size, 1e-3 * max(size.max(), 1e-12)))


def _fitted(D: FloatArray, rivals: Sequence[FloatArray], scale: FloatArray, allowed: BoolArray) -> FloatArray:
    """Weights `[k]` of the allowed features by the comparisons `D [n, k]` and the rivals."""
    rows = D[:, allowed] / scale[allowed]
    share = np.full(len(rows), 1 / len(rows))
    if rivals:
        extra = np.array(rivals)[:, allowed] / scale[allowed]
        extra *= RIVAL_SIZE * np.sqrt(allowed.sum()) / np.maximum(np.linalg.norm(extra, axis=1, keepdims=True), 1e-9)
        rows = np.concatenate((rows, extra))
        share = np.concatenate((share, np.full(len(extra), RIVAL_SHARE)))
    found = np.zeros(len(scale))
    found[allowed] = logistic(rows, share / share.sum(), RIDGE) / scale[allowed]
    return found
