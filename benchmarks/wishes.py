"""Twenty scripted people with definite wishes: whether the interview's last sentence is right, honestly open, or wrong.

    nice python benchmarks/wishes.py [--docs]

Beside it what the sentence is after the person has answered "What did you want?" on the last screen.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter

import _frame as frame

from studies.wishes import PEOPLE, interviewed


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """A row for each person, and how many endings are right, open and wrong."""
    warnings.simplefilter("ignore", DeprecationWarning)
    table = report.table(
        "interview-wishes",
        frame.Column("who wants"),
        frame.Column("environment"),
        frame.number("answers"),
        frame.Column("the last sentence"),
        frame.Column("after being asked back"),
        page="interview.md",
    )
    for person in PEOPLE[: options.runs]:
        ended = interviewed(person)
        table.add(person.name, person.environment, ended.answers, *ended.verdicts)
        print(*(f"    {sentence}" for sentence in ended.sentences), sep="\n", flush=True)
    for when, column in (("at first", 3), ("asked back", 4)):
        print(when, dict(Counter(row[column] for row in table.rows)))


if __name__ == "__main__":
    frame.start(measure, __doc__, frame.argument("--runs", type=int, default=len(PEOPLE), help="how many people"))
