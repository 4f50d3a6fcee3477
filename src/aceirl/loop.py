"""THE loop: plan, collect, estimate, bound, infer – and yield what happened."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from aceirl.bounds import error_bound, plausible_error, plausible_policies
from aceirl.certificates import (
    Certificate,
    Findings,
    Terms,
    Wealth,
    certificate,
    forecast,
    next_first_action,
    place,
    policy_value,
    reached,
    values,
)
from aceirl.collect import Collected, Plan, collect, known_route
from aceirl.confidence import FAMILIES
from aceirl.counts import Counts, Estimate, ExpertKind, with_states
from aceirl.errors import InputError
from aceirl.explore import Belief, Strategy, strategy
from aceirl.irl import InverseReinforcement, Recovered, action_values, algorithm, made_feasible
from aceirl.kernels import greedy_actions
from aceirl.mdp import FloatArray, IntArray
from aceirl.protocols import EndingEnvironment, Environment, Expert, GrowingEnvironment
from aceirl.settings import Settings

STREAMS = ("strategy", "environment", "ties")


@dataclass(frozen=True)
class Record:
    """One iteration, in numbers. `regret` is None where no truth is known; `stopped` is None while the run goes on."""

    iteration: int
    samples: int
    episodes: int
    answers: int
    bound: float
    certificates: dict[str, float]
    regret: float | None
    infeasibility: float
    planner_gap: float | None
    planning_seconds: float
    inferring_seconds: float
    seconds: float
    stopped: str | None

    def to_json(self) -> dict[str, Any]:
        """Plain values, ready for a line of JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class State:
    """All that the next iteration depends on, besides environment, expert and settings.

    Chance is not part of it: iteration `k` draws from streams named by `(seed, k)`, so a run can go on from any state.
    `names` are the states in their order, where the environment numbers them as it meets them.
    """

    iteration: int
    counts: Counts
    recovered: Recovered | None = None
    policy: IntArray | None = None
    accuracy: float | None = None
    memory: Mapping[str, FloatArray] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    wealth: Wealth | None = None


@dataclass(frozen=True, eq=False)
class Turn:
    """One turn of the loop: the record for whoever watches, and the state to go on from."""

    record: Record
    state: State


def learn(
    environment: Environment,
    expert: Expert,
    settings: Settings,
    *,
    regret: Callable[[IntArray], float] | None = None,
    state: State | None = None,
    explorer: Strategy | None = None,
    infer: InverseReinforcement | None = None,
) -> Iterator[Turn]:
    """Learn until the certificate, the regret or the budget says stop; one turn an iteration.

    `regret` measures a policy `[H, S]` against a truth the learner does not see. `explorer` and `infer` replace the
    strategy and the IRL algorithm named in the settings. Give a `state` to go on from it.
    """
    if not expert.deterministic and settings.certify in ("policy", "criterion"):
        raise InputError(
            f"certify is {settings.certify!r}, which needs an expert who always answers alike; for this one choose "
            "reward, set, dynamics or none"
        )
    if expert.deterministic and settings.least_probability is not None:
        raise InputError(
            f"least_probability is {settings.least_probability:g}, but this expert always answers alike; leave it out"
        )
    explorer = explorer or strategy(settings.strategy)
    infer = infer or algorithm(settings.irl)
    if isinstance(environment, GrowingEnvironment):
        environment.recall(state.names if state else ())
    state = state or start(environment, settings)
    belief = believe(estimate(environment, expert, settings, state.counts), settings, state)
    while True:
        streams = random_streams(settings.seed, state.iteration)

        turned = began = time.perf_counter()
        plan = explorer.plan(belief, streams["strategy"])
        if settings.certify == "criterion":
            plan = replace(plan, first_action=_first_action(state, settings))
        planning = time.perf_counter() - began

        episodes, limit = settings.episodes_per_iteration, settings.max_answers
        seen = collect(environment, expert, plan, episodes, state.counts, streams["environment"], max_answers=limit)
        wealth = _bet(belief.estimate, expert, settings, state, plan, seen)
        state = grown(state, seen.counts.shape[1], plan.memory)
        counts = state.counts + seen.counts

        began = time.perf_counter()
        warm = state.recovered.parameters if state.recovered else None
        known = estimate(environment, expert, settings, counts)
        recovered = made_feasible(known, infer(known, settings.rmax, warm), settings.rmax)
        inferring = time.perf_counter() - began

        # Kept is the accuracy from before this turn: what is believed now is recomputed from it when a run goes on.
        names = environment.names if isinstance(environment, GrowingEnvironment) else ()
        state = State(state.iteration + 1, counts, recovered, None, belief.accuracy, state.memory, names, wealth)
        belief = believe(known, settings, state)
        q = action_values(known, recovered.reward, recovered.neutral)
        policy = greedy_actions(q, streams["ties"])
        state = replace(state, policy=policy)

        measured = regret(policy) if regret else None
        certificates = {}
        if settings.certify:
            certificates = values(_findings(belief, expert, state), terms(settings, known.mdp.horizon))
        record = Record(
            iteration=state.iteration,
            samples=counts.samples,
            episodes=state.iteration * settings.episodes_per_iteration,
            answers=counts.questions,
            bound=belief.accuracy,
            certificates=certificates,
            regret=measured,
            infeasibility=recovered.infeasibility,
            planner_gap=plan.evidence.get("gap"),
            planning_seconds=planning,
            inferring_seconds=inferring,
            seconds=time.perf_counter() - turned,
            stopped=_reason_to_stop(settings, certificates, counts, measured),
        )
        yield Turn(record, state)
        if record.stopped:
            return


