"""From a table to parameters, intervals, words and counterfactuals, in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from aceirl.data.tables import Panel, TableFrame, read_panel, read_table
from aceirl.errors import InputError, shown
from aceirl.irl.counterfactual import Counterfactual, counterfactual
from aceirl.irl.structural import (
    CHANCE,
    COPYING,
    HABIT,
    REWARD,
    Errors,
    HeldOut,
    RecordedChoices,
    StructuralEstimate,
    StructuralModel,
    habit_log_likelihoods,
    held_out,
)
from aceirl.models.tabular.mdp import FloatArray, Transitions
from aceirl.models.tabular.panels import CountedDynamics, IncrementDynamics, PanelDynamics, given_dynamics
from aceirl.rewards.expressions import evaluate, read_feature

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Feature = str | Callable[[Any, Any], float] | ArrayLike
"""A feature: an expression over the columns' names, a function of a state and an action, or an array `[S, A]`."""


@dataclass(frozen=True, eq=False)
class EstimatedReward:
    """What the recorded decisions say about the reward behind them.

    `estimate` has all numbers; this has words, pictures and counterfactuals, in the names of the table.
    """

    estimate: StructuralEstimate
    panel: Panel
    dynamics: PanelDynamics
    level: float = 0.9
    errors: Errors = "observed"

    @cached_property
    def parameters(self) -> dict[str, float]:
        """By name."""
        return dict(zip(self.estimate.names, self.estimate.parameters.tolist(), strict=True))

    @cached_property
    def standard_errors(self) -> dict[str, float]:
        """By name; NaN where the choices do not tell the parameter."""
        return dict(zip(self.estimate.names, self.estimate.standard_errors(self.errors).tolist(), strict=True))

    @cached_property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """By name, at the level of the result."""
        ends = self.estimate.intervals(self.level, self.errors).tolist()
        return {name: (low, high) for name, (low, high) in zip(self.estimate.names, ends, strict=True)}

    @property
    def log_likelihood(self) -> float:
        """Of the choices."""
        return self.estimate.log_likelihood

    @cached_property
    def habits(self) -> dict[str, float]:
        """In-sample log-likelihoods of habits, for comparison."""
        return habit_log_likelihoods(self.estimate)

    @cached_property
    def held_out(self) -> HeldOut | None:
        """How well individuals who were left out are predicted, by the reward and by habits; None with one of them."""
        return held_out(self.estimate) if len(self.panel.individuals) > 1 else None

    def counterfactual(
        self,
        *,
        parameters: Mapping[str, float] | None = None,
        scaled: Mapping[str, float] | None = None,
        dynamics: PanelDynamics | Transitions | ArrayLike | None = None,
        discount: float | None = None,
    ) -> Counterfactual:
        """What the expert would do with `parameters` set or `scaled`, other `dynamics`, or another `discount`.

        `dynamics` are a kind of them, fitted to the same panel, or transitions `[S, A, S]`.
        """
        transitions: Transitions | None = None
        if isinstance(dynamics, Transitions):
            transitions = dynamics
        elif dynamics is not None:
            kind = dynamics if hasattr(dynamics, "fit") else given_dynamics(dynamics)
            transitions = kind.fit(self.panel)
        return counterfactual(
            self.estimate, parameters=parameters, scaled=scaled, transitions=transitions, discount=discount
        )

    def demand(self, parameter: str, factors: ArrayLike, action: Any) -> tuple[FloatArray, FloatArray]:
        """`(demand [M], intervals [M, 2])` of an action in the long run, the parameter scaled by `factors [M]`."""
        a = self._action(action)
        worlds = [self.counterfactual(scaled={parameter: float(factor)}) for factor in np.asarray(factors)]
        ends = [world.demand_intervals(self.level, self.errors)[a] for world in worlds]
        return np.array([world.demand[a] for world in worlds]), np.array(ends)

    def plot(self, path: str | Path | None = None, *, action: Any = None, parameter: str | None = None) -> Figure:
        """How likely an action is by state, beside what was recorded; or with a `parameter`, the demand against it.

        By default the action is the one that was taken least often. With a `path` the picture is written there.
        """
        from aceirl.explain.estimates import choice_curve, demand_curve

        rare = int(np.argmin(np.where((taken := self.estimate.counts.sum(axis=0)) > 0, taken, np.inf)))
        a = rare if action is None else self._action(action)
        named = f"{self.panel.action_column} = {self.panel.actions[a]}"
        percent = f"{100 * self.level:g} % intervals"
        if parameter is None:
            n, here = self.panel.n_states, self.counterfactual()
            counts = self.estimate.counts[:n]
            figure = choice_curve(
                self.panel.states, here.policy[:n, a], here.choice_intervals(self.level, self.errors)[:n, a],
                counts[:, a], counts.sum(axis=1), title=f"{named}, {percent}",
                state=", ".join(self.panel.state_columns),
            )  # fmt: skip
        else:
            factors = np.linspace(0.4, 1.6, 25)
            share, ends = self.demand(parameter, factors, self.panel.actions[a])
            here = self.counterfactual()
            figure = demand_curve(
                factors * self.parameters[parameter], share, ends, title=f"Demand: {named}",
                note=f"share of decisions in the long run, with {percent}", price=parameter,
                quantity="share of decisions", today=(self.parameters[parameter], float(here.demand[a])),
            )  # fmt: skip
        if path is not None:
            from aceirl.explain.plots import save

            name = Path(path)
            save(figure, name.with_suffix(""), [name.suffix.lstrip(".") or "png"])
        return figure

    def _action(self, action: Any) -> int:
        if action not in self.panel.actions:
            raise InputError(f"{action!r} is not one of the actions {shown(list(self.panel.actions))}")
        return self.panel.actions.index(action)

    def in_words(self) -> str:
        """What was found, how sure it is, and what the decisions do not tell."""
        found, percent = self.estimate, f"{100 * self.level:g} %"
        people = len(self.panel.individuals)
        lines = [
            f"{found.decisions:,} decisions of {people} individual{'s' if people > 1 else ''}, {self.panel.n_states} "
            f"states, {self.panel.n_actions} actions; discount {found.model.discount:g}, log-likelihood "
            f"{found.log_likelihood:.3f}."
        ]
        open_ = int((~found.model.problem.allowed[: self.panel.n_states]).sum())
        if open_:
            lines.append(f"{open_} pairs of state and action were never tried and are left out of all choices.")
        if not found.converged:
            lines.append(
                "The likelihood has no maximum: more extreme parameters always explain the decisions better, so there "
                "is no estimate. The usual reason: an action that a feature is about was never taken."
            )
            return "\n".join(lines)
        for k, (name, value) in enumerate(self.parameters.items()):
            low, high = self.intervals[name]
            if found.unbounded[k]:
                way = "higher" if value > 0 else "lower"
                lines.append(
                    f"{name} has no finite estimate: the {way}, the better the fit; what it is about was never chosen."
                )
                continue
            if np.isinf(high):
                lines.append(f"{name} is not identified by the decisions.")
                continue
            sign = "is positive" if low > 0 else "is negative" if high < 0 else "may be positive or negative"
            lines.append(f"{name} {sign}: {value:.4g}, {percent} interval {low:.4g} to {high:.4g}.")
        lines += self._beside_habits()
        lines += self._not_told()
        return "\n".join(lines)

    def _beside_habits(self) -> list[str]:
        if self.held_out is None:
            return ["With one individual nothing can be left out, so the prediction of new decisions was not tested."]
        bits = self.held_out.means
        lines = [
            f"Test on individuals that were left out: the reward predicts {bits[REWARD]:.4f} bits a decision, the "
            f"frequency of each action (a habit) {bits[HABIT]:.4f}, that in each state (copying) {bits[COPYING]:.4f}."
        ]
        best = max((HABIT, CHANCE), key=bits.__getitem__)
        if not self.beats(best):
            lines.append(
                "That is not clearly better than a habit, so the data do not tell what is wanted: the model of the "
                "parameters above may be wrong."
            )
        else:
            beside = "better" if self.beats(COPYING) else "not clearly better"
            lines.append(f"It predicts better than a habit (95 % sure), and {beside} than copying.")
        return lines

    def beats(self, habit: str) -> bool:
        """Whether the reward predicts individuals left out better than a habit, with 95 % confidence."""
        if self.held_out is None:
            return False
        gain, error = self.held_out.advantage(REWARD, habit)
        return gain > 1.645 * error

    def _not_told(self) -> list[str]:
        found = self.estimate
        lines = []
        for direction in found.null_directions:
            parts = [
                f"{value:+.3g}·{name}" for name, value in zip(found.names, direction, strict=True) if abs(value) > 1e-6
            ]
            lines.append(f"Not identified: {' '.join(parts)} changes no recorded choice.")
        units = "in units of the taste shocks" if found.model.scale == 1 else (
            "with the scale estimated" if found.model.scale is None else f"with the scale {found.model.scale:g}"
        )  # fmt: skip
        lines.append(
            f"Decisions never identify the level of the reward, its scale (parameters are {units}), the discount, "
            "which was given, and what the features cannot express."
        )
        return lines

    def to_json(self) -> dict[str, Any]:
        """All of it in numbers; NaN and infinities are None."""

        def plain(value: float) -> float | None:
            return value if np.isfinite(value) else None

        return {
            "parameters": self.parameters,
            "standard_errors": {name: plain(value) for name, value in self.standard_errors.items()},
            "intervals": {name: [plain(low), plain(high)] for name, (low, high) in self.intervals.items()},
            "level": self.level,
            "errors": self.errors,
            "log_likelihood": self.log_likelihood,
            "decisions": self.estimate.decisions,
            "individuals": len(self.panel.individuals),
            "discount": self.estimate.model.discount,
            "converged": self.estimate.converged,
            "not_identified": [
                dict(zip(self.estimate.names, direction, strict=True))
                for direction in self.estimate.null_directions.tolist()
            ],
            "habits": self.habits,
            "held_out_bits": None if self.held_out is None else self.held_out.means,
            "beats_habit": self.beats(HABIT) and self.beats(CHANCE),
        }


