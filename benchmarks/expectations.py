"""How often the certificate on feature expectations is broken, and how much it promises.

    python benchmarks/expectations.py [--runs N] [--lander]

Per episode and feature a mean in [0, 1] is drawn, for the expert and for the policy. The certificate is broken if at
any number of pairs its bounds leave out the truth of any feature; since the bounds are running ones, the last tell.
`loss` is the mean of what is promised, as a share of an episode; `true` is the largest true difference.

With `--lander` instead: what is promised of a policy of LunarLander after 500 answers, which needs Box2D (`pip install
box2d`). The features are made of 20 episodes of each that are not used again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import _frame as frame
import numpy as np

from aceirl import ActiveIRL
from aceirl.certificates.expectations import certify_expectations, feature_means
from aceirl.models.vectors.episodes import play
from aceirl.models.vectors.experience import Experience
from aceirl.models.vectors.features import Features
from studies.controllers import land
from studies.worlds import lander

DELTA, FEATURES, PAIRS = 0.1, 2, 50
HORIZON, LANDINGS, FIRST_SEED = 500, (100, 200, 400), 900

CASES: dict[str, tuple[float, Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]]] = {
    "rare events": (
        0.04,
        lambda rng, n: (
            (rng.random((n, FEATURES)) < 0.05).astype(float),
            (rng.random((n, FEATURES)) < 0.01).astype(float),
        ),
    ),
    "coins": (
        0.0,
        lambda rng, n: (
            (rng.random((n, FEATURES)) < 0.5).astype(float),
            (rng.random((n, FEATURES)) < 0.5).astype(float),
        ),
    ),
    "little variance": (
        0.05,
        lambda rng, n: (rng.uniform(0.5, 0.6, (n, FEATURES)), rng.uniform(0.45, 0.55, (n, FEATURES))),
    ),
}
"""By name: the largest true difference, and how pairs are drawn."""


def lander_promises(report: frame.Report, seeds: range) -> None:
    """Pairs of episodes of the expert and of what was learned from it."""
    table = report.table(
        "expectations-lander",
        frame.number("seed"),
        frame.number("features"),
        frame.number("return of the expert", "{:.0f}"),
        frame.number("of the policy", "{:.0f}"),
        *(frame.number(f"loss after {pairs} pairs", "{:.3f}") for pairs in LANDINGS),
    )
    env = lander()
    for seed in seeds:
        learned = ActiveIRL(max_answers=500, certify=None, seed=seed).fit(env, land, horizon=HORIZON)
        rng = np.random.default_rng(seed)

        def acts(observation: Any, learned: Any = learned) -> int:
            return int(learned.predict(observation)[0])

        first, pairs = (
            [[play(env, act, int(rng.integers(2**31))) for _ in range(n)] for act in (land, acts)]
            for n in (20, max(LANDINGS))
        )
        met = Experience(env, rng)
        met.episodes = [episode for episodes in first for episode in episodes]
        features = Features.of(met.inside, met.ends)
        own, others = (feature_means(features, episodes, HORIZON) for episodes in pairs)
        table.add(
            seed,
            features.n_features,
            *(float(np.mean([episode.paid for episode in episodes])) for episodes in pairs),
            *(certify_expectations(own[:n], others[:n], DELTA, HORIZON).share for n in LANDINGS),
        )


def main(options: argparse.Namespace, report: frame.Report) -> None:
    """Every case."""
    if options.lander:
        lander_promises(report, range(FIRST_SEED, FIRST_SEED + options.seeds))
        return
    table = report.table(
        "expectations",
        frame.Column("episodes"),
        frame.number("pairs"),
        frame.number("runs"),
        frame.number("broken", "{:.1%}"),
        frame.number("loss", "{:.3f}"),
        frame.number("true", "{:.3f}"),
        page="continuous-reward.md",
    )
    for case, (true, drawn) in CASES.items():
        rng, broken, promised = np.random.default_rng(list(CASES).index(case)), 0, 0.0
        for _ in range(options.runs):
            found = certify_expectations(*drawn(rng, PAIRS), DELTA, 1)
            broken += not bool((found.lower <= true).all() and (true <= found.upper).all())
            promised += found.loss
        table.add(case, PAIRS, options.runs, broken / options.runs, promised / options.runs, true)


if __name__ == "__main__":
    frame.start(
        main,
        __doc__,
        frame.argument("--runs", type=int, default=2000, part=True),
        frame.argument("--lander", action="store_true", part=True, help="LunarLander instead"),
        frame.argument("--seeds", type=int, default=3, help="of LunarLander"),
    )
