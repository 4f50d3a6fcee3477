"""Small words that all sentences share: who is spoken of, and names in a row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

LONGEST = 120
"""About how many characters a list of names has at most."""


@dataclass(frozen=True)
class Person:
    """Who is spoken of: the name, the pronoun, and whether it is you who reads it."""

    name: str
    pronoun: str
    is_you: bool = False

    def does(self, verb: str, yours: str) -> str:
        """The verb as it goes with the name or the pronoun."""
        return yours if self.is_you else verb


EXPERT, YOU = Person("the expert", "it"), Person("you", "you", is_you=True)


def listed(names: Sequence[str]) -> str:
    """Names in a row, with runs of numbers drawn together: `state l5 to l10, u7`; of many, the first."""
    runs: list[tuple[str, int | None, int | None]] = []
    first = _prefix(names)
    for name in names:
        match = re.fullmatch(r"(.*?)(0|[1-9]\d*)", name)
        stem, number = (match[1], int(match[2])) if match else (name, None)
        if runs and number is not None and runs[-1][0] == stem and runs[-1][2] == number - 1:
            runs[-1] = (stem, runs[-1][1], number)
        else:
            runs.append((stem, number, number))
    texts = [
        stem.removeprefix(first)
        + ("" if low is None else f"{low}" if low == high else f"{low} to {_again(stem).removeprefix(first)}{high}")
        for stem, low, high in runs
    ]
    most = max(2, LONGEST // max((len(text) for text in texts), default=1))
    rest = f" and {len(texts) - most} more" if len(texts) > most else ""
    separator = "; " if any("," in text for text in texts) else ", "
    return first + separator.join(texts[:most]) + rest


def _again(stem: str) -> str:
    """What is repeated before the last number of a run: nothing after `row 3, column 1 to`."""
    return "" if ", " in stem else stem


def _prefix(names: Sequence[str]) -> str:
    """The first word, if all names share it."""
    word = names[0].partition(" ")[0] + " " if names else ""
    return word if all(name.startswith(word) for name in names) and word.strip() == "state" else ""
