"""Structural estimation against finite differences, brute force, closed forms, published figures and simulation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from aceirl.data.tables import Panel, read_panel, read_table
from aceirl.errors import InputError
from aceirl.irl.counterfactual import counterfactual
from aceirl.irl.structural import (
    RecordedChoices,
    StructuralEstimate,
    StructuralModel,
    habit_log_likelihoods,
    held_out,
    likelihood_ratio,
)
from aceirl.models.tabular.mdp import MDP, Transitions
from aceirl.models.tabular.panels import IncrementDynamics

BUSES = Path(__file__).parents[1] / "src" / "aceirl" / "data" / "sets" / "rust-bus" / "group4.csv"


def process(seed: int, n_states: int = 6, n_actions: int = 3) -> Transitions:
    dense = np.random.default_rng(seed).dirichlet(np.full(n_states, 0.4), size=(n_states, n_actions))
    return MDP.from_dense(dense, initial=0, horizon=1).transitions


def simulated(model: StructuralModel, theta: np.ndarray, people: int, steps: int, seed: int) -> RecordedChoices:
    """Choices of the model's own experts."""
    rng = np.random.default_rng(seed)
    policy, dense = model.policy(theta), model.transitions.dense()
    n_states, n_actions = policy.shape
    rows = []
    for person in range(people):
        s = int(rng.integers(n_states))
        for _ in range(steps):
            a = int(rng.choice(n_actions, p=policy[s]))
            rows.append((person, s, a))
            s = int(rng.choice(n_states, p=dense[s, a]))
    table = np.array(rows)
    return RecordedChoices(table[:, 0], table[:, 1], table[:, 2], np.ones(len(table)), people)


def example(seed: int = 0, discount: float = 0.9) -> tuple[StructuralModel, np.ndarray]:
    rng = np.random.default_rng(100 + seed)
    features = rng.normal(size=(6, 3, 2))
    return StructuralModel(process(seed), features, ("one", "two"), discount), np.array([0.8, -0.5])


@pytest.mark.parametrize("discount", [0.0, 0.9, 0.999])
def test_derivatives_are_those_of_finite_differences(discount: float) -> None:
    model, theta = example(discount=discount)
    counts = simulated(model, theta, 3, 40, 0).table((6, 3))
    point, step = model.at(theta), 1e-5

    def value(at: np.ndarray) -> float:
        return model.at(at).log_likelihood(counts)

    def slope(at: np.ndarray) -> np.ndarray:
        return model.at(at).gradient(counts)

    for k, unit in enumerate(np.eye(2) * step):
        numeric = (value(theta + unit) - value(theta - unit)) / (2 * step)
        np.testing.assert_allclose(point.gradient(counts)[k], numeric, rtol=1e-5, atol=1e-5)
        bend = (slope(theta + unit) - slope(theta - unit)) / (2 * step)
        np.testing.assert_allclose(point.hessian(counts)[k], bend, rtol=1e-5, atol=1e-5)


def test_the_maximum_is_that_of_a_search_without_derivatives_over_value_iteration() -> None:
    model, theta = example(1)
    choices = simulated(model, theta, 5, 60, 1)
    counts, dense = choices.table((6, 3)), model.transitions.dense()

    def negative(at: np.ndarray) -> float:
        reward, v = model.features @ at, np.zeros(6)
        for _ in range(400):
            q = reward + 0.9 * dense @ v
            v = np.log(np.exp(q).sum(axis=1))
        return -float((counts * (q - v[:, None])).sum())

    found = model.fit(choices)
    searched = minimize(negative, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-10})
    np.testing.assert_allclose(found.parameters, searched.x, atol=1e-5)
    np.testing.assert_allclose(found.log_likelihood, -searched.fun, atol=1e-7)
    assert found.converged


def logit_of_one_state(taken: int, of: int) -> StructuralEstimate:
    stay = MDP.from_dense(np.ones((1, 2, 1)), initial=0, horizon=1).transitions
    model = StructuralModel(stay, np.array([[[0.0], [1.0]]]), ("worth",), 0.95)
    counts = np.array([of - taken, taken], dtype=np.float64)
    return model.fit(RecordedChoices(np.zeros(2, int), np.zeros(2, int), np.arange(2), counts, 1))


