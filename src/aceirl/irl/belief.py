"""What a strategy and a certificate are told, and what a strategy answers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np

from aceirl.errors import InputError
from aceirl.irl.prediction import Prediction, predicted
from aceirl.models.fields.chance import imagined_by_chance
from aceirl.models.fields.dynamics import Imagined, imagined
from aceirl.models.fields.reduction import Reduced
from aceirl.models.fields.table import FieldTable
from aceirl.models.tabular.bounds import ErrorBound, plausible_error, plausible_policies
from aceirl.models.tabular.confidence import Radii
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import BoolArray, FloatArray, IntArray, shared, steps_left
from aceirl.models.tabular.model import TabularModel
from aceirl.protocols import Model
from aceirl.rewards import InverseReinforcement, Recovered, RewardSpace
from aceirl.rewards.hypotheses import Denied, StationarySearch, Wish, wish_found, wish_of
from aceirl.rewards.recovered import Parameters, expanded

Memory = Mapping[str, FloatArray]
"""Named arrays that a strategy or a certificate wants to see again; they are kept with the run."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Where to collect next.

    `policy [H, S, A]` says how to act; with the probability `follow [H, S]`, the expert's answer is taken instead, and
    with the probability `follow_new` in a state that is met only now, where any other action is as likely as another;
    by default it is followed there if it is followed anywhere. To follow the expert wherever it says something needs no
    table: `follow` is then 1, and without a policy any action is taken where it says nothing. A plan for a generative
    model has an `allocation [H, S, A]` of samples and needs none of these. A `first_action` is taken at the first step
    of every episode, whatever else is said. The expert is asked in the states visited unless `ask` is false, or only
    where `ask [H, S]` is true, and at most so many `questions` in all episodes of the plan together. `memory`
    are arrays the strategy wants to see again next time, to start from; `evidence` is what its planner can say of the
    plan's quality. A plan may have rows for states that were not met yet: then `rows` finds that of a state.
    """

    policy: FloatArray | None = None
    follow: FloatArray | float | None = None
    follow_new: float | None = None
    first_action: int | None = None
    allocation: IntArray | None = None
    ask: bool | BoolArray = True
    questions: int | None = None
    memory: Memory = field(default_factory=dict)
    evidence: Mapping[str, float] = field(default_factory=dict)
    rows: Callable[[int, Any], int | None] | None = None

    def row(self, state: Any, observation: Any) -> Any:
        """Where the tables of the plan speak of a state with that observation; None if they do not."""
        if self.rows is not None:
            return self.rows(state, observation)
        table = self.policy if self.policy is not None else None if isinstance(self.ask, bool) else self.ask
        return state if table is not None and state < table.shape[1] else None

    @cached_property
    def always_follows(self) -> bool:
        """Whether the expert's answer is taken wherever there is one."""
        return self.follow is not None and float(np.min(self.follow)) >= 1

    def follow_at(self, step: int, state: Any, *, planned: bool) -> float:
        """How likely the expert is followed in a state, for which the policy may have no plan."""
        follow = self.follow
        if isinstance(follow, float | int):
            return follow
        if planned:
            return 0.0 if follow is None else float(follow[step, state])
        return float(follow is not None and follow.any()) if self.follow_new is None else self.follow_new


