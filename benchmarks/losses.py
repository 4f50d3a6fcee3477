"""How often a plan elsewhere loses more than was said, in families of tasks drawn at random.

    python benchmarks/losses.py [--runs N] [--first SEED] [--only FAMILY ...] [--keep FILE] [--docs]

A default run for each seed; then `result.transfer` to a world in which every action does, three times in ten, what
another one did. Of the losses named in `loses_more_than` the smallest that is exceeded with a probability of at most a
tenth is what is "said"; "more" is how many lose more than that by the truth. "Bounded" is whether that is at most a
tenth of those that say so, by a one-sided test at 1e-3. With `--keep` finished runs are kept in a file, and a later
call goes on.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import _frame as frame
import numpy as np
from joblib import Parallel, delayed
from scipy.stats import binomtest

from aceirl import ActiveIRL
from aceirl.envs import Problem
from aceirl.envs.problem import from_moves
from studies.families import FAMILIES, FRESH, case
from studies.kept import Kept

SAID = 0.1
"""How often a plan may lose more than was said."""

LEVEL = 1e-3
"""A share that is too high by luck fails its test this rarely."""

WITHOUT_ENDS = [name for name in FAMILIES if not name.startswith("ends")]


def measure(options: argparse.Namespace, report: frame.Report) -> int:
    """All families; the exit status is 1 if a family is not bounded."""
    table = report.table(
        "losses-elsewhere",
        frame.Column("family"),
        frame.number("runs"),
        frame.number("say so"),
        frame.number("said, median", "{:.2f}"),
        frame.number("lost, median", "{:.3f}"),
        frame.number("more"),
        frame.Column("bounded", lambda bounded: "yes" if bounded else "**no**"),
        page="sentences.md",
    )
    kept, failed = Kept(options.keep), 0
    for family in options.only or WITHOUT_ENDS:
        seeds = range(options.first, options.first + options.runs)
        todo = [seed for seed in seeds if (family, seed) not in kept.runs]
        for run in Parallel(n_jobs=-1, return_as="generator")(delayed(_run)(family, seed) for seed in todo):
            kept.add(run)
        runs = [kept.runs[family, seed] for seed in seeds]
        say = [run for run in runs if run["said"] is not None]
        more = sum(run["lost"] > run["said"] + 1e-9 for run in say)
        bounded = not say or binomtest(more, len(say), SAID, "greater").pvalue > LEVEL
        failed += not bounded
        said, lost = (float(np.median([run[name] for run in say])) if say else np.nan for name in ("said", "lost"))
        table.add(family, len(runs), len(say), said, lost, more, bounded)
    return int(failed > 0)


def _run(family: str, seed: int) -> dict[str, Any]:
    """One run, what it says it loses elsewhere, and what it does."""
    problem = case(family, seed).problem
    found = ActiveIRL(seed=seed).fit(problem).transfer(elsewhere(problem, seed))
    said = [float(loss) for loss, share in found.loses_more_than.items() if share <= SAID]
    return {"family": family, "seed": seed, "said": min(said, default=None), "lost": found.regret}


def elsewhere(problem: Problem, seed: int) -> Problem:
    """The same wish where every action does, three times in ten, what another one did."""
    mdp, rng = problem.mdp, np.random.default_rng([seed, 78])
    n_states, n_actions = mdp.shape[1:]
    rows = mdp.transitions.matrix.toarray().reshape(n_states, n_actions, n_states)
    other = rng.integers(n_actions, size=(n_states, n_actions))
    mixed = 0.7 * rows + 0.3 * rows[np.arange(n_states)[:, None], other]
    moves = [(*where, float(mixed[where])) for where in zip(*(i.tolist() for i in np.nonzero(mixed)), strict=True)]
    changed = from_moves(
        moves, n_states=n_states, n_actions=n_actions, horizon=mdp.horizon, initial=np.full(n_states, 1 / n_states)
    )
    return replace(problem, mdp=changed)


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--runs", type=int, default=100),
        frame.argument("--first", type=int, default=FRESH, help="the first seed"),
        frame.argument("--only", nargs="+", part=True, choices=WITHOUT_ENDS, metavar="FAMILY"),
        frame.argument("--keep", type=Path, metavar="FILE", help="where finished runs are kept"),
    )
