"""Twenty scripted people with definite wishes: whether the interview's last sentence is right, honestly open, or wrong.

    nice python benchmarks/wishes.py [--seed N] [--keep FILE] [--docs]

Then what it is when the person has answered "What did you want?" on the last screen, and after more questions if that
was not enough. With `--keep` finished people are kept in a file, and a later call goes on. The seed is of the world.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import _frame as frame

from studies.kept import Kept
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
        frame.Column("asked back"),
        frame.number("answers, with more"),
        frame.Column("then"),
        frame.number("other places that agree"),
        page="interview.md",
    )
    kept = Kept(options.keep)
    for person in PEOPLE[: options.runs]:
        key = person.name, options.seed
        if key not in kept.runs:
            kept.add({"family": person.name, "seed": options.seed} | asdict(interviewed(person, options.seed)))
        found = kept.runs[key]
        first, asked_back, then = found["verdicts"]
        answers, others = found["answers"], found["as_well"]
        table.add(person.name, person.environment, answers[0], first, asked_back, answers[2], then, others)
        print(*(f"    {sentence}" for sentence in dict.fromkeys(found["sentences"])), sep="\n", flush=True)
    for when, column in (("at first", 3), ("asked back", 4), ("with more questions", 6)):
        print(when, dict(Counter(row[column] for row in table.rows)))


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--runs", type=int, default=len(PEOPLE), part=True, help="how many people"),
        frame.argument("--seed", type=int, default=0, help="of the worlds, and of those who click at random"),
        frame.argument("--keep", type=Path, metavar="FILE", help="where finished people are kept"),
    )