def estimate(
    data: Any,
    *,
    state: str | Sequence[str],
    action: str,
    features: Mapping[str, Feature] | Sequence[str] | ArrayLike,
    discount: float,
    individual: str | None = None,
    time: str | None = None,
    next_state: str | Sequence[str] | None = None,
    terminated: str | None = None,
    truncated: str | None = None,
    done: str | None = None,
    horizon: int | None = None,
    n_states: int | None = None,
    n_actions: int | None = None,
    time_step: float | None = None,
    dynamics: str | PanelDynamics | Transitions | ArrayLike = "counted",
    renews: Any = None,
    increments: str | None = None,
    skip: int = 0,
    scale: float | None = 1.0,
    known: Feature | None = None,
    level: float = 0.9,
    errors: Errors = "observed",
) -> EstimatedReward:
    """The reward of a logit expert from a table of decisions: no simulator and no questions.

    The columns are named as for `aceirl.data.tables.read_panel`. `features` are what the reward may depend on, by name:
    expressions over the columns' names such as `"-0.001*bin*(replaced==0)"`, functions of a state and an action, or
    arrays `[S, A]`. `dynamics` are `"counted"` (a row for each state and action), `"increments"` (moves up and down an
    ordered state, the same everywhere; `renews` is the action that starts again from 0, `increments` a column that says
    by how much a row's state rose), or transitions `[S, A, S]`. The first `skip` decisions of each individual do not
    count as choices. With `scale=None` and a `known` part of the reward, the scale of the taste shocks is estimated.
    """
    frame = read_table(data)
    panel = read_panel(
        frame, state=state, action=action, individual=individual, time=time, next_state=next_state,
        terminated=terminated, truncated=truncated, done=done, horizon=horizon, n_states=n_states,
        n_actions=n_actions, time_step=time_step,
    )  # fmt: skip
    kind = _dynamics(frame, panel, dynamics, renews, increments)
    names, design = _features(panel, features)
    extra = None if known is None else _padded(panel, _feature(panel, known))
    transitions = kind.fit(panel)
    _check_left(panel, transitions)
    model = StructuralModel(transitions, _padded(panel, design), names, discount, scale, extra)
    counted = panel.without_first(skip) if skip else panel
    return EstimatedReward(model.fit(RecordedChoices.of(counted)), panel, kind, level, errors)


