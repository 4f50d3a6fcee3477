"""Planning with a recovered reward in another process.

What is carried over goes by the names of states. In the spaces `state`, `state-action` and `features` these are the
parameters: the space is laid over the target's own dynamics, so that arriving somewhere is paid there, and a step cost
too. A table of the space `any` goes entry by entry. A state that the run never met is worth nothing.

Of actions that are equally good, up to rounding, the plan takes each as often: the reward does not say which is better,
and a rule for choosing would look as if it did.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy

from aceirl.certificates import Certificate
from aceirl.certificates.transfer import transfer_certificate
from aceirl.errors import InputError
from aceirl.learner.transfer.targets import KnownProcess, Say, log
from aceirl.learner.turns import Turn
from aceirl.models.tabular.dynamic_programming import best_policy, evaluate, optimal_values, returns
from aceirl.models.tabular.mdp import MDP, BoolArray, FloatArray, IntArray, Transitions
from aceirl.models.tabular.metrics import regret
from aceirl.rewards import SPACES, Explanation, FeatureReward, Recovered, RewardSpace
from aceirl.rewards.hypotheses.predicates import Grammar
from aceirl.rewards.hypotheses.search import met_states, paid
from aceirl.rewards.hypotheses.wish import LIKELIEST
from aceirl.rewards.spaces import AnyReward, DesignMatrix, described_by

LOSSES = (0.01, 0.05, 0.1, 0.2, 0.5)
"""Normalised regrets for which it is said how probably the plan loses more."""

MOST_ENTRIES, FEWEST_SAMPLES = 50_000_000, 16
"""So many entries `H·S·A` are planned in for all sampled rewards together, but at least so many rewards."""

TIES = 1e-9
"""Action values that differ by less than this share of the largest are equal."""

HARDLY = 1e-3
"""Wishes that are less probable than this, all together, are not planned with."""

SAY_EVERY = 2.0
"""Seconds between two words on how far it is."""


@dataclass(frozen=True, eq=False)
class Transfer:
    """What a recovered reward comes to in a target process.

    `reward [H, S, A]` is the reward there, `policy [H, S, A]` the plan, the probabilities of actions, and `value` what
    it earns in an episode by that reward. `regret` is what it loses by the truth, normalised; None if that is unknown.
    `loses_more_than` has, for some regrets, how probably the plan loses more than that: half by `samples` sampled
    rewards that explain the answers about as well, half by the likeliest wishes; what is not explained counts as lost.
    It is empty if there are no samples. `certificate` is what can be promised, None if the target's states are not
    those of the run. `unmet` are the states that episodes can meet there, that the run never met, and that have no
    features. `explains` is whether the reward explains the answers.
    """

    target: KnownProcess
    reward: FloatArray
    policy: FloatArray
    value: float
    regret: float | None
    loses_more_than: dict[str, float] = field(default_factory=dict)
    samples: int = 0
    certificate: Certificate | None = None
    unmet: tuple[int, ...] = ()
    explains: bool = True

    def __repr__(self) -> str:
        steps, states, _ = self.policy.shape
        regret = "" if self.regret is None else f", regret {self.regret:.3f}"
        return f"<Transfer: to {states:,} states and {steps:,} steps, the plan earns {self.value:.3g}{regret}>"

    def to_json(self) -> dict[str, Any]:
        """Plain values; of the certificate its value, if it promises anything."""
        found = self.certificate
        promises = found is not None and found.guaranteed and found.refuted is None
        return {
            "regret": self.regret,
            "value": self.value,
            "loses_more_than": self.loses_more_than,
            "certificate": min(found.value, found.possible) if found is not None and promises else None,
            "unmet": [self.target.word(state) for state in self.unmet],
        }

    def in_words(self) -> str:
        """What the plan does, what it is worth, and what that depends on."""
        lines = [self._where_it_leads()]
        if not self.explains:
            lines.append("The reward repeats the expert's answers and does not explain them: do not rely on the plan.")
        if self.regret is not None:
            lines.append(
                f"By the target's own reward, which was not used, it loses {self.regret:.1%} of the difference between "
                "the best and the worst return there."
            )
        if self.target.sampled:
            lines.append(
                f"The target has no exact model, so one was estimated from {self.target.sampled:,} steps in it."
            )
        if self.loses_more_than:
            worse = [
                f"more than {float(loss):.0%} with a probability of {share:.0%}"
                for loss, share in self.loses_more_than.items()
                if share >= 0.005
            ]
            lines.append(
                f"By other rewards that explain the answers ({self.samples} samples, and the most probable simple "
                f"ones) it loses {', '.join(worse) or 'hardly anything'}."
            )
        if self.unmet:
            named = ", ".join(self.target.word(state) for state in self.unmet[:5])
            more = ", and others" if len(self.unmet) > 5 else ""
            lines.append(
                f"{len(self.unmet):,} of the states there were never visited in the run, and count with a reward of 0: "
                f"{named}{more}."
            )
        if self.certificate is not None and self.certificate.value < self.certificate.possible:
            lines.append(self.certificate.in_words([self.target.word(s) for s in range(self.target.mdp.n_states)]))
        return "\n".join(lines)

    def _where_it_leads(self) -> str:
        """Where episodes of the plan end."""
        last = self.target.mdp.transitions.push(self.target.mdp.initial, self.policy)[-1]
        ends = np.asarray(last.ravel() @ self.target.mdp.transitions.matrix[-last.size :])
        often = np.argsort(-ends, kind="stable")[:3].tolist()
        named = ", ".join(f"{self.target.word(state)} ({ends[state]:.0%})" for state in often if ends[state] >= 0.005)
        return f"Planned with the recovered reward, the last step leads to {named}; the plan earns {self.value:.3g}."


def transfer(turn: Turn, target: KnownProcess, names: Sequence[str] = (), say: Say = log) -> Transfer:
    """Plan in the target with the reward that a turn ended with.

    `names` are those of the run's states, where its environment did not number them itself. If the run or the target
    has no names, states of the same number are the same. `say` is told how far it is, if it takes long.
    """
    numbers = _run_numbers(tuple(names) or turn.names, turn.counts.shape[1], target)
    alike = _with_alike(turn, target, numbers)
    met = (met_states(turn.counts) | (turn.counts.starts > 0))[alike] & (alike >= 0)
    recovered, features = turn.belief.recovered, _features(turn, target, numbers)
    described = np.zeros_like(met) if features is None else _described(turn, target, numbers)
    unmet = np.flatnonzero(target.reachable & ~met & ~described)
    reward = carried_reward(recovered, target, alike, features)
    policy, value = best_actions(target.mdp, reward)
    sampled = _losses(target.mdp, policy, _samples(turn, target, alike, features), say)
    wished = _losses(target.mdp, policy, _wishes(turn, target, numbers, alike), say)
    losses, weights = np.array([*sampled, *wished]).reshape(-1, 2).T
    weights[: len(sampled)] /= max(1, len(sampled))
    return Transfer(
        target=target,
        reward=reward,
        policy=policy,
        value=value,
        regret=None if target.reward is None else regret(target.mdp, target.reward, policy),
        loses_more_than={
            f"{loss:g}": round(float(1 - weights @ (losses <= loss + TIES) / 2), 6) for loss in LOSSES if sampled
        },
        samples=len(sampled),
        certificate=None if target.sampled else _certificate(turn, target.mdp, policy, numbers),
        unmet=tuple(unmet.tolist()),
        explains=turn.explanation is not None and turn.explanation.explains,
    )


def _losses(
    mdp: MDP, policy: FloatArray, rewards: Iterator[tuple[FloatArray, float]], say: Say
) -> list[tuple[float, float]]:
    """What a plan loses by each of some rewards, and their weights; one table is there at a time."""
    found, said = [], time.monotonic()
    for table, weight in rewards:
        found.append((regret(mdp, table, policy), weight))
        if time.monotonic() - said > SAY_EVERY:
            said = time.monotonic()
            say(f"planning in the target: by {len(found):,} rewards that explain the answers as well")
    return found


def best_actions(mdp: MDP, reward: FloatArray) -> tuple[FloatArray, float]:
    """`(policy [H, S, A], value)`: the best actions for a reward `[H, S, A]`, each of several as likely as another."""
    policy = best_policy(mdp, reward, TIES)
    return policy, returns(mdp, reward, policy)[2]


def same_states(names: Sequence[str], n_states: int, target: KnownProcess) -> IntArray:
    """`[S]`: the number that each state of the target has among `n_states` with these names, or -1."""
    if not names or not target.names:
        if n_states != target.mdp.n_states:
            raise InputError(
                f"the target has {target.mdp.n_states} states and the run {n_states}; name the states of both, so "
                "that it is known which are the same"
            )
        return np.arange(n_states)
    number_of = {name: number for number, name in enumerate(names)}
    return np.array([number_of.get(name, -1) for name in target.names])


def _run_numbers(names: Sequence[str], n_states: int, target: KnownProcess) -> IntArray:
    if names and len(names) != n_states:
        raise InputError(f"there are {len(names)} names for {n_states} states")
    numbers = same_states(names, n_states, target)
    if not (target.reachable & (numbers >= 0)).any():
        raise InputError(
            f"no state of the target was met in the run: that knows {', '.join(names[:3])} …, "
            f"the target has {', '.join(target.names[:3])} …"
        )
    return numbers


def _with_alike(turn: Turn, target: KnownProcess, numbers: IntArray) -> IntArray:
    """`[S]`: the numbers and, of a state that the run never met, that of one with which fields make it one; else -1."""
    fewer, access, reward = turn.belief.table.fewer, turn.belief.table.access, turn.belief.recovered.reward
    if fewer is None or access is None or access.fields is None or not target.observations:
        return numbers
    if not np.array_equal(reward, reward[:, fewer.first][:, fewer.numbers]):  # it was sought in all states
        return numbers
    unmet, read = np.flatnonzero(numbers < 0), access.fields.read
    records = [fewer.table.numbers(read(target.observations[state])) for state in unmet.tolist()]
    nothing = (np.nan,) * len(fewer.table.fields)
    values = np.array([nothing if one is None else one for one in records]).reshape(-1, len(nothing))
    found, alike = fewer.found(values, np.isin(unmet, target.terminal_states)), numbers.copy()
    alike[unmet] = np.where(found >= 0, fewer.first[found], -1)
    return alike


def carried_reward(
    recovered: Recovered, target: KnownProcess, numbers: IntArray, features: FeatureReward | None = None
) -> FloatArray:
    """`[H, S, A]`: a recovered reward in the target, whose states have these `numbers [S]` in the run, -1 for none.

    `features` are those of the target's states, for a reward that is linear in some.
    """
    found = recovered.explanation
    if found is not None and not found.repeats_answers:
        design, parameters = _laid(found, target, numbers, features)
        return np.broadcast_to(design.steps(_carried(found.theta, parameters)), design.shape)
    horizon, _, n_actions = recovered.reward.shape
    _require_same_actions(n_actions, target, AnyReward.name)
    # What the table has no entry for is worth what a step of unknown consequence is.
    table = np.full(target.mdp.shape, recovered.unknown_step_reward)
    steps, known = min(horizon, target.mdp.horizon), numbers >= 0
    table[:steps, known] = recovered.reward[:steps, numbers[known]]
    return table


def _samples(
    turn: Turn, target: KnownProcess, numbers: IntArray, features: FeatureReward | None
) -> Iterator[tuple[FloatArray, float]]:
    """The tables, in the target, of sampled rewards that explain the answers about as well, each with the weight 1."""
    found, alternatives = turn.explanation, turn.alternatives
    if found is None or alternatives is None:
        return
    design, parameters = _laid(found, target, numbers, features)
    most = max(FEWEST_SAMPLES, MOST_ENTRIES // design.shape[0] // design.shape[1] // design.shape[2])
    for theta in alternatives.samples[:most]:
        yield np.broadcast_to(design.steps(_carried(theta, parameters)), design.shape), 1.0


def _wishes(turn: Turn, target: KnownProcess, numbers: IntArray, alike: IntArray) -> Iterator[tuple[FloatArray, float]]:
    """The tables, in the target, of the likeliest wishes, and how probable each is; together at most 1.

    What habits may explain as well, and the share of answers that no wish explains, is missing from that. Half of each
    is for being in a place, and half for what the expert does there, if that is always the same: its answers do not
    tell the two apart. Fields are those of the states of the run that are `alike [S]`, -1 if there is none.
    """
    wish, same_actions = turn.wish, target.mdp.n_actions == turn.counts.shape[2]
    explained = 1 - wish.unexplained / max(1, wish.answers)
    there = {int(number): state for state, number in enumerate(numbers) if number >= 0}
    said, fields, grammar, left = (turn.counts.given.pooled > 0)[alike], turn.belief.telling_fields, None, 1.0
    if fields is not None:
        known, ends = alike >= 0, np.isin(np.arange(len(alike)), target.terminal_states)
        values = np.where(known[:, None], fields.values[alike], np.nan)
        grammar = Grammar(replace(fields, values=values, ends=ends), known)
    for one, weight in wish.likeliest[:LIKELIEST]:
        if left < HARDLY:  # of the probability of all
            return
        left -= weight
        if (same_actions or not one.actions) and (grammar is not None or not one.features):
            places, later = (
                tuple((there[place], worth) for place, worth in pays if place in there)
                for pays in (one.places, one.later)
            )
            moved = replace(one, places=places, later=later)
            table = paid(moved, target.mdp, target.terminal_states, grammar)
            yield table, weight * explained / 2
            wanted = np.zeros(len(alike))
            for place, worth in places:
                wanted[place] += max(0.0, worth)
            for predicate, worth in moved.features:
                if grammar is not None and not predicate.ends:
                    wanted += max(0.0, worth) * grammar.extent(predicate)
            yield _for_the_action(table, wanted, said) if same_actions else table, weight * explained / 2


def _for_the_action(table: FloatArray, wanted: FloatArray, said: BoolArray) -> FloatArray:
    """`table [H, S, A]` with what places pay that are `wanted [S]` for the one action alone that was `said [S, A]`."""
    only = (table[:1] if table.strides[0] == 0 else table).copy()
    places = np.flatnonzero((wanted > 0) & (said.sum(axis=1) == 1))
    only[:, places] -= wanted[places, None] * ~said[places]
    return np.broadcast_to(only, table.shape)


def _require_same_actions(n_actions: int, target: KnownProcess, space: str) -> None:
    if target.mdp.n_actions != n_actions:
        raise InputError(
            f"a reward of the space {space!r} is about actions: the run has {n_actions}, "
            f"and the target {target.mdp.n_actions}"
        )


def _features(turn: Turn, target: KnownProcess, numbers: IntArray) -> FeatureReward | None:
    """The features of the target's states: by the function of observations, if there is one, else the run's own."""
    given, chosen = turn.space, turn.settings.reward
    described = None if given is None else given.as_features()
    if described is None:
        return None
    features = np.asarray(described.features, np.float64)
    if not isinstance(chosen, RewardSpace) and target.observations:
        seen = [None if one is None else described_by(chosen, one)[1] for one in target.observations]
        return FeatureReward(np.array([np.zeros(features.shape[-1]) if one is None else one for one in seen]))
    if features.ndim == 3:
        _require_same_actions(features.shape[1], target, described.name)
    known = (numbers >= 0).reshape(-1, *(1,) * (features.ndim - 1))
    return FeatureReward(np.where(known, features[numbers], 0.0))


def _described(turn: Turn, target: KnownProcess, numbers: IntArray) -> BoolArray:
    """`[S]`: the states of the target whose features are known."""
    by_function = bool(target.observations) and not isinstance(turn.settings.reward, RewardSpace)
    return np.asarray((numbers >= 0) | by_function)


def _laid(
    found: Explanation, target: KnownProcess, numbers: IntArray, features: FeatureReward | None
) -> tuple[DesignMatrix, IntArray]:
    """The reward's space over the target and, for each parameter there, `[n]`, which one of the run's it is, or -1."""
    if found.about_actions:
        _require_same_actions(found.paid.shape[1], target, found.space)
    if features is None and found.space not in SPACES:
        raise InputError(f"a reward of the space {found.space!r} cannot be transferred: only the built-in spaces can")
    design = (SPACES[found.space]() if features is None else features).design_matrix(target.mdp, target.terminal_states)
    return design, found.parameters_in(design, numbers)


def _carried(theta: FloatArray, parameters: IntArray) -> FloatArray:
    """Parameters of the target from those of the run; zero where there is none."""
    return np.where(parameters >= 0, theta[parameters], 0.0)


def _certificate(turn: Turn, process: MDP, policy: FloatArray, numbers: IntArray) -> Certificate | None:
    """The certificate, if the target has the run's states and the plan is best there for the reward as the run has it.

    Where episodes end, what is paid on arrival has been worked out with the target's dynamics, which the run's own
    table was not; then there is none unless both plans agree.
    """
    belief = turn.belief
    n_states = turn.counts.shape[1]
    alike = process.shape == belief.shape and process.discount == belief.estimate.discount
    if not alike or not np.array_equal(np.sort(numbers), np.arange(n_states)):
        return None
    order = np.argsort(numbers)
    renumbered, plan = _renumbered(process, order), np.ascontiguousarray(policy[:, order])
    reward = belief.recovered.reward
    best = float(renumbered.initial @ optimal_values(renumbered, reward)[1][0])
    own = float(renumbered.initial @ evaluate(renumbered, reward, plan)[1][0])
    if best - own > TIES * belief.target.steps(renumbered.horizon) * belief.rmax:
        return None
    certificate = transfer_certificate(belief, renumbered, plan)
    if certificate.entry is None:
        return certificate
    step, state, *action = certificate.entry
    return replace(certificate, entry=(step, int(order[state]), *action))


def _renumbered(mdp: MDP, order: IntArray) -> MDP:
    """The process with its states in another order."""
    if np.array_equal(order, np.arange(len(order))):
        return mdp
    transitions, n_actions = mdp.transitions, mdp.n_actions
    rows = (order[:, None] * n_actions + np.arange(n_actions)).ravel()
    steps = np.arange(transitions.steps or 1)[:, None] * len(rows)
    matrix = scipy.sparse.csr_array(transitions.matrix[(steps + rows).ravel()][:, order])
    matrix.sort_indices()
    moved = Transitions(
        n_states=mdp.n_states,
        n_actions=n_actions,
        indptr=matrix.indptr.astype(np.int64),
        successors=matrix.indices.astype(np.int32),
        probabilities=matrix.data,
        steps=transitions.steps,
    )
    return replace(mdp, transitions=moved, initial=mdp.initial[order])
