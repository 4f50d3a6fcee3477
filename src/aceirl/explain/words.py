"""One run in words and numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from aceirl.certificates.base import amount
from aceirl.envs.pay import PaySeen
from aceirl.errors import InputError
from aceirl.explain.goal import goal_in_words, goal_of
from aceirl.explain.learned import Learned
from aceirl.explain.listing import listed
from aceirl.learner.comparing import BRIEF, compared
from aceirl.learner.recorded import RECORDED
from aceirl.learner.turns import last_measured

STOPPED = {
    "certificate": "It stopped because the certificate that was asked for holds.",
    "regret": "It stopped because the regret is as low as was asked for.",
    "budget": "It stopped because the budget is spent.",
    "callback": "It stopped because the callback said so; `fit` with the same folder, or `resume`, goes on with it.",
    "questions": "It stopped because nothing was left to ask.",
    RECORDED: "It is a recording: no step was taken, and no question was asked.",
    None: "It was interrupted; `aceirl resume` goes on with it.",
}


def sentences(found: Learned) -> tuple[str, ...]:
    """What a run found, a line each."""
    last, measured, settings = found.records[-1], last_measured(found.records), found.turn.settings
    if last.stopped == RECORDED:
        return tuple(_of_recording(found))
    lines = [*_goal(found), *_held_out(found)] if last.answers else []
    lines += [
        f"{found.title}, strategy {settings.named('strategy')}: "
        f"{last.samples:,} steps in {last.episodes:,} episodes, {last.answers:,} answers from the expert.",
        STOPPED[last.stopped],
    ]
    if not last.answers:
        lines.append("The expert gave no answer, so the recovered reward means nothing.")
    if most := found.most_important(3):
        listed = "; ".join(f"{found.names[s]} ({found.importance[s]:.0%})" for s in most)
        lines.append(
            f"The answers that mattered most: {listed}, each with its share of what it would cost to guess all answers "
            "instead of asking."
        )
    if last.answers and (silent := _silent(found)):
        lines.append(f"In {silent:,} of the visited states the expert gave no answer; more steps will not change that.")
    if found.turn.counts.contradicted.any():
        lines.append(_disagreement(found))
    if measured is not None:
        when = "" if measured is last else f" after {measured.samples:,} steps"
        lines.append(
            f"Against the best policy the learned one loses {measured.regret:.1%} of what the best and the worst "
            f"return differ by (checked{when} with the true reward, which was not used for learning)."
        )
    return tuple(lines + _what_is_certain(found) + _next(found))


def _of_recording(found: Learned) -> list[str]:
    """What a recording came to, what it leaves open, and what to record next."""
    last, goal = found.records[-1], goal_of(found.turn, found.names, found.actions, told=found.told)
    wanted = _goal(found) if goal is None else replace(goal, undetermined=()).lines  # the support says more of that
    recorded = f"{last.samples:,} steps in {last.episodes:,} episodes, {last.answers:,} answers"
    horizon = found.turn.counts.shape[0]
    return [
        *wanted,
        *_held_out(found),
        f"{found.title}, a recording: {recorded} in it. The horizon is {horizon:,} steps.",
        STOPPED[last.stopped],
        *found.support.in_words(found.names, found.actions),
        *_what_is_certain(found),
    ]


def _goal(found: Learned) -> list[str]:
    """What the expert wants; of a reward that does not say, where it is largest on average over steps."""
    if found.turn.explanation is not None:
        return goal_in_words(found.turn, found.names, found.actions, told=found.told)
    by_state = found.turn.belief.recovered.reward.mean(axis=0).max(axis=1)
    by_state = np.where(found.turn.counts.visited.pooled.any(axis=1), by_state, -np.inf)
    best = np.flatnonzero(by_state >= by_state.max() - 1e-9 * found.turn.settings.rmax)
    return [
        f"The recovered reward is largest in {listed([found.names[s] for s in best])}. It is one of many that explain "
        "the answers, and need not be largest at the expert's goal."
    ]


LARGE = 1_000_000
"""Where there are more steps, states and actions, only `result.score()` says how well answers are predicted."""


def _held_out(found: Learned) -> list[str]:
    """How well answers are predicted that were not used: what explains those that were may only fit them."""
    if found.turn.settings.irl is None or np.prod(found.turn.counts.shape) > LARGE:
        return []
    try:
        scores = compared(found.turn, briefly=True)
    except InputError:  # there is too little to compare
        return []
    own, copying, habit = (next(one for one in scores.scores if one.method == name) for name in BRIEF)
    return [
        f"Tested on {scores.answers:,} answers, each left out in turn: {own.accepted:.0%} of them are among the best "
        f"actions by the recovered reward ({own.options:.2g} on average); copying the expert's other answers in the "
        f"same state is right for {copying.right:.0%} of them, and its commonest action for {habit.right:.0%}."
    ]


def _silent(found: Learned) -> int:
    """How many states were visited and never answered for, by an expert who was asked everywhere."""
    limit, counts = found.turn.settings.max_answers, found.turn.counts
    if limit is not None and counts.questions >= limit:
        return 0
    return int((counts.visited.pooled.any(axis=1) & ~counts.given.pooled.any(axis=1)).sum())


def _disagreement(found: Learned) -> str:
    """Where the expert, asked again, did not say what it had said, how often, and what to do about it."""
    repeats = found.turn.counts.repeats
    most = [int(s) for s in np.argsort(-repeats[:, 1], kind="stable")[:3] if repeats[s, 1]]
    places = "; ".join(f"{found.names[s]} ({repeats[s, 1]:,} of {repeats[s].sum():,})" for s in most)
    binned = getattr(found.task.environment, "binned", False)
    advice = (
        "A state is a bin of observations here: use finer bins there, or bins of what the expert looks at."
        if binned
        else "It looks at something that the states do not show, draws its actions at random, or errs."
    )
    return (
        f"Asked again, the expert gave another answer {repeats[:, 1].sum():,} of {repeats.sum():,} times, "
        f"most often in {places}. {advice}"
    )


def _what_is_certain(found: Learned) -> list[str]:
    """The certificate that was asked for in full; the others, where they hold, in a line each."""
    certify = found.turn.settings.certify
    asked = certify.name if certify else None
    certificates = [found.turn.certificate(kind) for kind in found.turn.belief.certificates]
    lines = ["What is certified is the policy, not the reward."] if asked in ("policy", "criterion") else []
    lines += [
        certificate.in_words(found.names, found.actions) for certificate in certificates if certificate.kind == asked
    ]
    lines += _units(found) if asked in ("policy", "criterion") else []
    return lines + [c.in_words(found.names, found.actions) for c in certificates if c.holds and c.kind != asked]


def _units(found: Learned) -> list[str]:
    """What was assumed of what an environment pays that does not say it, and the promise in units of what it paid.

    Without a `max_return`, all that an episode can lose is in proportion to `rmax`, and so is what is certified.
    """
    settings, environment = found.turn.settings, found.task.environment
    seen: Any = getattr(environment, "pay_seen", PaySeen())
    rmax, max_return = seen.spans
    if rmax is None or (settings.rmax, settings.max_return) != (1.0, None):
        return []
    assert settings.certify is not None
    certificate, most = found.turn.certificate(settings.certify.name), rmax if max_return is None else max_return
    low, high, least, largest = (value + 0.0 for value in (*seen.rewards, *seen.returns))  # no -0
    line = (
        "The environment does not declare a range of rewards, so the promise assumes that rewards of two steps differ "
        f"by at most 1. In this run rewards were {low:.4g} to {high:.4g} and returns {least:.4g} to {largest:.4g}."
    )
    if certificate.holds:
        value = certificate.value * rmax
        line += f" If rewards never leave that range, the promise is a loss of at most {amount(value)}"
        line += ", which is more than these returns differ by." if value >= most else "."
    return [f"{line} For a promise about such returns, set rmax={rmax:.4g} and max_return={most:.4g}."]


MORE = 10
"""So many times the samples of a run are proposed, where it did not tell what is wanted."""


def _next(found: Learned) -> list[str]:
    """What may tell what the expert wants, where a run that was not about that has not told it."""
    turn, last = found.turn, found.records[-1]
    about_it = turn.settings.certify is not None and turn.settings.certify.name == "goal"
    over = last.answers and last.stopped in ("certificate", "budget", "regret")
    if about_it or not over or turn.explanation is None or not turn.belief.kind.deterministic:
        return []
    if found.wish.kind == "bold":
        return []
    samples = MORE * last.samples
    return [
        "To find out more about what the expert wants, go on with the certificate goal: "
        f'result.resume(certify="goal", max_samples={samples}), or aceirl resume FOLDER --certify goal --max-samples '
        f"{samples}."
    ]
