"""The career decisions of young men (Keane and Wolpin 1997): a small structural model, beside the published one.

A state is the age, the years of schooling and what was done last year; one of five things is chosen each year until the
age of 60. Schooling grows by a year at school. What work pays is predicted by a regression of log wages on schooling
and age, and stays what it is at 26 after that. The reward is linear in that wage, in constants, in the costs of college
and of going on after it, and in those of changing: fourteen parameters. The published model is larger: wages, tastes
and four types of men are estimated together there, and experience in each occupation is part of the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from aceirl.data.catalogue import SETS
from aceirl.data.tables import read_table
from aceirl.irl.structural import (
    COPYING,
    HABIT,
    REWARD,
    RecordedChoices,
    StructuralEstimate,
    StructuralModel,
    held_out,
)
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray, Transitions

CHOICES = ("school", "home", "white-collar", "blue-collar", "military")
FIRST_AGE, LAST_SEEN, LAST_AGE = 16, 26, 60
SCHOOLING = np.arange(7, 21)
COLLEGE, GRADUATE = 12, 16
"""Years of schooling after which a further one is at college, and after it."""

SUBSIDY = 2.0
"""What a year of college is made cheaper by in the counterfactual, in thousands of dollars."""

DISCOUNT = 0.9363
"""As published, for the extended model."""

PUBLISHED = {
    "college": (-4.168, 0.838),
    "graduate school": (-7.030, 1.446),
    "back to high school": (-23.283, 1.359),
    "back to college": (-10.700, 0.926),
}
"""Costs of a year in thousands of dollars, with standard errors; Keane and Wolpin (1997), extended model."""

PUBLISHED_AT_16 = {"school": 1178, "home": 145, "white-collar": 4, "blue-collar": 45, "military": 1}
"""Keane and Wolpin (1997), Table 1; in all 12,359 decisions."""


@dataclass(frozen=True, eq=False)
class CareerDecisions:
    """The table as arrays, one entry a decision: `last` and `choice` are numbers of `CHOICES`, a wage may be nan."""

    man: IntArray
    age: IntArray
    schooling: IntArray
    last: IntArray
    choice: IntArray
    wage: FloatArray

    @classmethod
    def shipped(cls) -> CareerDecisions:
        """Those of the 1,373 men."""
        frame = read_table(SETS["careers"].path("decisions.csv.gz"))
        man, age, schooling = (
            np.asarray(frame.column(name).values, dtype=np.int64) for name in ("man", "age", "schooling")
        )
        last, choice = (
            np.array([CHOICES.index(str(one)) for one in frame.column(name).values]) for name in ("last", "choice")
        )
        paid = frame.column("wage", missing=True)
        wage = np.where(paid.missing, np.nan, np.where(paid.missing, 0, paid.values).astype(np.float64))
        return cls(np.unique(man, return_inverse=True)[1], age, schooling, last, choice, wage)

    @cached_property
    def state(self) -> IntArray:
        """The number of the state of each decision."""
        return np.asarray(number(self.age, self.schooling, self.last), dtype=np.int64)

    @property
    def choices(self) -> RecordedChoices:
        """As the estimator takes them."""
        return RecordedChoices(self.man, self.state, self.choice, np.ones(len(self.man)), int(self.man.max()) + 1)

    @property
    def start(self) -> FloatArray:
        """`[S]`: how the men are at 16."""
        young = self.state[self.age == FIRST_AGE]
        return np.bincount(young, minlength=len(STATES[0]) + 1) / len(young)


def number(age: Any, schooling: Any, last: Any) -> Any:
    """The number of a state; those after the last age are the end."""
    inside = ((age - FIRST_AGE) * len(SCHOOLING) + schooling - SCHOOLING[0]) * len(CHOICES) + last
    return np.where(np.asarray(age) > LAST_AGE, (LAST_AGE - FIRST_AGE + 1) * len(SCHOOLING) * len(CHOICES), inside)


_AGES, _YEARS, _LAST = np.meshgrid(
    np.arange(FIRST_AGE, LAST_AGE + 1), SCHOOLING, np.arange(len(CHOICES)), indexing="ij"
)
STATES: tuple[IntArray, IntArray, IntArray] = (_AGES.ravel(), _YEARS.ravel(), _LAST.ravel())
"""Age, schooling and last choice of every state; the end comes after them."""


def transitions() -> Transitions:
    """A year passes, and one at school is one of schooling more; nothing is left to chance."""
    age, schooling, _ = STATES
    chosen = np.arange(len(CHOICES))
    years = np.minimum(schooling[:, None] + (chosen == 0), SCHOOLING[-1])
    after = number(age[:, None] + 1, years, chosen[None, :]).ravel()
    n_states = len(age) + 1
    indptr = np.minimum(np.arange(n_states * len(CHOICES) + 1), len(after))
    return Transitions(n_states, len(CHOICES), indptr, after, np.ones(len(after)))


def wages(decisions: CareerDecisions) -> FloatArray:
    """`[S, A]`: what work is expected to pay, in thousands of dollars; by least squares on those who worked."""
    found = np.zeros((len(STATES[0]) + 1, len(CHOICES)))
    for work in range(2, len(CHOICES)):
        paid = (decisions.choice == work) & np.isfinite(decisions.wage)
        logs = np.log(decisions.wage[paid])
        known = _of_wages(decisions.age[paid], decisions.schooling[paid])
        slopes = np.linalg.lstsq(known, logs, rcond=None)[0]
        spread = float(np.var(logs - known @ slopes))
        found[:-1, work] = np.exp(_of_wages(STATES[0], STATES[1]) @ slopes + spread / 2) / 1000
    return found


def _of_wages(age: IntArray, schooling: IntArray) -> FloatArray:
    """`[n, 4]`: what a log wage depends on; nothing is known after 26."""
    years = np.minimum(age, LAST_SEEN) - FIRST_AGE
    return np.stack((np.ones(len(age)), schooling, years, years**2 / 100), axis=1)


def features(decisions: CareerDecisions) -> dict[str, FloatArray]:
    """`[S, A]` each, by name."""
    age, schooling, last = STATES
    takes = np.eye(len(CHOICES))
    school, home, white, blue, military = (np.tile(row, (len(age), 1)) for row in takes)

    def where(mask: BoolArray | IntArray) -> FloatArray:
        return np.asarray(mask, dtype=np.float64)[:, None]

    made = {
        "white-collar": white,
        "blue-collar": blue,
        "military": military,
        "school": school,
        "college": school * where(schooling >= COLLEGE),
        "graduate school": school * where(schooling >= GRADUATE),
        "school, a year older": school * where(np.clip(age, 18, LAST_SEEN) - 18),
        "back to high school": school * where((last != 0) & (schooling < COLLEGE)),
        "back to college": school * where((last != 0) & (schooling >= COLLEGE)),
        "leaving for home": home * where(last != 1),
        "new to white-collar": white * where(last != 2),
        "new to blue-collar": blue * where(last != 3),
        "new to military": military * where(last != 4),
    }
    over = np.zeros((1, len(CHOICES)))
    return {"wage": wages(decisions)} | {name: np.concatenate((table, over)) for name, table in made.items()}


def model(decisions: CareerDecisions, discount: float = DISCOUNT) -> StructuralModel:
    """The logit model of the decisions; nobody goes to school for more than twenty years."""
    known = features(decisions)
    available = np.ones((len(STATES[0]) + 1, len(CHOICES)), dtype=np.bool_)
    available[-1] = False
    available[:-1, 0] = STATES[1] < SCHOOLING[-1]
    return StructuralModel(
        transitions(), np.stack(list(known.values()), axis=2), tuple(known), discount, available=available
    )


def schooling_at_27(found: StructuralEstimate, decisions: CareerDecisions, parameters: FloatArray) -> FloatArray:
    """`[2]`: the shares of men with at least 12 and at least 16 years of schooling, as they come from 16 to 27."""
    policy = found.model.problem.solve(found.model.features @ parameters).policy
    ahead, here = found.model.transitions.matrix, decisions.start
    for _ in range(LAST_SEEN - FIRST_AGE + 1):
        here = np.asarray((here[:, None] * policy).ravel() @ ahead)
    years = np.append(STATES[1], 0)
    return np.array([here[years >= least].sum() for least in (COLLEGE, GRADUATE)])


def subsidised(found: StructuralEstimate, parameters: FloatArray) -> FloatArray:
    """The parameters where a year of college, but not after it, is cheaper by the subsidy."""
    names, changed = found.names, np.array(parameters, dtype=np.float64)
    gained = SUBSIDY * changed[names.index("wage")]
    changed[names.index("college")] += gained
    changed[names.index("graduate school")] -= gained
    return changed


def in_dollars(found: StructuralEstimate) -> dict[str, tuple[float, float]]:
    """`(value, standard error)` of each parameter in thousands of dollars a year, by the delta method."""
    k, values, spread = found.names.index("wage"), found.parameters, found.covariance("clustered")
    told = {}
    for j, name in enumerate(found.names):
        slope = np.zeros(len(values))
        slope[j] += 1 / values[k]
        slope[k] -= values[j] / values[k] ** 2
        told[name] = float(values[j] / values[k]), float(np.sqrt(slope @ spread @ slope))
    return told


def with_interval(
    found: StructuralEstimate, decisions: CareerDecisions, changed: Sequence[bool] = (False, True)
) -> tuple[FloatArray, FloatArray]:
    """`(shares [2, 2], standard errors [2, 2])` of `schooling_at_27`, without and with the subsidy; delta method."""

    def shares(parameters: FloatArray) -> FloatArray:
        worlds = [subsidised(found, parameters) if paid else parameters for paid in changed]
        return np.array([schooling_at_27(found, decisions, world) for world in worlds])

    at, step = np.asarray(found.parameters), 1e-4
    slopes = [(shares(at + step * one) - shares(at - step * one)) / (2 * step) for one in np.eye(len(at))]
    spread = np.einsum("jab,jk,kab->ab", slopes, found.covariance("clustered"), slopes)
    return shares(at), np.sqrt(np.maximum(spread, 0))


def reproduce_careers() -> tuple[list[str], dict[str, Any]]:
    """Lines to print, and the figures."""
    decisions = CareerDecisions.shipped()
    at_16 = np.bincount(decisions.choice[decisions.age == FIRST_AGE], minlength=len(CHOICES))
    choices = decisions.choices
    found = {discount: model(decisions, discount).fit(choices) for discount in (0.0, 0.787, DISCOUNT)}
    best = found[DISCOUNT]
    dollars, bits = in_dollars(best), held_out(best).means
    shares, errors = with_interval(best, decisions)
    lines = [
        f"Keane and Wolpin (1997): {len(decisions.man):,} decisions of {choices.individuals:,} young men "
        "(published: 12,359 of 1,373).",
        "At 16: " + ", ".join(f"{name} {n:,}" for name, n in zip(CHOICES, at_16, strict=True)) + " (published: "
        + ", ".join(f"{n:,}" for n in PUBLISHED_AT_16.values()) + ").",
        "",
        "A year's worth in thousands of dollars, with standard errors clustered by man; the published model is larger:",
    ]  # fmt: skip
    for name, (value, error) in dollars.items():
        if name != "wage":
            known = f"   published {PUBLISHED[name][0]:.3f} ({PUBLISHED[name][1]:.3f})" if name in PUBLISHED else ""
            lines.append(f"  {name:22}{value:>8.2f} ({error:.2f}){known}")
    told = ", ".join(f"{one.log_likelihood:.1f} with {discount:g}" for discount, one in found.items())
    lines += [
        f"The log-likelihood by the discount: {told}. The published discounts are 0.787 and 0.9363.",
        f"Men left out: the reward {bits[REWARD]:.3f} bits a decision, a frequency per action {bits[HABIT]:.3f}, "
        f"copying {bits[COPYING]:.3f}.",
    ]
    old = decisions.schooling[decisions.age == LAST_SEEN - 1]
    seen = [float((old >= least).mean()) for least in (COLLEGE, GRADUATE)]
    for k, name in enumerate(("at least 12 years of schooling", "at least 16")):
        before, after = shares[0, k], shares[1, k]
        lines.append(
            f"With {name} at 27: {before:.1%} ({errors[0, k]:.1%}), and {after:.1%} ({errors[1, k]:.1%}) if a year of "
            f"college were {SUBSIDY * 1000:,.0f} dollars cheaper; of the {len(old)} men seen at 25 {seen[k]:.1%}."
        )
    figures: dict[str, Any] = {"decisions": len(decisions.man), "men": choices.individuals, "at_16": at_16.tolist()}
    figures |= {"dollars": {name: list(pair) for name, pair in dollars.items()}, "held_out_bits": bits}
    figures |= {"log_likelihood": {f"{discount:g}": one.log_likelihood for discount, one in found.items()}}
    figures |= {"schooling_at_27": shares.tolist(), "schooling_at_27_se": errors.tolist(), "seen_at_25": seen}
    published = {name: list(pair) for name, pair in PUBLISHED.items()}
    return lines, figures | {"published": published | {"at_16": PUBLISHED_AT_16}}