def start(environment: Environment, settings: Settings) -> State:
    """The state before anything was observed."""
    shape = (environment.horizon, environment.n_states, environment.n_actions)
    for name, size in zip(("horizon", "n_states", "n_actions"), shape, strict=True):
        if size < 1:
            raise InputError(f"the environment's {name} is {size}; it must be at least 1")
    return State(0, Counts.empty(shape, stationary=settings.stationary_dynamics))


def grown(state: State, n_states: int, memory: Mapping[str, FloatArray]) -> State:
    """The state with all its arrays as large as the problem has become; the strategy's `memory` is that of its plan."""
    horizon, before, _ = state.counts.shape
    if n_states == before:
        return replace(state, memory=memory)
    recovered = state.recovered
    return replace(
        state,
        counts=state.counts.grown(n_states),
        recovered=recovered and replace(recovered, parameters=with_states(recovered.parameters, n_states)),
        memory={
            name: with_states(array, n_states) if array.shape[:2] == (horizon, before) else array
            for name, array in memory.items()
        },
    )


def estimate(environment: Environment, expert: Expert, settings: Settings, counts: Counts) -> Estimate:
    """What the counts say, under what the settings assume."""
    kind = ExpertKind(expert.deterministic, expert.stationary, settings.least_probability)
    possible = environment.possible_states or math.inf if isinstance(environment, GrowingEnvironment) else None
    return Estimate.of(
        counts,
        kind=kind,
        delta=settings.delta / 3,
        initial=environment.initial,
        end=environment.end if isinstance(environment, EndingEnvironment) else None,
        possible_states=possible,
    )


def believe(known: Estimate, settings: Settings, state: State) -> Belief:
    """All that is known in a state: estimates, radii and bounds."""
    radii = FAMILIES[settings.confidence](known, settings.rmax, settings.delta)
    bound = error_bound(known.mdp, radii)
    recovered = state.recovered
    reward = recovered.reward if recovered else np.zeros(known.mdp.shape)
    neutral = recovered.neutral if recovered else 0.0
    # Paper, Algorithm 1: the accuracy starts at H/10, which makes every policy plausible.
    before = state.accuracy if state.accuracy is not None else 0.1 * known.mdp.horizon * settings.rmax
    policies = plausible_policies(known, reward, neutral, before)
    accuracy = bound.value if policies is None else min(bound.value, plausible_error(known, radii, policies))
    return Belief(
        estimate=known,
        radii=radii,
        bound=bound,
        reward=reward,
        neutral=neutral,
        accuracy=accuracy,
        rmax=settings.rmax,
        delta=settings.delta,
        episodes=settings.episodes_per_iteration,
        iteration=state.iteration,
        policy_certified=_policy_certified(settings, state),
        memory=state.memory,
    )


def _policy_certified(settings: Settings, state: State) -> bool:
    horizon = state.counts.shape[0]
    if state.wealth is None:
        return False
    return reached(policy_value(state.wealth, horizon, terms(settings, horizon)), target(settings, horizon))


def random_streams(seed: int, iteration: int) -> dict[str, np.random.Generator]:
    """The generators of one iteration, by name: the same for the same seed, wherever the run was interrupted."""
    sequence = np.random.SeedSequence(seed, spawn_key=(iteration,))
    return {
        name: np.random.default_rng(child) for name, child in zip(STREAMS, sequence.spawn(len(STREAMS)), strict=True)
    }


def target(settings: Settings, horizon: int) -> float:
    """The accuracy asked for: `epsilon`, or a tenth of the most an episode can earn."""
    return settings.epsilon if settings.epsilon is not None else 0.1 * horizon * settings.rmax


def terms(settings: Settings, horizon: int) -> Terms:
    """What the settings ask of a certificate."""
    return Terms(target(settings, horizon), settings.delta, settings.rmax, settings.confidence)


def certify(kind: str, environment: Environment, expert: Expert, settings: Settings, state: State) -> Certificate:
    """The certificate of a kind in a state of a run, with all that is to be said about it."""
    if state.recovered is None:
        raise InputError("there is nothing to certify before the first iteration")
    belief = believe(estimate(environment, expert, settings, state.counts), settings, state)
    return certificate(kind, _findings(belief, expert, state), terms(settings, environment.horizon))


def _findings(belief: Belief, expert: Expert, state: State) -> Findings:
    assert state.recovered is not None
    assert state.wealth is not None
    route = known_route(expert, state.counts)
    return Findings(belief.estimate, belief.radii, belief.bound, state.recovered, state.wealth, route)


def _first_action(state: State, settings: Settings) -> int:
    horizon, _, n_actions = state.counts.shape
    asked = terms(settings, horizon)
    wealth = state.wealth or Wealth.of_beginners(asked.share(horizon), n_actions)
    return next_first_action(wealth, state.iteration, horizon, asked)


def _bet(before: Estimate, expert: Expert, settings: Settings, state: State, plan: Plan, seen: Collected) -> Wealth:
    """What the new episodes made of the bets that were placed before them, on the grounds of what was known then."""
    horizon, _, n_actions = state.counts.shape
    share = terms(settings, horizon).share(horizon)
    wealth = state.wealth or Wealth.of_beginners(share, n_actions)
    route = known_route(expert, state.counts, plan.first_action)
    if route is None:
        return wealth
    bettor = 0 if plan.first_action is None else 1 + plan.first_action
    return wealth.after(bettor, place(forecast(before, route), share), seen.exits)


def _reason_to_stop(
    settings: Settings, certificates: dict[str, float], counts: Counts, regret: float | None
) -> str | None:
    if settings.certify and reached(certificates[settings.certify], target(settings, counts.shape[0])):
        return "certificate"
    if regret is not None and settings.until_regret is not None and regret < settings.until_regret:
        return "regret"
    if counts.samples >= settings.max_samples or counts.questions >= (settings.max_answers or math.inf):
        return "budget"
    return None