def test_one_state_has_a_closed_form() -> None:
    """A logit of one constant: the log odds, and the variance `1/(n·p·(1−p))`, whatever the discount."""
    found = logit_of_one_state(30, 100)
    np.testing.assert_allclose(found.parameters, np.log(30 / 70), rtol=1e-7)
    for errors in ("observed", "expected", "outer"):
        np.testing.assert_allclose(found.standard_errors(errors), np.sqrt(1 / (100 * 0.3 * 0.7)), rtol=1e-6)
    np.testing.assert_allclose(found.log_likelihood, 30 * np.log(0.3) + 70 * np.log(0.7))


def test_an_action_that_nobody_takes_has_no_estimate() -> None:
    assert not logit_of_one_state(0, 100).converged
    assert logit_of_one_state(1, 100).converged


def test_a_feature_of_what_nobody_chose_has_a_sign_and_no_estimate() -> None:
    model, theta = example(11)
    choices = simulated(model, theta, 5, 60, 12)
    where = np.zeros((6, 3, 1))
    where[2, 1] = 1.0
    kept = ~((choices.state == 2) & (choices.action == 1))
    never = RecordedChoices(choices.individual[kept], choices.state[kept], choices.action[kept], choices.count[kept], 5)
    more = StructuralModel(
        model.transitions, np.concatenate((model.features, where), axis=2), ("one", "two", "there"), 0.9
    )
    assert more.fit(choices).unbounded == (False, False, False)
    found = more.fit(never)
    assert found.unbounded == (False, False, True)
    assert found.parameters[2] < 0
    assert np.isnan(found.standard_errors()).tolist() == [False, False, True]


def test_the_scale_is_estimated_where_a_part_of_the_reward_is_known() -> None:
    model, theta = example(2)
    known = np.random.default_rng(5).normal(size=(6, 3))
    fixed = StructuralModel(model.transitions, model.features, model.names, 0.9, scale=2.0, known=known)
    choices = simulated(fixed, theta, 20, 200, 2)
    free = StructuralModel(model.transitions, model.features, model.names, 0.9, scale=None, known=known)
    found = free.fit(choices)
    assert found.names == ("one", "two", "scale")
    np.testing.assert_allclose(found.parameters, [*theta, 2.0], atol=4 * found.standard_errors().max())
    held = fixed.fit(choices)
    assert found.log_likelihood >= held.log_likelihood
    # The standard errors by the delta method are those of the likelihood in the parameters themselves.
    step, counts = 1e-4, choices.table((6, 3))

    def value(at: np.ndarray) -> float:
        return free.at(free.linear(at)).log_likelihood(counts)

    bend = np.empty((3, 3))
    units = np.eye(3) * step
    for i in range(3):
        for j in range(3):
            ends = [value(found.parameters + a * units[i] + b * units[j]) for a in (1, -1) for b in (1, -1)]
            bend[i, j] = (ends[0] - ends[1] - ends[2] + ends[3]) / (4 * step**2)
    np.testing.assert_allclose(found.covariance(), np.linalg.inv(-bend), rtol=2e-3)
    with pytest.raises(InputError, match="only their ratio"):
        StructuralModel(model.transitions, model.features, model.names, 0.9, scale=None)


def test_what_is_not_identified_is_found() -> None:
    """A shift of the level and a potential change no choice."""
    model, theta = example(3)
    choices = simulated(model, theta, 4, 100, 3)
    potential = np.random.default_rng(0).normal(size=6)
    shaped = potential[:, None] - 0.9 * model.transitions.dense() @ potential
    more = np.concatenate((model.features, np.ones((6, 3, 1)), shaped[:, :, None]), axis=2)
    found = StructuralModel(model.transitions, more, ("one", "two", "level", "potential"), 0.9).fit(choices)
    assert found.identified == (True, True, False, False)
    np.testing.assert_allclose(found.null_directions[:, :2], 0, atol=1e-6)
    assert len(found.null_directions) == 2
    small = model.fit(choices)
    np.testing.assert_allclose(found.parameters[:2], small.parameters, atol=1e-5)
    np.testing.assert_allclose(found.standard_errors()[:2], small.standard_errors(), rtol=1e-4)
    assert np.isnan(found.standard_errors()[2:]).all()
    assert np.isinf(found.intervals()[2:]).all()
    with pytest.raises(InputError, match="no more identified parameters"):
        likelihood_ratio(small, found)


