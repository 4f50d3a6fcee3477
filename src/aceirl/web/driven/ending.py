"""What driving has come to, in words."""

from __future__ import annotations

import shlex
from typing import Any

from aceirl.runs.continuous import ContinuousResult
from aceirl.web.driven.history import Drives

NO_WISH = (
    "What you want cannot be read from this: a reward takes thousands of answers, most of them where you would not go "
    "yourself. What can be had is the reward of the policy that was learned from you; aceirl transfer plans with it."
)


def outcome(result: ContinuousResult, history: Drives, tests_wanted: int) -> dict[str, Any]:
    """The last screen: what the person does, what is promised, and what can be done with it."""
    promise = result.certificate
    return {
        "rules": result.rules(),
        "holds": result.rules_hold,
        "counts": f"It learned from {history.answers:,} answers.",
        "promised": promise is not None and promise.loss > 0,
        "promise": _promise(result, len(history.evidence), tests_wanted),
        "wish": NO_WISH,
        "next": _next(result),
    }


def _promise(result: ContinuousResult, tests: int, wanted: int) -> str:
    promise = result.certificate
    if promise is None:
        return (
            f"No promise: it takes {wanted:,} test drives, and you made {tests:,}. Nothing is learned from a test "
            "drive, so it shows how far the policy agrees with you."
        )
    if promise.loss == 0:
        return promise.in_words()
    return (
        f"With {1 - promise.delta:.0%} confidence: if it asks you where it is unsure, it loses at most "
        f"{promise.share:.3g} of what an episode can be worth to you, the whole being 1. Until it first does something "
        f"that you would not, it asks at most {100 * promise.asks:.1f} % of its steps on average. This holds if you go "
        "on driving as you did in the test drives."
    )


def _next(result: ContinuousResult) -> list[dict[str, str]]:
    home = shlex.quote(str(result.folder))
    code = f"import aceirl\n\nresult = aceirl.load({str(result.folder)!r})\nresult.predict(observation)"
    return [
        {"title": "See it again", "code": f"aceirl show {home}"},
        {"title": "Use the policy", "code": code},
        {
            "title": "Plan with its reward elsewhere",
            "code": f"aceirl transfer {home} --to MODULE:FUNCTION",
        },
    ]