def checked_plan(plan: Any, shape: tuple[int, int, int], strategy: str) -> Plan:
    """The same plan for a problem of `shape` `(H, S, A)`, as arrays; an error names the strategy and what is wrong."""
    if not isinstance(plan, Plan):
        raise InputError(f"plan of {strategy} must return a Plan, got {type(plan).__name__}")
    if plan.policy is None and plan.allocation is None and not isinstance(plan.follow, float | int):
        raise InputError(f"the plan of {strategy} has neither a policy nor an allocation, of shape {list(shape)}")
    if plan.first_action is not None and plan.first_action not in range(shape[2]):
        raise InputError(f"the first_action of {strategy} is {plan.first_action}; actions are 0 to {shape[2] - 1}")
    limits: dict[str, tuple[tuple[int, ...], float]] = {
        "policy": (shape, 1.0),
        "follow": (() if isinstance(plan.follow, float | int) else shape[:2], 1.0),
        "follow_new": ((), 1.0),
        "allocation": (shape, float(np.finfo(np.float64).max)),
    }
    given = {name: getattr(plan, name) for name in limits if getattr(plan, name) is not None}
    found = {name: _numbers(f"{name} of {strategy}", value, *limits[name]) for name, value in given.items()}
    if "policy" in found:
        sums = found["policy"].sum(axis=2)
        _refuse(f"the sum over actions of policy of {strategy}", sums, np.abs(sums - 1) > ROUNDING, "must be 1")
    if "allocation" in found:
        samples = found["allocation"]
        _refuse(f"allocation of {strategy}", samples, samples % 1 > 0, "must be a whole number of samples")
        found["allocation"] = samples.astype(np.int64)
    return replace(plan, **found)


ROUNDING = 1e-6


def _numbers(name: str, given: Any, shape: tuple[int, ...], most: float) -> Any:
    """`given` as an array of that shape with numbers from 0 to `most`."""
    try:
        array = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers of shape {list(shape)}, got {given!r:.80}") from None
    if array.shape != shape:
        raise InputError(f"{name} must have shape {list(shape)}, got {list(array.shape)}")
    right = "must be from 0 to 1" if most == 1 else "must be finite and not negative"
    _refuse(name, array, ~((array >= 0) & (array <= most + ROUNDING)), right)
    return np.minimum(array, most)


def _refuse(name: str, array: FloatArray, wrong: BoolArray, right: str) -> None:
    """Say what is wrong where, and what would be right, if anything is."""
    if wrong.any():
        index = tuple(np.argwhere(wrong)[0].tolist())
        where = f" at {list(index)}" if index else ""
        raise InputError(f"{name} is {array[index]:.6g}{where}; it {right}")


@dataclass(frozen=True)
class Target:
    """What is asked: accuracy `epsilon`, in units of reward summed over an episode, with confidence `1 - delta`.

    The rewards of two steps differ by at most `rmax` and the returns of two episodes, where that is known, by at most
    `max_return`. With `by_state` a step is known to pay by its state alone, whatever is done there. Returns are
    discounted: a certificate in units of them is about fewer steps, the effective horizon.
    """

    epsilon: float
    delta: float
    rmax: float
    max_return: float | None = None
    by_state: bool = False
    discount: float = 1.0

    def possible(self, horizon: int) -> float:
        """The most by which the returns of two episodes can differ."""
        return min(self.steps(horizon) * self.rmax, np.inf if self.max_return is None else self.max_return)

    def steps(self, horizon: int) -> float:
        """The steps of an episode, discounted: `1 + γ + … + γ^(H-1)`."""
        return float(steps_left(horizon, self.discount)[0])

    def share(self, horizon: int) -> float:
        """The accuracy as a share of what two episodes can differ by."""
        return self.epsilon / self.possible(horizon)

    def losses(self, horizon: int) -> FloatArray:
        """`[H+1]`: what two episodes can differ by that part at step `h`, or never, as a share of the same.

        Where steps pay by their state, they are still paid alike at that step.
        """
        return _losses(horizon, self.rmax, self.possible(horizon), self.by_state, self.discount)

    def reached(self, value: float) -> bool:
        """Whether a value is the one asked for or below, up to the rounding of turning shares into rewards."""
        return value <= self.epsilon * (1 + 1e-12)


@lru_cache
def _losses(horizon: int, rmax: float, possible: float, by_state: bool, discount: float) -> FloatArray:
    worth = discount ** np.arange(horizon)
    steps = np.append(worth * steps_left(horizon, discount), np.zeros(1 + by_state))[by_state:]
    losses = np.minimum(steps * (rmax / possible), 1.0)
    losses.flags.writeable = False
    return np.asarray(losses)


KEPT = "fields.kept"
"""With the parameters of a reward: the fields that were enough, if it was sought in fewer states."""