def test_a_likelihood_ratio_finds_the_feature_that_matters() -> None:
    model, theta = example(4)
    choices = simulated(model, theta, 10, 100, 4)
    larger = model.fit(choices)
    smaller = StructuralModel(model.transitions, model.features[:, :, :1], ("one",), 0.9).fit(choices)
    test = likelihood_ratio(smaller, larger)
    assert test.degrees == 1
    assert test.p_value < 1e-4
    elsewhere = np.random.default_rng(1).normal(size=(6, 3, 1))
    other = StructuralModel(model.transitions, elsewhere, ("x",), 0.9).fit(choices)
    with pytest.raises(InputError, match="not combinations"):
        likelihood_ratio(other, larger)
    patient = StructuralModel(model.transitions, model.features[:, :, :1], ("x",), 0.5).fit(choices)
    with pytest.raises(InputError, match="different discounts"):
        likelihood_ratio(patient, larger)


def test_individuals_who_repeat_themselves_have_wider_clustered_errors() -> None:
    """Every person ten times: independent decisions count as new ones, copies of a person do not."""
    model, theta = example(5)
    choices = simulated(model, theta, 30, 20, 5)
    once = model.fit(choices)
    tenfold = RecordedChoices(choices.individual, choices.state, choices.action, 10 * choices.count, 30)
    again = model.fit(tenfold)
    np.testing.assert_allclose(again.standard_errors(), once.standard_errors() / np.sqrt(10), rtol=1e-5)
    np.testing.assert_allclose(again.standard_errors("clustered"), once.standard_errors("clustered"), rtol=1e-5)


def test_the_bootstrap_over_individuals_agrees_with_clustered_errors() -> None:
    model, theta = example(6)
    found = model.fit(simulated(model, theta, 40, 30, 6))
    draws = found.bootstrap(150, seed=1)
    np.testing.assert_allclose(draws.std(axis=0), found.standard_errors("clustered"), rtol=0.3)
    np.testing.assert_array_equal(draws[:5], found.bootstrap(5, seed=1))


def test_intervals_cover_about_as_often_as_they_say() -> None:
    model, theta = example(7)
    covered = []
    for seed in range(40):
        low, high = model.fit(simulated(model, theta, 4, 60, seed)).intervals(0.9).T
        covered.append((low <= theta) & (theta <= high))
    assert 0.8 <= np.mean(covered) <= 0.98


def test_wrong_input_is_named() -> None:
    transitions = process(0)
    with pytest.raises(InputError, match=r"features must have shape \[6, 3, K\], got \[6, 3\]"):
        StructuralModel(transitions, np.zeros((6, 3)), ("x",), 0.9)
    bad = np.zeros((6, 3, 1))
    bad[1, 2] = np.nan
    with pytest.raises(InputError, match=r"features\[1, 2, 0\] is nan"):
        StructuralModel(transitions, bad, ("x",), 0.9)
    with pytest.raises(InputError, match="1 different names"):
        StructuralModel(transitions, np.zeros((6, 3, 1)), ("x", "y"), 0.9)


@pytest.fixture(scope="module")
def buses() -> tuple[Panel, IncrementDynamics]:
    table = read_table(BUSES)
    panel = read_panel(table, state="bin", action="replaced", individual="bus", time="month", n_states=90)
    usage = table.column("usage", missing=True)
    return panel, IncrementDynamics(1, tuple(np.where(usage.missing, -1, usage.values)[panel.row].tolist()))


@pytest.fixture(scope="module")
def rust(buses: tuple[Panel, IncrementDynamics]) -> StructuralEstimate:
    panel, dynamics = buses
    features = np.zeros((90, 2, 2))
    features[:, 1, 0] = -1
    features[:, 0, 1] = -0.001 * np.arange(90)
    model = StructuralModel(dynamics.fit(panel), features, ("RC", "theta"), 0.9999)
    return model.fit(RecordedChoices.of(panel.without_first(1)))


def test_the_published_estimates_of_rust_are_reproduced(rust: StructuralEstimate) -> None:
    """Rust (1987), Table IX, group 4, linear costs, discount 0.9999, 90 bins."""
    assert rust.decisions == 4292
    np.testing.assert_allclose(rust.parameters[0], 10.0750, atol=0.005)
    np.testing.assert_allclose(rust.parameters[1], 2.2930, atol=0.001)
    np.testing.assert_allclose(rust.log_likelihood, -163.584, atol=0.001)
    np.testing.assert_allclose(rust.standard_errors("outer"), [1.582, 0.639], atol=0.001)
    assert rust.converged
    assert rust.identified == (True, True)


