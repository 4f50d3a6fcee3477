"""Which strategy, reward space, certificate, batch and radii fit an environment, and what a run with them will cost.

`look` sees what an environment says of itself, `wander` plays a few random episodes, `rehearse` begins the run that is
advised. All costs come from these two; nothing is known beforehand.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from aceirl.certificates.e_process import Forecast, kelly_wager
from aceirl.collect import Streams
from aceirl.envs import ENVIRONMENTS, make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.loop import learn
from aceirl.protocols import Environment
from aceirl.runs import settings_for
from aceirl.settings import Settings
from aceirl.sources import Source, Task, gym_env, open_source
from aceirl.turns import Turn

RANDOM_EPISODES, RANDOM_SECONDS, LONGEST_EPISODE = 20, 5.0, 1_000
REHEARSED_EPISODES, REHEARSED_SECONDS = 40, 10.0
"""A rehearsal ends with its certificate, or when it can foretell one after so many episodes, or after so long."""

SLOW_STEP = 1e-3
"""Seconds of a step from which processes of their own pay (docs/gymnasium.md, Episodes side by side)."""

PLAIN_BINS = 6

MEASURED = {
    "random-mdp": (773, 50),
    "gridworld": (827, 50),
    "chain": (939, 50),
    "double-chain": (1_465, 50),
    "four-paths": (1_636, 50),
    "FrozenLake-v1": (1_939, 5),
    "FrozenLake8x8-v1": (7_262, 5),
    "Taxi-v4": (12_682, 5),
}
"""Samples of the default run to its certificate, and of how many runs that is the mean; from docs/rewards.md."""


@dataclass(frozen=True)
class Facts:
    """What an environment says of itself.

    `states` is how many observations there can be, None if nobody can say; `continuous` are observations that must be
    cut, in words; `binned` that they are; `exact` that the model can be read off it, so that `optimal` can be asked.
    """

    environment: str
    own: bool
    actions: int | None
    horizon: int | None
    states: int | None
    continuous: str | None = None
    binned: bool = False
    exact: bool = False


@dataclass(frozen=True)
class Wandering:
    """What random episodes showed: how many, their steps in all, the longest, states met, and how many ended.

    `seconds_per_step` is the median, of the environment alone; `ranges` are the lowest and highest value of each number
    in a continuous observation.
    """

    episodes: int
    steps: int
    longest: int
    seconds_per_step: float
    states: int
    ended: int
    ranges: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Rehearsal:
    """What the first episodes of the run showed, with its expert.

    `more_samples` is what the certificate expects to need still, 0 if it holds and None if it cannot say; the two rates
    are those of the second half of the rehearsal.
    """

    episodes: int
    samples: int
    answers: int
    seconds: float
    certified: bool
    more_samples: int | None
    answers_per_sample: float
    seconds_per_sample: float


@dataclass(frozen=True)
class Choice:
    """A setting, what to give it, and why."""

    setting: str
    value: str
    because: str


@dataclass(frozen=True)
class Cost:
    """What the run is expected to take in all; None where that cannot be said. `source` is where it comes from."""

    least_episodes: int | None
    samples: int | None
    answers: int | None
    seconds: float | None
    source: str


@dataclass(frozen=True)
class Advice:
    """What fits an environment. While something is `missing` that must be given, there are no choices and no cost."""

    facts: Facts
    seen: tuple[str, ...]
    missing: tuple[str, ...]
    choices: tuple[Choice, ...]
    notes: tuple[str, ...]
    command: str
    cost: Cost | None

    def in_words(self) -> str:
        """All of it, a sentence a line."""
        lines = [*self.seen, *self.missing]
        width = max((len(f"{choice.setting} {choice.value}") for choice in self.choices), default=0)
        lines += [f"  {f'{one.setting} {one.value}':<{width}}  {one.because}" for one in self.choices]
        lines += [] if self.cost is None else cost_in_words(self.cost)
        return "\n".join([*lines, *self.notes, f"Next: {self.command}"])

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def advise(source: Source) -> Advice:
    """What fits the environment and the expert that a source names; without an expert, what can be said without one."""
    facts = look(source)
    if facts.horizon is None or facts.continuous is not None:
        return _first_needs(source, facts)
    asked = replace(source, expert="optimal") if source.expert is None and facts.exact and not facts.own else source
    if asked.expert == "optimal" and not asked.stationary_expert:
        asked = replace(asked, stationary_expert=True)
    with _environment(source) as environment:
        wandered = wander(environment, source.seed)
    rehearsal, kind = None, None
    if facts.own or asked.expert not in (None, "terminal"):
        with open_source(asked) as task:
            kind = _kind(task)
            settings = settings_for(task, Settings(certify=_certificate(kind, facts, asked), seed=source.seed))
            rehearsal = rehearse(task, settings)
            least = None if settings.certify is None else least_episodes(settings, task.environment)
    else:
        least = least_episodes(Settings(seed=source.seed), horizon=facts.horizon)
    slow = not facts.own and wandered.seconds_per_step >= SLOW_STEP
    certify = _certificate(kind, facts, asked)
    return Advice(
        facts=facts,
        seen=(_described(facts), _wandered(wandered, facts)),
        missing=(),
        choices=_choices(facts, kind, certify, wandered, slow=slow),
        notes=tuple(_notes(facts, source, kind)),
        command=_command("run", asked, certify, slow=slow, name_expert=not facts.own),
        cost=_cost(least, wandered, rehearsal, _measured(asked)),
    )


def look(source: Source) -> Facts:
    """What the environment of a source says of itself; an `InputError` if nothing can be learnt in it."""
    name = source.environment
    if name in ENVIRONMENTS:
        mdp = make(name, source.seed, **source.parameters).mdp
        return Facts(name, True, mdp.n_actions, mdp.horizon, mdp.n_states, exact=True)
    from aceirl.envs.observations import key_function

    with closing(gym_env(source)) as env:
        limit = None if env.spec is None else env.spec.max_episode_steps
        continuous = None
        if source.discretise is None:
            try:
                key_function(env.observation_space)
            except InputError:
                continuous = _numbers(env.observation_space)
        adapted = _adapted(source, env, horizon=source.horizon or limit or 1, blind=continuous is not None)
        possible = None if continuous else adapted.possible_states
        return Facts(
            name,
            False,
            adapted.n_actions,
            source.horizon or limit,
            None if possible is None else (possible - 1) // 2,
            continuous,
            source.discretise is not None,
            continuous is None and _has_model(env) and not source.discretise and not source.wrap,
        )


def _numbers(space: Any) -> str:
    """A continuous space in words."""
    shape = getattr(space, "shape", None)
    return "partly continuous" if not shape else f"continuous, {' by '.join(map(str, shape))} numbers"


def _has_model(env: Any) -> bool:
    """Whether the exact model is a table of the environment, or in its rules, and need not be searched for."""
    own = env.unwrapped
    known = hasattr(own, "P") and hasattr(own, "initial_state_distrib")
    return (known and not getattr(own, "fickle_passenger", False)) or type(own).__name__ == "BlackjackEnv"


def _adapted(source: Source, env: Any, *, horizon: int, blind: bool) -> Any:
    """The environment as the learner wants it; `blind` to what it shows, if that cannot be told apart yet."""
    from aceirl.envs.gymnasium import GymEnvironment
    from aceirl.sources.gymnasium import adapted

    if not blind:
        return adapted(replace(source, horizon=horizon), env)
    return GymEnvironment(env, horizon=horizon, discretise=lambda observation: 0)


@contextmanager
def _environment(source: Source, *, horizon: int | None = None, blind: bool = False) -> Iterator[Environment]:
    """The environment of a source, without an expert."""
    if source.environment in ENVIRONMENTS:
        yield Simulator(make(source.environment, source.seed, **source.parameters).mdp)
        return
    with closing(gym_env(source)) as env:
        limit = None if env.spec is None else env.spec.max_episode_steps
        yield _adapted(source, env, horizon=horizon or source.horizon or limit or LONGEST_EPISODE, blind=blind)


def wander(environment: Environment, seed: int) -> Wandering:
    """Random episodes, `RANDOM_EPISODES` of them or fewer if they take long."""
    rng = Streams.of(seed, 0).ties
    lengths: list[int] = []
    seconds: list[float] = []
    observations: list[Any] = []
    ended, met, began = 0, set(), time.perf_counter()
    while len(lengths) < RANDOM_EPISODES and (not lengths or time.perf_counter() - began < RANDOM_SECONDS):
        met.add(environment.reset(rng))
        for step in range(1, environment.horizon + 1):
            action, before = int(rng.integers(environment.n_actions)), time.perf_counter()
            state = environment.step(action)
            seconds.append(time.perf_counter() - before)
            met.add(state)
            if hasattr(environment, "seen"):
                observations.append(environment.seen())
            over = state in getattr(environment, "terminal", ())
            if over or step == environment.horizon:
                ended += over
                lengths.append(step)
                break
    pace = float(np.median(seconds))
    return Wandering(len(lengths), sum(lengths), max(lengths), pace, len(met), ended, _ranges(observations))


def _ranges(observations: Sequence[Any]) -> tuple[tuple[float, float], ...]:
    """The lowest and the highest of each number; none, if observations are not flat rows of numbers."""
    first = np.asarray(observations[0]) if observations and not isinstance(observations[0], dict | tuple) else None
    if first is None or first.ndim != 1 or first.dtype.kind != "f":
        return ()
    rows = np.asarray(observations, dtype=np.float64)
    return tuple(zip(rows.min(axis=0).tolist(), rows.max(axis=0).tolist(), strict=True))


def rehearse(task: Task, settings: Settings) -> Rehearsal:
    """Begin the run, and stop when it is seen what it will take."""
    began, seconds, turns = time.perf_counter(), [], []
    with closing(learn(task.environment, task.expert, settings)) as steps:
        for turn in steps:
            turns.append(turn)
            seconds.append(time.perf_counter() - began)
            late = turn.record.episodes >= REHEARSED_EPISODES and turn.iteration % 10 == 0
            if turn.record.stopped or seconds[-1] > REHEARSED_SECONDS or (late and _foretold(turn) is not None):
                break
    # The first turns compile and meet everything for the first time; what comes is like the second half.
    last, half = turns[-1].record, turns[(len(turns) - 1) // 2].record
    grown = max(1, last.samples - half.samples)
    elapsed = seconds[-1] - seconds[(len(turns) - 1) // 2]
    return Rehearsal(
        last.episodes,
        last.samples,
        last.answers,
        seconds[-1],
        last.stopped == "certificate",
        _foretold(turns[-1]),
        (last.answers - half.answers) / grown,
        elapsed / grown,
    )


def _foretold(turn: Turn) -> int | None:
    """How many more samples the certificate expects to need."""
    kind = turn.settings.certify
    if kind is None:
        return None
    found = turn.certificate(kind.name)
    return 0 if found.holds else found.more_samples


def least_episodes(settings: Settings, environment: Environment | None = None, *, horizon: int = 1) -> int:
    """How many episodes the `policy` certificate takes if none of them ever leaves what is known."""
    steps = horizon if environment is None else environment.horizon
    target = settings.target(steps)
    losses = target.losses(steps)
    if environment is not None and environment.initial is not None:
        losses = np.minimum(losses, losses[1])  # every start is known, and the expert is taken at its word
    share = target.share(steps)
    growth = kelly_wager(Forecast(np.zeros((steps, 1)), np.eye(steps + 1)[-1], losses), share).growth
    return math.ceil(math.log(1 / settings.delta) / growth) if growth > 0 else 1


def _kind(task: Task) -> str:
    if not task.expert.deterministic:
        return "stochastic"
    return "stationary" if task.expert.stationary else "by step"


def _certificate(kind: str | None, facts: Facts, source: Source) -> str | None:
    """The certificate to stop on: none where none can be had."""
    recorded = source.expert is not None and source.expert.endswith((".jsonl", ".npz"))
    return None if kind == "stochastic" or (recorded and facts.binned) else "policy"


def _choices(
    facts: Facts, kind: str | None, certify: str | None, wandered: Wandering, *, slow: bool
) -> tuple[Choice, ...]:
    """The settings, each with its reason."""
    if kind == "stochastic":
        strategy = "probes what the expert declined, and in between goes where the dynamics are least known"
    else:
        strategy = "tries what the expert declined, then follows it until the certificate holds"
    if facts.states is None or facts.binned:
        reward = "the smallest that explains the answers; a function of the observation, if you know what may matter"
    else:
        reward = "state, state-action or any: the smallest that explains the answers"
    if certify is not None:
        promise = "the only promise that a few hundred episodes can give; it needs no bound on the number of states"
    elif kind == "stochastic":
        promise = "there is none for a stochastic expert that a few thousand samples can give"
    else:
        promise = "what was recorded of a state says nothing of the other observations in its bin"
    if slow:
        batch = Choice("num_envs", "8", f"a step takes {1e3 * wandered.seconds_per_step:.2g} ms: play side by side")
    else:
        batch = Choice("episodes_per_iteration", "1", "a plan costs little here, and larger batches take more samples")
    radii = "not used by the policy certificate" if certify else "sound, and enough to steer by"
    return (
        Choice("strategy", "guided", strategy),
        Choice("reward", "auto", reward),
        Choice("certify", certify or "none", promise),
        batch,
        Choice("confidence", "kl", radii),
    )


def _notes(facts: Facts, source: Source, kind: str | None) -> Iterator[str]:
    """What else to know before choosing otherwise."""
    if source.expert is None and not facts.own:
        if facts.exact:
            yield "The expert of these figures is the best policy of its exact model; give your own with --expert."
        else:
            yield (
                "Say whom to ask: --expert package.module:function of an observation, ppo:model.zip, recorded "
                "demonstrations (.jsonl, .npz), terminal, or optimal if it is deterministic and can be copied; or be "
                f"the expert yourself: aceirl interview {source.environment}"
            )
    if kind == "by step":
        yield "If the expert does not look at the step, say --stationary-expert: an answer then holds at every step."
    if facts.binned:
        yield (
            "States are bins: the expert is asked at every step, and where it disagrees with itself inside one, "
            "nothing is certified. The run says where; cut along what the expert looks at."
        )
    yield (
        "For a promise about all rewards: --certify set --strategy ace --confidence adaptive "
        "--episodes-per-iteration 50, at 10^5 to 10^7 samples (docs/choosing.md)."
    )


def _first_needs(source: Source, facts: Facts) -> Advice:
    """What must be given before anything else can be said, with a proposal."""
    blind = facts.continuous is not None
    with _environment(source, blind=blind) as environment:
        wandered = wander(environment, source.seed)
    missing, proposed = [], source
    if facts.horizon is None:
        steps = _round_up(wandered.longest) if wandered.ended else 100
        ended = f"{wandered.ended} of {wandered.episodes} random episodes ended within {environment.horizon:,} steps"
        if wandered.ended:
            ended += f", the longest after {wandered.longest}"
        missing.append(f"It has no time limit: give --horizon, as many steps as the expert needs. {ended}.")
        proposed = replace(proposed, horizon=steps)
    if blind:
        missing += [
            f"Its observations are {facts.continuous}: give --discretise.",
            "Bins have a price: only those that the expert acts alike in are certified. On CartPole no grid was, in "
            "3,000 to 6,000 samples, and its rule as the one bin was, in 2,752; on MountainCar 10 by 10 bins were, in "
            "11,689, and 9 by 9, with no edge where the expert turns, were not (docs/certificates.md). A function of "
            "the observation, package.module:function, cuts along what the expert looks at.",
        ]
        proposed = replace(proposed, discretise=_bins(wandered.ranges) or "package.module:function")
        if wandered.ranges:
            missing.append("The bounds below are what random episodes reached; an expert may go further.")
    return Advice(
        facts=facts,
        seen=(_described(facts), _wandered(wandered, facts)),
        missing=tuple(missing),
        choices=(),
        notes=(),
        command=_command("advise", proposed, "policy", slow=False, name_expert=source.expert is not None),
        cost=None,
    )


def _round_up(steps: int) -> int:
    """The next number that people would choose."""
    unit: int = 10 ** max(1, len(str(steps)) - 1)
    return math.ceil(steps / unit) * unit


def _bins(ranges: Sequence[tuple[float, float]]) -> str:
    """Plain bins between what was seen, as `--discretise` takes them."""
    return ",".join(f"{_outward(low, -1):g}:{_outward(high, 1):g}:{PLAIN_BINS}" for low, high in ranges)


def _outward(value: float, side: int) -> float:
    """The next number with two digits, away from the middle."""
    if value == 0:
        return 0.1 * side
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 1)
    return side * math.ceil(side * value / unit - 1e-9) * unit


def _described(facts: Facts) -> str:
    """An environment in a sentence."""
    states = "states that cannot be counted beforehand" if facts.states is None else f"{facts.states:,} states"
    if facts.continuous:
        states = f"observations {facts.continuous}"
    if facts.binned:
        states = "bins of your own" if facts.states is None else f"{facts.states:,} bins"
    steps = "no time limit" if facts.horizon is None else f"{facts.horizon:,} steps an episode"
    known = ", and an exact model" if facts.exact else ""
    return f"{facts.environment}: {states}, {facts.actions} actions, {steps}{known}."


def _wandered(wandered: Wandering, facts: Facts) -> str:
    """The random episodes in a sentence."""
    ends = f"{wandered.ended} ended by themselves" if wandered.ended else "none ended by itself"
    met = "" if facts.continuous else f", {wandered.states:,} states were met"
    return (
        f"{wandered.episodes} random episodes: {wandered.steps / wandered.episodes:.3g} steps each on average, {ends}"
        f"{met}; a step took {1e6 * wandered.seconds_per_step:.2g} µs."
    )


def _measured(source: Source) -> tuple[int, int] | None:
    """What the same run took before, as the docs have it; None if it is not the same."""
    default = source.expert in (None, "optimal") and not (source.parameters or source.horizon or source.wrap)
    declared = source.stationary_expert != (source.environment in ENVIRONMENTS)
    return MEASURED.get(source.environment) if default and declared else None


def _cost(
    least: int | None, wandered: Wandering, rehearsal: Rehearsal | None, measured: tuple[int, int] | None
) -> Cost:
    """By the rehearsal if that can foretell it, else by what is measured; else no more than the least it takes."""
    if rehearsal is None:
        return Cost(least, None, None, None, f"{wandered.episodes} random episodes, without the expert")
    said = f"a rehearsal of {rehearsal.episodes} episodes, {rehearsal.samples:,} samples and {rehearsal.seconds:.2g} s"
    more = rehearsal.more_samples
    if more is not None:
        answers = rehearsal.answers + round(rehearsal.answers_per_sample * more)
        seconds = rehearsal.seconds + rehearsal.seconds_per_sample * more
        return Cost(least, rehearsal.samples + more, answers, seconds, said)
    if measured is not None and least is not None:
        samples, runs = measured
        seconds = rehearsal.seconds_per_sample * samples
        return Cost(least, samples, None, seconds, f"the mean of {runs} runs (docs/rewards.md), and for time {said}")
    return Cost(least, None, None, None, said)


def cost_in_words(cost: Cost) -> list[str]:
    """A cost in a sentence or two, with where it comes from."""
    if cost.least_episodes is None:
        return [f"Without a certificate a run ends with its budget, {Settings().max_samples:,} samples by default."]
    least = f"The certificate takes at least {cost.least_episodes} episodes."
    if cost.samples is None:
        return [least, f"How many more cannot be said yet, by {cost.source}."]
    assert cost.seconds is not None
    answers = "" if cost.answers is None else f", {cost.answers:,} answers"
    return [least, f"About {cost.samples:,} samples{answers} and {cost.seconds:.2g} s, by {cost.source}."]


def _command(verb: str, source: Source, certify: str | None, *, slow: bool, name_expert: bool) -> str:
    """The command line for a source, with what differs from the defaults."""
    words = ["aceirl", verb, source.environment]
    for name, value in source.parameters.items():
        words += ["--set", f"{name}={value}"]
    if name_expert:
        words += ["--expert", source.expert or "package.module:function"]
    if source.horizon is not None:
        words += ["--horizon", str(source.horizon)]
    if source.discretise is not None:
        words.append(f"--discretise={source.discretise}")
    for wrapper in source.wrap:
        words += ["--wrap", wrapper]
    words += ["--stationary-expert"] * source.stationary_expert + ["--stochastic-expert"] * source.stochastic_expert
    words += ["--certify", "none"] if certify is None else []
    words += ["--num-envs", "8"] if slow else []
    words += ["--seed", str(source.seed)] if source.seed else []
    return shlex.join(words)
