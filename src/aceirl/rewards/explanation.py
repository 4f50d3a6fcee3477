"""What a reward says of the expert: its parameters, which answers they explain, and what else might be said."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray
from aceirl.rewards.spaces import AnyReward, DesignMatrix


@dataclass(frozen=True, eq=False)
class Explanation:
    """A reward in a space, and how far it explains the answers.

    `map_estimate [n]` are the parameters that make the answers likeliest, most of them zero; `theta [n]` those to plan
    with, the mean over parameters that are about as likely. The largest of each is of size one. Parameter `k` is about
    the state `states[k]` and the action `actions[k]` (-1 if none), and the last is a step cost if it `has_step_cost`.

    Of `likeliest`: of the `answers`, `compared` are about states in which something else was tried as well, and the
    reward explains `explained` of those. `loss` is minus the log-likelihood of the answers in nats, `chance` the same
    if the expert took any action that was tried. If the reward were right and the answers were as uncertain as the
    estimate, the loss would be `expected`, give or take a `deviation`; the answers of an expert who acts on that reward
    are more consistent than that. `error_rate` is how often the expert seems to err. `importance [n]` is by how many
    nats the answers are less likely without a parameter. Of the `preferences` between episodes it explains
    `explained_preferences`; in all that is said of how likely answers are, they count with them.

    Of `theta`: `paid [S, A]` is what the reward pays for an action in a state, the step cost left out; in a state where
    episodes end, `ends [S]`, for having arrived there.
    """

    space: str
    theta: FloatArray
    map_estimate: FloatArray
    states: IntArray
    actions: IntArray
    has_step_cost: bool
    answers: int
    compared: int
    explained: int
    loss: float
    chance: float
    expected: float
    deviation: float
    error_rate: float
    importance: FloatArray
    paid: FloatArray
    ends: BoolArray
    horizon: int
    preferences: int = 0
    explained_preferences: int = 0

    @property
    def repeats_answers(self) -> bool:
        """Whether it is one of all tables, which says no more than what the expert did."""
        return self.space == AnyReward.name

    @property
    def about_places(self) -> bool:
        """Whether any parameter is about a state."""
        return bool((self.states >= 0).any())

    @property
    def about_actions(self) -> bool:
        """Whether any parameter is about an action."""
        return bool((self.actions >= 0).any())

    @property
    def gain(self) -> float:
        """How many nats likelier than chance the reward makes the answers."""
        return self.chance - self.loss

    @property
    def consistency(self) -> float:
        """By how many deviations the answers are more consistent than the estimate alone would let one expect."""
        return (self.expected - self.loss) / self.deviation if self.deviation > 0 else 0.0

    @property
    def evidence(self) -> float:
        """How much speaks for this reward, and for any reward of its space, if the expert does not err."""
        return self.gain + self.consistency

    @property
    def explains(self) -> bool:
        """Whether the reward explains the answers and preferences."""
        if self.error_rate:
            return self.gain >= ERRING_GAIN + self._luck
        needed = min(ENOUGH_EVIDENCE, max(LITTLE_EVIDENCE, PER_ANSWER * self.compared))
        return self.evidence >= needed + self._luck

    @property
    def _luck(self) -> float:
        """What preferences that mean nothing let the best of all single parameters, of either sign, gain.

        By chance, one of `N` rewards gains `log N + c` nats with probability `exp(-c)` at most, for the mean of a
        likelihood ratio is one; and a preference gains no more than `log 4`.
        """
        return min(self.preferences * float(np.log(4)), float(np.log(2 * len(self.theta))))

    @cached_property
    def by_state(self) -> FloatArray:
        """`[S]`: what each place is worth, its best action's payment; with a step cost, an end saves all later ones."""
        return np.asarray(self.paid.max(axis=1) + np.where(self.ends, self.step_cost * self.horizon, 0.0))

    @property
    def goals(self) -> list[int]:
        """The places of the largest reward, if the reward explains the answers and pays for being somewhere.

        Where nothing but a step cost is paid, all ends are worth the same: then only an end that is the only one is.
        """
        largest = float(self.by_state.max(initial=0.0))
        if not self.explains or largest <= 0 or not (self.map_estimate > 0).any():
            return []
        places = np.flatnonzero(self.by_state >= largest * (1 - 1e-9))
        ends = np.flatnonzero(self.ends)
        any_end = len(ends) > 1 and np.array_equal(places, ends) and self.paid[places].max() <= 0
        return [] if any_end else places.tolist()

    @property
    def avoided(self) -> list[int]:
        """The places that the expert avoids, the worst first, if the reward explains the answers."""
        about = self.states[(self.map_estimate < 0) & (self.states >= 0)]
        worst = self.paid.max(axis=1)
        places = [state for state in np.unique(about).tolist() if worst[state] < 0]
        return sorted(places, key=lambda state: float(worst[state])) if self.explains else []

    def of(self, theta: FloatArray, paid: FloatArray) -> Explanation:
        """The same with other parameters `theta [n]`, which pay `paid [S, A]`; what is said of the answers is kept."""
        return replace(self, theta=theta, map_estimate=theta, paid=paid)

    def parameters_in(self, design: DesignMatrix, numbers: IntArray) -> IntArray:
        """`[n]`: which parameter each one of the same space is, laid over another process; -1 if none.

        The states there have these `numbers [S]` here, -1 for none. A parameter is known by its state and its action;
        features are the same in their order.
        """
        own, theirs = len(self.states) - self.has_step_cost, design.n_parameters - design.has_step_cost
        if not self.about_places:
            return np.append(np.arange(theirs), own if self.has_step_cost else -1)[: design.n_parameters]
        n_states = max(len(self.ends), int(numbers.max(initial=0)) + 1)
        place = np.full((n_states + 1, max(self.paid.shape[1], design.shape[2]) + 1), -1)
        place[self.states[:own], self.actions[:own] + 1] = np.arange(own)  # those about no action come first
        index = place[numbers[design.states[:theirs]], design.actions[:theirs] + 1]
        return np.append(index, own if self.has_step_cost else -1) if design.has_step_cost else index

    def elsewhere(self, design: DesignMatrix, numbers: IntArray) -> Explanation:
        """The same in the states of another process, which all have `numbers [S]` here."""
        index = self.parameters_in(design, numbers)
        if self.repeats_answers:
            index = np.arange(len(self.theta)).reshape(-1, *self.paid.shape)[:, numbers].ravel()
        return replace(
            self,
            theta=self.theta[index],
            map_estimate=self.map_estimate[index],
            importance=self.importance[index],
            states=design.states,
            actions=design.actions,
            paid=self.paid[numbers],
            ends=self.ends[numbers],
        )

    @property
    def share(self) -> float:
        """The share of the answers that could be compared which the reward explains."""
        return self.explained / self.compared if self.compared else 0.0

    @property
    def step_cost(self) -> float:
        """What each step after the end of an episode is worth; zero if episodes do not end."""
        return float(self.theta[-1]) if self.has_step_cost else 0.0


LITTLE_EVIDENCE, ENOUGH_EVIDENCE, PER_ANSWER = 1.25, 2.5, 1 / 36
"""The evidence that a reward needs: so much for each answer compared, not less than the first and not more than the
second. `benchmarks/goals.py` prints what is found: at the end of a run 95 % of random MDPs, whose rewards depend on the
step, have less than 0.8, and 95 % of Chain, the hardest of those that are about places, more than 4.3."""

ERRING_GAIN = 1.5
"""The gain that a reward needs if the expert errs: whoever errs is not consistent."""