class Inference:
    """A recovered reward and the accuracy `ε_k`, worked out when they are first asked for.

    The next inference starts from this one, so a chain of them comes out the same whenever each is worked out.
    """

    def __init__(
        self,
        model: TabularModel | None,
        algorithm: InverseReinforcement | None,
        space: RewardSpace | None,
        before: Inference | None,
        result: tuple[Recovered, float] | None = None,
    ) -> None:
        self._model, self._algorithm, self._space, self._before = model, algorithm, space, before
        self._result = result
        self.seconds = 0.0

    @classmethod
    def of(cls, recovered: Recovered, accuracy: float) -> Inference:
        """One that was worked out before."""
        return cls(None, None, None, None, (recovered, accuracy))

    @property
    def recovered(self) -> Recovered:
        """The reward."""
        return self._worked_out()[0]

    @property
    def accuracy(self) -> float:
        """`ε_k`: the smaller of (EB1) and (EB2), which defines the set of plausible policies."""
        return self._worked_out()[1]

    def _worked_out(self) -> tuple[Recovered, float]:
        if self._result is None:
            assert self._model is not None
            assert self._algorithm is not None
            self._result = self._infer(self._model, self._algorithm)
            self._model = self._before = None  # nobody needs what it was worked out from any more
        return self._result

    def _infer(self, model: TabularModel, algorithm: InverseReinforcement) -> tuple[Recovered, float]:
        before, estimate = self._before, model.estimate
        began = time.perf_counter()
        warm = {} if before is None else before.recovered.parameters
        recovered = recovered_by(algorithm, model, warm, self._space)
        self.seconds = time.perf_counter() - began
        # Paper, Algorithm 1: the accuracy starts at H/10, which makes every policy plausible.
        last = 0.1 * float(estimate.mdp.steps_left[0]) * model.rmax if before is None else before.accuracy
        policies = plausible_policies(estimate, recovered.reward, recovered.unknown_step_reward, last)
        accuracy = model.bound.value
        if policies is not None:
            accuracy = min(accuracy, plausible_error(estimate, model.radii, policies))
        return recovered, accuracy


def recovered_by(
    algorithm: InverseReinforcement, model: TabularModel, warm: Parameters, space: RewardSpace | None
) -> Recovered:
    """What an algorithm finds for a model, in a space of its own choice if that is None.

    One that `merges` seeks the reward in the fewest states that fields make, and each state of the run has what was
    found for the one that it is.
    """
    estimate, of_states = model.estimate, space is None or space.as_features() is None
    fewer = model.fewer if of_states and getattr(algorithm, "merges", False) else None
    kept = np.array([] if fewer is None else fewer.kept, dtype=np.float64)
    if not np.array_equal(warm.get(KEPT, []), kept):  # they are of other states
        warm = {}
    if fewer is None:
        recovered = algorithm(estimate, model.rmax, warm, space)
        _check_recovered(recovered, estimate.mdp.shape, algorithm)
        return recovered
    recovered = expanded(algorithm(fewer.estimate, model.rmax, warm, space), estimate, fewer.numbers)
    return replace(recovered, parameters={**recovered.parameters, KEPT: kept})


def _check_recovered(recovered: Any, shape: tuple[int, int, int], algorithm: InverseReinforcement) -> None:
    """An error that names the algorithm if what it returned is no reward of `shape` `(H, S, A)`."""
    name = f"the IRL algorithm {getattr(algorithm, '__name__', type(algorithm).__name__)}"
    if not isinstance(recovered, Recovered):
        raise InputError(f"{name} must return aceirl.rewards.Recovered, got {type(recovered).__name__}")
    found = np.shape(recovered.reward)
    if found != shape:
        raise InputError(f"{name} returned a reward of shape {list(found)}; it must have shape {list(shape)}")
    for field_name in ("reward", "unknown_step_reward"):
        array = np.asarray(getattr(recovered, field_name))
        _refuse(f"{field_name} of {name}", array, ~np.isfinite(array), "must be finite")


class Valued(Protocol):
    """A kind of certificate, as far as a strategy may ask it."""

    def value(self, belief: Belief) -> float:
        """What is certified now, in units of reward summed over an episode."""


