"""Published figures of real data, computed again from the data themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from aceirl.bench.careers import reproduce_careers
from aceirl.data.catalogue import SETS, sepsis_arrays
from aceirl.irl.structural import (
    COPYING,
    HABIT,
    REWARD,
    RecordedChoices,
    StructuralEstimate,
    StructuralModel,
    held_out,
    likelihood_ratio,
)
from aceirl.models.tabular.discounted import Discounted
from aceirl.models.tabular.panels import given_dynamics
from aceirl.runs.estimating import EstimatedReward, estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RUST_PUBLISHED = {"RC": 10.0750, "RC_se": 1.582, "theta": 2.2930, "theta_se": 0.639, "log_likelihood": -163.584}
"""Rust (1987), Table IX, group 4: linear costs, discount 0.9999, 90 bins; the log-likelihood is that of the choices."""

SEPSIS_ENDS = 713
"""The states from here on are death, survival, and what follows both."""

RUST_FEATURES = {"RC": "-(replaced == 1)", "theta": "-0.001*bin*(replaced == 0)"}


def rust_bus(discount: float = 0.9999, features: Mapping[str, str] = RUST_FEATURES) -> EstimatedReward:
    """Rust's model on group 4: linear costs, 90 bins, use of a bus as in the column `usage`, first months left out."""
    return estimate(
        SETS["rust-bus"].path("group4.csv"), state="bin", action="replaced", individual="bus", time="month",
        n_states=90, features=features, discount=discount, dynamics="increments", renews=1, increments="usage",
        skip=1, errors="outer",
    )  # fmt: skip


def reproduce_rust_bus() -> tuple[list[str], dict[str, Any]]:
    """Lines to print, and the figures."""
    found = rust_bus()
    se = {kind: found.estimate.standard_errors(kind) for kind in ("outer", "observed", "clustered")}
    clustered = found.estimate.bootstrap(100, panel=found.panel, dynamics=found.dynamics).std(axis=0)
    figures: dict[str, Any] = {}
    for k, (name, value) in enumerate(found.parameters.items()):
        figures |= {name: value, f"{name}_se": float(se["outer"][k])}
        figures |= {f"{name}_se_hessian": float(se["observed"][k]), f"{name}_se_clustered": float(se["clustered"][k])}
        figures |= {f"{name}_se_bootstrap": float(clustered[k])}
    figures |= {"log_likelihood": found.log_likelihood, "decisions": found.estimate.decisions}
    curved = rust_bus(features={**RUST_FEATURES, "square": "-0.00001*bin**2*(replaced == 0)"})
    test = likelihood_ratio(found.estimate, curved.estimate)
    figures |= {"square_p_value": test.p_value}
    figures |= {"myopic_log_likelihood": rust_bus(0.0).log_likelihood, "habits": found.habits}
    figures |= {"held_out_bits": found.to_json()["held_out_bits"], "published": RUST_PUBLISHED}
    lines = [
        "Rust (1987), group 4: linear costs, 90 bins, discount 0.9999.",
        "",
        f"{'':16}{'here':>10}{'published':>12}",
    ]
    lines += [f"{name:16}{figures[name]:>10.4f}{value:>12.4f}" for name, value in RUST_PUBLISHED.items()]
    lines += [
        "",
        "Standard errors are from the outer product of the scores, as published. From the Hessian they are "
        f"{se['observed'][0]:.3f} and {se['observed'][1]:.3f}, clustered by bus {se['clustered'][0]:.3f} and "
        f"{se['clustered'][1]:.3f}, by bootstrap over buses {clustered[0]:.3f} and {clustered[1]:.3f}.",
        f"Without looking ahead (discount 0) the log-likelihood is {figures['myopic_log_likelihood']:.3f}. A square of "
        f"the mileage adds {test.statistic / 2:.3f} to it (likelihood ratio test, p = {test.p_value:.2g}).",
        "",
        found.in_words(),
    ]
    return lines, figures


def engine_demand() -> Figure:
    """The picture: engines a year for the 37 buses in the long run against the replacement cost, with intervals."""
    from aceirl.explain.estimates import demand_curve

    found = rust_bus()
    factors, yearly = np.linspace(0.3, 1.7, 29), 12 * len(found.panel.individuals)
    share, ends = found.demand("RC", factors, 1)
    cost = found.parameters["RC"]
    return demand_curve(
        factors * cost, yearly * share, yearly * ends, title="Demand for engines",
        note="37 buses in the long run, with 90 % intervals; Rust's model, group 4",
        price="replacement cost RC, in units of the taste shocks", quantity="engines a year",
        today=(cost, yearly * float(found.counterfactual().demand[1])),
    )  # fmt: skip


