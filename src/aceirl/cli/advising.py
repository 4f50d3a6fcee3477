"""`aceirl advise`: what fits an environment, and what it will cost."""

from __future__ import annotations

import json
from typing import Any

from aceirl.cli.options import Json, command_with


@command_with(lambda: ("seed",))
def advise(source: Any, as_json: Json = False, **settings: Any) -> None:
    """Say which strategy, reward space, certificate, batch and radii fit an environment, and what a run will cost.

    It plays some random episodes and, if the expert is not a person, begins the run, for ten seconds at most.
    """
    from aceirl.runs.advise import advise as advice_on

    advice = advice_on(source)
    print(json.dumps(advice.to_json()) if as_json else advice.in_words())
