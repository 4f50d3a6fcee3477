"""The advice: settings with their reasons, the cost and where it is known from, and the command to run next.

Costs come from random episodes and a rehearsal of the run.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any

from aceirl.experts.tasks import Source, Task, gym_env, open_source
from aceirl.experts.tasks.experts import is_log
from aceirl.learner.settings import Settings
from aceirl.runs.advise.facts import Facts, look
from aceirl.runs.advise.trials import (
    LONGEST_EPISODE,
    Price,
    Wandering,
    environment_of,
    in_seconds,
    least_episodes,
    rehearse,
    wander,
    wander_unlimited,
)
from aceirl.runs.folder import settings_for

SLOW_STEP = 1e-3
"""Seconds of a step from which processes of their own pay (docs/gymnasium.md, Episodes side by side)."""

PLAIN_BINS, PLAIN_HORIZON = 6, 100

MOST_BINS = 2_000
"""So many bins are proposed at most: more are met too rarely for an expert to be asked about each."""


@dataclass(frozen=True)
class Choice:
    """A setting, what to give it, and why."""

    setting: str
    value: str
    because: str


@dataclass(frozen=True)
class Recommendation:
    """What fits an environment. While something is `missing` that must be given, there are no choices and no cost."""

    facts: Facts
    seen: tuple[str, ...]
    missing: tuple[str, ...]
    choices: tuple[Choice, ...]
    notes: tuple[str, ...]
    command: str
    cost: Price | None

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


def advise(source: Source) -> Recommendation:
    """What fits the environment and the expert that a source names; without an expert, what can be said without one."""
    facts = look(source)
    if facts.horizon is None:
        return _first_needs(source, facts)
    if facts.continuous is not None:
        return _without_bins(source, facts)
    asked = replace(source, expert="optimal") if source.expert is None and facts.exact and not facts.own else source
    if asked.expert == "optimal" and not asked.stationary_expert:
        asked = replace(asked, stationary_expert=True)
    with environment_of(source) as environment:
        wandered = wander(environment, source.seed)
    kind, contradicted = None, 0
    if facts.own or asked.expert not in (None, "terminal"):
        with open_source(asked) as task:
            kind = _kind(task)
            settings = settings_for(task, Settings(certify=_certificate(kind, facts, asked), seed=source.seed))
            cost, contradicted = rehearse(task, settings)
    else:
        least = least_episodes(Settings(seed=source.seed), horizon=facts.horizon)
        cost = Price(least, None, None, None, f"{wandered.episodes} random episodes, without the expert")
    slow = not facts.own and wandered.seconds_per_step >= SLOW_STEP
    certify = _certificate(kind, facts, asked)
    return Recommendation(
        facts=facts,
        seen=(_described(facts), _wandered(wandered)),
        missing=(),
        choices=_choices(facts, kind, certify, wandered, slow=slow),
        notes=tuple(_notes(facts, source, kind, contradicted)),
        command=" ".join(
            [
                _command("run", asked, certify, slow=slow, name_expert=not facts.own or source.expert is not None),
                *_budget(cost, wandered),
            ]
        ),
        cost=cost,
    )


def _budget(cost: Price, wandered: Wandering) -> list[str]:
    """The option for a larger budget, where the usual one would not last for what is foretold."""
    least = (cost.least_episodes or 0) * wandered.steps / wandered.episodes
    needed = max(least, cost.samples or 0)
    return ["--max-samples", str(_round_up(int(2 * needed)))] if 1.5 * needed > Settings().max_samples else []


def _kind(task: Task) -> str:
    if not task.expert.deterministic:
        return "stochastic"
    return "stationary" if task.expert.stationary else "by step"


def _certificate(kind: str | None, facts: Facts, source: Source) -> str | None:
    """The certificate to stop on: none where none can be had."""
    recorded = source.expert is not None and is_log(source.expert)
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
        reward = "the smallest that explains the answers; or features of your own, a function of an observation"
    else:
        reward = "state, state-action or any: the smallest that explains the answers"
    if certify is not None:
        promise = "the only promise that a few hundred episodes can give; it needs no bound on the number of states"
    elif kind == "stochastic":
        promise = "there is none for a stochastic expert that a few thousand samples can give"
    else:
        promise = "what was recorded for one observation does not hold for the others in its bin"
    if slow:
        batch = Choice(
            "num_envs", "8", f"a step takes {1e3 * wandered.seconds_per_step:.3g} ms: play episodes in parallel"
        )
    else:
        batch = Choice("episodes_per_iteration", "1", "planning is fast here, and larger batches take more samples")
    radii = "not used by the policy certificate" if certify else "valid, and tight enough to explore by"
    return (
        Choice("strategy", "guided", strategy),
        Choice("reward", "auto", reward),
        Choice("certify", certify or "none", promise),
        batch,
        Choice("confidence", "adaptive", radii),
    )


def _notes(facts: Facts, source: Source, kind: str | None, contradicted: int) -> Iterator[str]:
    """What else to know before choosing otherwise."""
    if source.expert is None and not facts.own:
        if facts.exact:
            yield "These figures are for the optimal policy of the exact model; give your own expert with --expert."
        else:
            yield (
                "Name an expert: --expert package.module:function of an observation, ppo:model.zip, recorded "
                "demonstrations (.jsonl, .npz), terminal, or optimal if it is deterministic and can be copied; or be "
                f"the expert yourself: aceirl interview {source.environment}"
            )
    if kind == "by step":
        yield "If the expert's answers do not depend on the step, add --stationary-expert: one holds at every step."
    if contradicted:
        place = ("bin" if facts.binned else "state") + "s" * (contradicted > 1)
        cut = (
            "use finer bins, or bins of what it looks at" if facts.binned else "add what it looks at to the observation"
        )
        yield (
            f"The expert contradicted itself in {contradicted} {place}: it looks at more than the learner sees, and "
            f"nothing is certified there; {cut}."
        )
    elif facts.binned:
        yield "States are bins: nothing is certified for a bin in which the expert does different things."
    yield (
        "For a promise about all rewards: --certify set --strategy ace "
        "--episodes-per-iteration 50, at 10^5 to 10^7 samples (docs/choosing.md)."
    )


def _without_bins(source: Source, facts: Facts) -> Recommendation:
    """What fits continuous observations or actions, and bins as a second way where actions are not."""
    from aceirl.learner.continuous.learning import MAX_ANSWERS

    with closing(gym_env(source)) as env:
        wandered = wander_unlimited(env, source.seed)
    usual = Settings()
    notes = [
        "What is learned is a policy that acts where it is sure and asks where it is not, with a promise of what it "
        "loses and how often it asks (docs/continuous.md)."
    ]
    if facts.actions is None:
        notes.append("Continuous actions are rounded to a few that the expert takes, and the promise says so.")
    elif bins := _bins(wandered.ranges):
        notes.append(
            f"Or use bins, for a reward of states: --discretise={bins}, or --discretise package.module:function. Only "
            "bins in which the expert always does the same are certified. The bounds are what random episodes reached; "
            "an expert may go further."
        )
    return Recommendation(
        facts=facts,
        seen=(_described(facts), _wandered(wandered)),
        missing=(),
        choices=(
            Choice(
                "max_answers",
                str(MAX_ANSWERS),
                "enough to certify most controllers; the policy alone needs about a tenth of it",
            ),
            Choice(
                "calibration_episodes",
                str(usual.calibration_episodes),
                "episodes in which the expert acts, for the certificate; nothing is learned from them",
            ),
        ),
        notes=tuple(notes),
        command=_command("run", source, "policy", slow=False, name_expert=True),
        cost=None,
    )


def _first_needs(source: Source, facts: Facts) -> Recommendation:
    """What must be given before anything else can be said, with a proposal."""
    with closing(gym_env(source)) as env:
        wandered = wander_unlimited(env, source.seed)
    all_ended = wandered.longest is not None and wandered.ended == wandered.episodes
    steps = wandered.limit or (_round_up(wandered.longest) if all_ended and wandered.longest else PLAIN_HORIZON)
    missing = (f"It has no time limit: give --horizon, as many steps as the expert needs. {_ends(wandered)}.",)
    proposed = replace(source, horizon=steps)
    return Recommendation(
        facts=facts,
        seen=(_described(facts), _wandered(wandered)),
        missing=missing,
        choices=(),
        notes=(),
        command=_command("advise", proposed, "policy", slow=False, name_expert=source.expert is not None),
        cost=None,
    )


def _ends(wandered: Wandering) -> str:
    """How random episodes came to an end, where no limit was named."""
    if wandered.limit is not None:
        return f"It truncates episodes after {wandered.limit} steps"
    if wandered.longest is None:
        return f"No random episode ended within {LONGEST_EPISODE:,} steps"
    return f"{wandered.ended} of {wandered.episodes} random episodes ended, the longest after {wandered.longest} steps"


def _round_up(steps: int) -> int:
    """The next number that people would choose."""
    unit: int = 10 ** max(1, len(str(steps)) - 1)
    return math.ceil(steps / unit) * unit


def _bins(ranges: Sequence[tuple[float, float]]) -> str:
    """Plain bins between what was seen, as `--discretise` takes them; nothing if they would be too many.

    Numbers that never changed are not cut.
    """
    varying = sum(low < high for low, high in ranges)
    bins = min(PLAIN_BINS, int(MOST_BINS ** (1 / max(1, varying))))
    if not varying or bins < 2:
        return ""
    return ",".join(f"{_outward(low, -1):g}:{_outward(high, 1):g}:{bins if low < high else 1}" for low, high in ranges)


def _outward(value: float, side: int) -> float:
    """The next number with two digits, away from the middle."""
    if value == 0:
        return 0.1 * side
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 1)
    return side * math.ceil(side * value / unit - 1e-9) * unit


def _described(facts: Facts) -> str:
    """An environment in a sentence."""
    states = "an unknown number of states" if facts.states is None else f"{facts.states:,} states"
    if facts.continuous:
        states = f"observations {facts.continuous}"
    if facts.binned:
        states = "bins of your own" if facts.states is None else f"{facts.states:,} bins"
    steps = "no time limit" if facts.horizon is None else f"{facts.horizon:,} steps an episode"
    known = ", and an exact model" if facts.exact else ""
    actions = "continuous actions" if facts.actions is None else f"{facts.actions} actions"
    return f"{facts.environment}: {states}, {actions}, {steps}{known}."


def _wandered(wandered: Wandering) -> str:
    """The random episodes in a sentence."""
    ends = f"{wandered.ended} terminated" if wandered.ended else "none terminated"
    met = "" if wandered.states is None else f", {wandered.states:,} states were visited"
    return (
        f"{wandered.episodes} random episodes: {wandered.steps / wandered.episodes:.3g} steps each on average, {ends}"
        f"{met}; a step took {1e3 * wandered.seconds_per_step:.3g} ms."
    )


def cost_in_words(cost: Price) -> list[str]:
    """A cost in a sentence or two, with where it comes from."""
    if cost.least_episodes is None:
        return [f"Without a certificate a run ends with its budget, {Settings().max_samples:,} samples by default."]
    least = f"The certificate takes at least {cost.least_episodes} episodes, unless the expert is known everywhere."
    if cost.samples is None:
        return [least, f"After {cost.source}, it is too early to estimate the rest."]
    assert cost.seconds is not None
    more = f"{cost.answers:,} answers and {in_seconds(cost.seconds)}"
    return [
        least,
        f"About {cost.samples:,} samples, {more}, by {cost.source}.",
    ]


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