def sepsis_values() -> dict[str, float]:
    """The probability to survive under three policies: clinicians, uniform over what clinicians do, and the best."""
    parts = sepsis_arrays()
    admissible = parts["policy"] > 0
    admissible[SEPSIS_ENDS:] = False
    dynamics = given_dynamics(parts["transitions"]).transitions
    problem = Discounted(dynamics, 1.0, available=admissible)
    reward = np.einsum("sat,sat->sa", parts["transitions"], parts["reward"])
    reward[~admissible] = 0.0
    uniform = admissible / np.maximum(admissible.sum(axis=1, keepdims=True), 1)
    found = {
        "clinicians": float(parts["initial"] @ problem.evaluate(reward, parts["policy"])[1]),
        "random": float(parts["initial"] @ problem.evaluate(reward, uniform)[1]),
    }
    return found | {"optimal": float(parts["initial"] @ problem.solve(reward).v)}


def sepsis_panel(patients: int, seed: int = 0) -> RecordedChoices:
    """Decisions of patients who are drawn from the clinicians' policy; the patients' own are not public."""
    parts, rng = sepsis_arrays(), np.random.default_rng(seed)
    chosen, moved = parts["policy"].cumsum(axis=1), parts["transitions"].cumsum(axis=2)
    who = np.arange(patients)
    state = rng.choice(len(chosen), size=patients, p=parts["initial"])
    rows = []
    while len(who):
        action = (rng.random(len(who))[:, None] > chosen[state, :-1]).sum(axis=1)
        after = (rng.random(len(who))[:, None] > moved[state, action, :-1]).sum(axis=1)
        rows.append((who, state, action))
        who, state = who[after < SEPSIS_ENDS], after[after < SEPSIS_ENDS]
    individual, states, actions = (np.concatenate(column) for column in zip(*rows, strict=True))
    return RecordedChoices(individual, states, actions, np.ones(len(states)), patients)


def sepsis_wish(patients: int = 2000, seed: int = 0) -> tuple[StructuralEstimate, StructuralEstimate]:
    """The reward of a logit clinician who may want survival and mind treatments; and the same without survival.

    An action is two treatments in five levels each; what they cost is taken as linear in the level.
    """
    parts = sepsis_arrays()
    admissible = parts["policy"] > 0
    admissible[SEPSIS_ENDS:] = False
    level = np.arange(admissible.shape[1])
    features = np.zeros((*admissible.shape, 3))
    features[:SEPSIS_ENDS, :, 0] = parts["transitions"][:SEPSIS_ENDS, :, SEPSIS_ENDS + 1]
    features[:SEPSIS_ENDS, :, 1] = level // 5 / 4
    features[:SEPSIS_ENDS, :, 2] = level % 5 / 4
    names = ("survival", "first treatment", "second treatment")
    dynamics, choices = given_dynamics(parts["transitions"]).transitions, sepsis_panel(patients, seed)
    full, rest = (
        StructuralModel(dynamics, features[:, :, first:], names[first:], 1.0, available=admissible).fit(choices)
        for first in (0, 1)
    )
    return full, rest


def reproduce_icu_sepsis() -> tuple[list[str], dict[str, Any]]:
    """Lines to print, and the figures."""
    values = sepsis_values()
    published = {"random": 0.78, "clinicians": 0.78, "optimal": 0.88}
    lines = ["ICU-Sepsis: share of patients who survive.", "", f"{'':16}{'here':>10}{'published':>12}"]
    lines += [f"{name:16}{values[name]:>10.3f}{published[name]:>12.2f}" for name in published]
    full, rest = sepsis_wish()
    test = likelihood_ratio(rest, full)
    low, high = full.intervals(0.9, "clustered")[0]
    lines += [
        "",
        f"What clinicians want, from {full.decisions:,} decisions about {full.choices.individuals:,} patients drawn "
        "from their policy, by a reward of survival and of the level of both treatments:",
    ]
    for name, value, (least, most) in zip(full.names, full.parameters, full.intervals(0.9, "clustered"), strict=True):
        lines.append(f"  {name}: {value:.3g}, 90 % interval {least:.3g} to {most:.3g}")
    told = "The decisions do not tell whether clinicians want survival"
    if low > 0:
        told = "Clinicians want survival"
    lines.append(
        f"{told}: without it the decisions are explained as well (likelihood ratio test, p = {test.p_value:.2g})."
    )
    bits = held_out(full).means
    lines.append(
        f"Patients left out: the reward {bits[REWARD]:.3f} bits a decision, a frequency per action {bits[HABIT]:.3f}, "
        f"copying {bits[COPYING]:.3f}."
    )
    figures = values | {"published": published, "survival": float(full.parameters[0]), "survival_interval": [low, high]}
    return lines, figures | {"survival_p_value": test.p_value, "held_out_bits": bits}


REPRODUCTIONS: dict[str, Callable[[], tuple[list[str], dict[str, Any]]]] = {
    "rust-bus": reproduce_rust_bus,
    "icu-sepsis": reproduce_icu_sepsis,
    "careers": reproduce_careers,
}
"""How the figures of each data set are computed."""