def _dynamics(frame: TableFrame, panel: Panel, dynamics: Any, renews: Any, increments: str | None) -> PanelDynamics:
    if not isinstance(dynamics, str):
        return dynamics if hasattr(dynamics, "fit") else given_dynamics(dynamics)
    if dynamics == "counted":
        if renews is not None or increments is not None:
            raise InputError("renews and increments are for dynamics='increments'")
        return CountedDynamics()
    if dynamics != "increments":
        raise InputError(f"dynamics are counted, increments, or transitions [S, A, S]; got {dynamics!r}")
    if renews is not None and renews not in panel.actions:
        raise InputError(f"renews is {renews!r}, not one of the actions {shown(list(panel.actions))}")
    if panel.states != tuple(range(panel.n_states)):
        raise InputError(f"increments need states that are whole numbers, and {panel.state_columns[0]!r} has others")
    moved: tuple[int, ...] | None = None
    if increments is not None:
        column = frame.column(increments, missing=True)
        if not column.whole:
            raise InputError(f"the column {increments!r} must have whole numbers")
        moved = tuple(np.where(column.missing, -1, column.values)[panel.row].tolist())
    return IncrementDynamics(None if renews is None else panel.actions.index(renews), moved)


def _check_left(panel: Panel, transitions: Transitions) -> None:
    """A state that is entered and never left is an end only where the table says so."""
    known = np.asarray(transitions.filled.reshape(-1, panel.n_actions).any(axis=1))
    stuck = [s for s in np.unique(transitions.successors) if s < panel.n_states and not known[s]]
    if stuck:
        named = ", ".join(shown(panel.states[s]) for s in stuck[:5])
        raise InputError(
            f"the state {named} is entered, and no row says what happens there: it was the last one recorded. Name the "
            "column that says that the process ended (terminated), use coarser states, or give other dynamics"
        )