def test_the_usage_of_the_buses_is_the_published_one(buses: tuple[Panel, IncrementDynamics]) -> None:
    panel, dynamics = buses
    np.testing.assert_allclose(dynamics.shares(panel, 0)[1], [0.39189, 0.59529, 0.01281], atol=5e-6)


def test_habits_stand_beside_the_estimate(rust: StructuralEstimate) -> None:
    habits = habit_log_likelihoods(rust)
    assert habits["chance"] < habits["frequency per action"] < rust.log_likelihood < habits["frequency per state"]
    left_out = held_out(rust)
    assert left_out.means["the estimated reward"] > left_out.means["frequency per state"]
    assert left_out.means["chance"] == -1.0
    gain, error = left_out.advantage("the estimated reward", "frequency per action")
    assert gain > 2 * error > 0


def test_another_price_is_a_transfer_with_intervals(rust: StructuralEstimate) -> None:
    today = counterfactual(rust)
    np.testing.assert_allclose(today.policy, rust.policy)
    low, high = today.demand_intervals(0.9)[1]
    assert low < today.demand[1] < high
    assert today.demand[1] > rust.counts[:, 1].sum() / rust.decisions, "the recorded buses were new"
    cheap, dear = (counterfactual(rust, scaled={"RC": factor}) for factor in (0.8, 1.25))
    assert cheap.demand[1] > today.demand[1] > dear.demand[1], "demand falls with the price"
    choices = today.choice_intervals(0.9)
    assert (choices[..., 0] <= today.policy + 1e-12).all()
    assert (today.policy <= choices[..., 1] + 1e-12).all()


def test_the_delta_method_agrees_with_drawn_parameters() -> None:
    model, theta = example(8)
    found = model.fit(simulated(model, theta, 40, 100, 8))
    there = counterfactual(found, scaled={"one": 1.5}, discount=0.5)
    drawn = np.quantile(there.draws(300, seed=2), [0.05, 0.95], axis=0).T
    np.testing.assert_allclose(there.demand_intervals(0.9), drawn, atol=0.2 * np.ptp(drawn, axis=1).max())


def test_demand_is_the_share_in_a_long_simulation() -> None:
    model, theta = example(9)
    found = model.fit(simulated(model, theta, 5, 50, 9))
    there = counterfactual(found, transitions=process(77))
    choices = simulated(there.model, there.parameters, 4, 2500, 10)
    np.testing.assert_allclose(there.demand, choices.table((6, 3)).sum(axis=0) / 10_000, atol=0.02)


def test_derivatives_of_demand_are_those_of_finite_differences() -> None:
    model, theta = example(10)
    found = model.fit(simulated(model, theta, 5, 50, 11))
    there = counterfactual(found, scaled={"two": 0.7})
    demand, slope = there._stationary
    step = 1e-6
    for k, name in enumerate(found.names):
        moved = there.parameters + step * np.eye(2)[k]
        other = counterfactual(found, parameters=dict(zip(found.names, moved, strict=True)))
        np.testing.assert_allclose((other.demand - demand) / step, slope[:, k], atol=1e-4, err_msg=name)


def test_a_set_parameter_is_certain_and_a_scaled_one_is_not(rust: StructuralEstimate) -> None:
    names = dict(zip(rust.names, rust.parameters, strict=True))
    fixed = counterfactual(rust, parameters=names)
    np.testing.assert_allclose(fixed.demand_intervals()[1], fixed.demand[1], rtol=1e-9)
    assert np.ptp(counterfactual(rust, scaled={"RC": 1.0}).demand_intervals()[1]) > 0
    with pytest.raises(InputError, match="unknown parameter 'RD'"):
        counterfactual(rust, scaled={"RD": 2.0})


def test_what_is_not_identified_cannot_be_taken_elsewhere() -> None:
    model, theta = example(3)
    choices = simulated(model, theta, 4, 100, 3)
    more = np.concatenate((model.features, np.eye(6)[:, :1, None] * np.ones((6, 3, 1))), axis=2)
    level = np.concatenate((model.features, np.ones((6, 3, 1))), axis=2)
    assert StructuralModel(model.transitions, more, ("one", "two", "in state 0"), 0.9).fit(choices).identified[2]
    found = StructuralModel(model.transitions, level, ("one", "two", "level"), 0.9).fit(choices)
    assert counterfactual(found, scaled={"one": 2.0}).policy.shape == (6, 3)
    with pytest.raises(InputError, match="the choices do not identify level"):
        counterfactual(found, discount=0.5)