@dataclass(frozen=True, eq=False)
class Belief:
    """All that is known when a plan is made; a function of the counts, the last reward and the last plan.

    `episodes` is the size of a batch, `N_E`. `memory` holds what the strategy's last plan asked to get back, `evidence`
    what each kind of certificate did.
    """

    model: Model
    inference: Inference
    target: Target
    episodes: int
    iteration: int = 0
    certificates: Mapping[str, Valued] = field(default_factory=dict)
    evidence: Mapping[str, Memory] = field(default_factory=dict)
    memory: Memory = field(default_factory=dict)
    horizon: int = 0
    """The steps of an episode, if the model is not a table."""
    max_samples: float = math.inf
    """How many steps the run may take in all."""

    @property
    def tables(self) -> TabularModel | None:
        """The model, if it is a table."""
        return self.model if isinstance(self.model, TabularModel) else None

    @property
    def table(self) -> TabularModel:
        """The model, which has to be a table: whoever asks has said so in its `needs`."""
        assert isinstance(self.model, TabularModel)
        return self.model

    @property
    def estimate(self) -> Estimate:
        """What the counts say."""
        return self.table.estimate

    @property
    def kind(self) -> ExpertKind:
        """What is assumed of the expert; it is asked everywhere if the model is not a table."""
        return ExpertKind(ask_again=1.0) if self.tables is None else self.tables.estimate.kind

    @property
    def radii(self) -> Radii:
        """How wrong that may be."""
        return self.table.radii

    @property
    def bound(self) -> ErrorBound:
        """(EB1)."""
        return self.table.bound

    @property
    def shape(self) -> tuple[int, int, int]:
        """`(H, S, A)`."""
        return self.estimate.counts.shape

    @property
    def steps(self) -> int:
        """`H`, the steps of an episode."""
        return self.horizon if self.tables is None else self.shape[0]

    @property
    def rmax(self) -> float:
        """How far the rewards of two steps can lie apart."""
        return self.target.rmax

    @property
    def delta(self) -> float:
        """How often a promise may be wrong."""
        return self.target.delta

    @cached_property
    def recovered(self) -> Recovered:
        """The last reward that was inferred, with all states that are known by now."""
        return self.inference.recovered.grown(self.shape[1])

    @property
    def accuracy(self) -> float:
        """The last `ε_k`, the bound that defines the set of plausible policies."""
        return self.inference.accuracy

    @cached_property
    def prediction(self) -> Prediction:
        """What the expert would answer where it was not asked: a guess to steer by; of states that are only imagined
        too, if there are any."""
        return predicted(self._search)

    @cached_property
    def _search(self) -> StationarySearch:
        """The search for the wishes of an expert that does not look at the step, with what is imagined if anything."""
        if self.imagined is None:
            return StationarySearch(self.estimate, self.table.fields)
        return StationarySearch(self.imagined.estimate, self.imagined.table)

    @cached_property
    def imagined(self) -> Imagined | None:
        """What the dynamics of fields that were given predict of rows and states that were never met; None if they
        predict nothing."""
        fields = self.telling_fields
        return None if fields is None else imagined(self.estimate, fields)

    def imagined_state(self, state: int, observation: Any) -> int | None:
        """The number of a state that may be met only now among those that are imagined; None if it is none of them."""
        if state < self.shape[1]:
            return state
        assert self.imagined is not None
        assert self.table.access is not None
        fields = self.table.access.fields
        values = None if fields is None else self.imagined.table.numbers(fields.read(observation))
        return None if values is None else self.imagined.numbers.get(values)

    @property
    def known_actions(self) -> IntArray | None:
        """`[H, S]`: what the expert is known to do, -1 where it is not; None if stochastic or without a table."""
        return None if self.tables is None else self.tables.estimate.known_actions

    @cached_property
    def imputed(self) -> IntArray:
        """`[S+1]`: what the expert is imputed to do in each state, and in those without any answer, where it was not
        asked yet.

        Its commonest answers, until something is wagered on them; from then on they stand, and are in the evidence.
        Nothing, -1, in states that were met since then and have no answer yet.
        """
        if self.frozen_imputation is None:
            return self.estimate.common_answers
        frozen, imputed = self.frozen_imputation, np.full(self.shape[1] + 1, -1)
        imputed[: len(frozen) - 1], imputed[-1] = frozen[:-1], frozen[-1]
        return imputed

    @property
    def frozen_imputation(self) -> FloatArray | None:
        """What was `imputed` of the states met by then when something was first wagered on it; None before."""
        return next((memory["imputed"] for memory in self.evidence.values() if "imputed" in memory), None)

    @cached_property
    def imputed_actions(self) -> IntArray | None:
        """`[H, S]`: the known actions, and elsewhere those imputed, if the expert is of a kind to presume them of."""
        known = self.known_actions
        if known is None or not self.estimate.kind.imputed:
            return known
        if self.frozen_imputation is None:
            return self.estimate.imputed_actions
        return np.where(known < 0, self.imputed[:-1], known)

    @cached_property
    def wish(self) -> Wish:
        """What the answers tell of the expert's wish, whatever reward was recovered."""
        return self.wish_after(())

    @cached_property
    def promised_wish(self) -> Wish:
        """The same without what is predicted of rows that were never tried: no promise rests on that."""
        if self.table.fewer is not None:
            return self.wish
        return wish_of(self.estimate, fields=self.telling_fields)

    @cached_property
    def _told_by_chance(self) -> Imagined | None:
        """What rows tell of others where fields change by chance; None if they tell nothing, or if nothing does."""
        fields = self.telling_fields
        return None if fields is None or self.imagined else imagined_by_chance(self.estimate, fields)

    def wish_after(self, denied: Sequence[Denied]) -> Wish:
        """The same with what the expert denied of the wish itself.

        It rests on rows that were tried and, where fields change by chance, on what those tell of others. If these do
        not name one wish, one may rest on what the dynamics of fields predict, for an expert that does not look at the
        step. Where there are many states it is sought in the fewest that fields make, if there are such.
        """
        if self.table.fewer is not None:
            return _wish_of_fields(self.table.fewer, denied)
        if self._told_by_chance is None and not denied:
            wish = self.promised_wish
        else:
            wish = wish_of((self._told_by_chance or self).estimate, fields=self.telling_fields, denied=denied)
        if wish.kind == "bold" or self.imagined is None or not self.kind.stationary:
            return wish
        search = StationarySearch(self.imagined.estimate, self.imagined.table, denied) if denied else self._search
        further = wish_found(search).of_states(self.shape[1])
        return further if further.kind == "bold" else wish

    @property
    def telling_fields(self) -> FieldTable | None:
        """The fields of the states, if a wish may be said in their terms."""
        fields = self.table.fields
        return fields if fields is not None and fields.speaks else None

    def certified_value(self, kind: str) -> float:
        """What the certificate of that kind says, in units of reward summed over an episode."""
        if kind not in self._values:
            self._values[kind] = self.certificates[kind].value(self)
        return self._values[kind]

    @cached_property
    def _values(self) -> dict[str, float]:
        return {}

    def certified(self, kind: str) -> bool:
        """Whether the certificate of that kind holds at the accuracy asked for."""
        return self.target.reached(self.certified_value(kind))


def _wish_of_fields(fewer: Reduced, denied: Sequence[Denied]) -> Wish:
    """The wish in the terms of fields, in states that are several of the run each.

    Nothing happens by chance there, and the expert does not look at the step.
    """
    known = imagined(fewer.estimate, fewer.table) or fewer
    return wish_found(StationarySearch(known.estimate, known.table, denied, merged=True))


def is_due(iteration: int, growth: float) -> bool:
    """Whether something is done again that is done whenever the iterations have grown by a share."""
    if iteration < 2:
        return True
    done, now = (int(np.log(number) / np.log1p(growth) + 1e-9) for number in (iteration - 1, iteration))
    return now > done


@shared
def uniform_policy(shape: tuple[int, ...]) -> FloatArray:
    """`[H, S, A]`: every action as likely as any other; read-only."""
    policy = np.full(shape, 1.0 / shape[2])
    policy.flags.writeable = False
    return policy
