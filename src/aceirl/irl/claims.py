"""What is sure of a reward that was recovered by deviations: what no reward can do without.

A reward is feasible if the expert loses little by it: `w·E[D] ≥ -s` for every group of comparisons and every rival, in
units of what random actions lose, `w·(μ_expert - μ_random) = 1`. The least such `s` is a linear programme. A
coordinate, or the ends of episodes, is *needed* if the least `s` of all rewards without it is larger by more than
`SLACK`. Rewards without it are given a fair chance: whenever the programme finds one, its best response at home becomes
one more rival, until none is left or one survives. The comparisons are resampled; sure is what is needed in 95 % of the
draws. Without learned dynamics at home no best response can be had, and nothing is called sure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from aceirl.data.arrays import BoolArray, FloatArray
from aceirl.irl.deviations import RewardByDeviations, allowed_features, column_scale
from aceirl.models.vectors.episodes import discounted
from aceirl.models.vectors.features import Features, VectorReward

SLACK = 0.1
"""What the expert may lose more by one reward than by another before the one is out, as a share of what random actions
lose."""

SURE, DRAWS, MOST_RIVALS = 0.95, 40, 4
"""The share of draws in which something sure is needed, how many are made, and how many rivals a reward must stand."""

ENDS = "the end of the episode"
"""The ends of all kinds together with the step: a cost of each step and a prize for the end are hardly told apart."""


@dataclass(frozen=True)
class CoordinateClaim:
    """`about` is a coordinate or `ENDS`. It is `sure` that rewards need it, or it is part of the reward that was found
    while others do without. `likes` is what is preferred: for a coordinate, of the values at its knots, which; for the
    ends, each kind with 1 if it is wanted and -1 if it is avoided; empty where the draws of the reward disagree."""

    about: str
    sure: bool
    likes: tuple[tuple[str, int], ...]


def blocks(features: Features) -> dict[str, BoolArray]:
    """The features `[k]` of each coordinate, and of the ends with the step."""
    found: dict[str, BoolArray] = {}
    ends = np.zeros(features.n_features, dtype=bool)
    for name, part in features.groups.items():
        here = np.zeros_like(ends)
        here[part] = True
        if name in features.coordinates.names:
            found[name] = here
        else:
            ends |= here
    return found | {ENDS: ends}


def least_slack(rows: FloatArray, unit: FloatArray, allowed: BoolArray, scale: FloatArray) -> tuple[float, FloatArray]:
    """The least `s` with `rows·w ≥ -s` and `unit·w = 1` for some `w` of the allowed features, and that `w [k]`.

    Infinite if no such `w` tells the expert from random actions. `rows [m, k]` are what the expert is ahead by.
    """
    X, u = rows[:, allowed] / scale[allowed], unit[allowed] / scale[allowed]
    n = X.shape[1]
    if not n or not np.abs(u).max(initial=0.0) > 1e-9:
        return np.inf, np.zeros(len(scale))
    found = scipy.optimize.linprog(
        np.append(np.zeros(n), 1.0),
        A_ub=np.column_stack((-X, -np.ones(len(X)))),
        b_ub=np.zeros(len(X)),
        A_eq=np.append(u, 0.0)[None],
        b_eq=[1.0],
        bounds=[(-100.0, 100.0)] * n + [(0.0, None)],
        method="highs",
    )
    if found.status != 0:
        return np.inf, np.zeros(len(scale))
    w = np.zeros(len(scale))
    w[allowed] = found.x[:-1] / scale[allowed]
    return float(found.x[-1]), w


def claims(recovered: RewardByDeviations, rng: np.random.Generator) -> tuple[CoordinateClaim, ...]:
    """What a recovered reward consists of, and whether that is sure; the sure first."""
    features = recovered.reward.features
    level = "hats" if recovered.chosen.level == "hats" else "squares"
    allowed = allowed_features(features, level)
    parts = blocks(features)
    used = [name for name, here in parts.items() if np.abs(recovered.reward.weights[here]).max(initial=0.0) > 0]
    if not len(features.ends):  # the step alone says nothing where no episode ends
        used = [name for name in used if name != ENDS]
    found = [
        CoordinateClaim(name, _needed(recovered, allowed, parts[name], rng), _likes(recovered, name)) for name in used
    ]
    return tuple(sorted(found, key=lambda one: not one.sure))


def _needed(recovered: RewardByDeviations, allowed: BoolArray, block: BoolArray, rng: np.random.Generator) -> bool:
    """Whether rewards of the `allowed` features need those of a `block`, surely."""
    home, features = recovered.home, recovered.reward.features
    if home.prepared is None:
        return False
    groups = sorted({one.group for one in recovered.comparisons})
    D = np.array([one.difference for one in recovered.comparisons])
    group = np.array([groups.index(one.group) for one in recovered.comparisons])
    scale = column_scale(D)
    unit = home.expert - home.random
    rivals = [one.difference for one in recovered.tried]
    without = allowed & ~block

    def slacks(number: object) -> tuple[float, float, FloatArray]:
        rows = _moments(D, group, number, rivals)
        least, w = least_slack(rows, unit, without, scale)
        return least_slack(rows, unit, allowed, scale)[0], least, w

    for _ in range(MOST_RIVALS):
        whole, least, w = slacks(None)
        if least > whole + SLACK:
            break
        plan = home.prepared.plan(VectorReward(features, w).batch)
        sums = [
            discounted(features(one.arrivals, one.ends), one.terminated, home.gamma)
            for one in plan.imagined(home.starts, home.horizon)
        ]
        rivals.append(home.expert - np.mean(sums, axis=0))
        if float(w @ rivals[-1]) >= -(whole + SLACK):
            return False
    drawn = [slacks(rng.integers(len(D), size=len(D))) for _ in range(DRAWS)]
    return float(np.mean([least > whole + SLACK for whole, least, _ in drawn])) >= SURE


def _moments(D: FloatArray, group: FloatArray, drawn: object, rivals: Sequence[FloatArray]) -> FloatArray:
    """`[m, k]`: the mean difference of each group, of all comparisons or of those drawn, and the rivals."""
    rows = np.arange(len(D)) if drawn is None else np.asarray(drawn)
    means = [D[rows[group[rows] == one]].mean(axis=0) for one in np.unique(group[rows])]
    return np.array([*means, *rivals])


def _likes(recovered: RewardByDeviations, name: str) -> tuple[tuple[str, int], ...]:
    """What all draws of the reward agree on."""
    features = recovered.reward.features
    draws = np.array([one.weights for one in (recovered.reward, *recovered.members)])
    if name == ENDS:
        gamma = recovered.home.gamma
        kinds = draws[:, -1 - len(features.ends) : -1] - gamma / (1 - gamma) * draws[:, -1:]
        signs = np.sign(kinds)
        return tuple(
            (kind, int(signs[0, k])) for k, kind in enumerate(features.ends.names) if (signs[:, k] == signs[0, k]).all()
        )
    place = features.coordinates.names.index(name)
    part = features.coordinates.parts[place]
    at = np.append(part.knots, 0.0) if part.low <= 0.0 <= part.high else part.knots
    worth = draws[:, features.groups[name]] @ part.features(at).T
    best = at[worth.argmax(axis=1)]
    if np.ptp(best) > 1e-9:
        ends = np.abs(best) >= 0.999 * np.abs(at).max()
        return (("far from 0", 1),) if ends.all() else ()
    return ((f"near {best[0]:.3g}" if abs(best[0]) > 1e-9 else "near 0", 1),)