def _features(panel: Panel, given: Any) -> tuple[tuple[str, ...], FloatArray]:
    """`(names, [S, A, K])`."""
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, Mapping) and all(isinstance(one, str) for one in given):
        given = dict(read_feature(one) for one in given)
    if isinstance(given, Mapping):
        if not given:
            raise InputError("features must name at least one feature")
        return tuple(given), np.stack([_feature(panel, one) for one in given.values()], axis=2)
    design = np.asarray(given, dtype=np.float64)
    if design.ndim != 3:
        raise InputError(f"features must have names, or the shape [S, A, K]; got {list(design.shape)}")
    return tuple(f"feature {k + 1}" for k in range(design.shape[2])), design


def _feature(panel: Panel, given: Feature) -> FloatArray:
    """`[S, A]`."""
    shape = panel.n_states, panel.n_actions
    if isinstance(given, str):
        parts = panel.states if len(panel.state_columns) > 1 else [(one,) for one in panel.states]
        values = {"state": np.arange(shape[0])[:, None], "action": np.arange(shape[1])[None, :]}
        columns = zip(panel.state_columns, zip(*parts, strict=True), strict=True)
        values |= {name: np.array(column)[:, None] for name, column in columns}
        return evaluate(given, values | {panel.action_column: np.array(panel.actions)[None, :]})
    if callable(given):
        table = np.array([[given(s, a) for a in panel.actions] for s in panel.states], dtype=np.float64)
    else:
        table = np.asarray(given, dtype=np.float64)
    if table.shape != shape:
        raise InputError(f"a feature must have shape {list(shape)}, got {list(table.shape)}")
    return table


def _padded(panel: Panel, table: FloatArray) -> FloatArray:
    """With zeros for the end, where the process has one."""
    return np.concatenate((table, np.zeros((1, *table.shape[1:])))) if panel.ends else table
