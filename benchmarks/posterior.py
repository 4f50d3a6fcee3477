"""How often intervals of the posterior hold the reward, and how far its samples are from exact integration.

    python benchmarks/posterior.py [--draws N] [--seed N]

Three small problems (`studies/bayesian.py`). A reward is drawn from the prior, its Boltzmann expert answers or ranks,
and the posterior is sampled: a 90 % interval should then hold each parameter 90 % of the time. "Lowest" and "highest"
are over parameters; the standard error of each is 0.7 % for 2000 draws. The second table is about the problem with two
parameters: how far the mean of the samples is from that of a grid of 400 x 400, in standard errors.
"""

from __future__ import annotations

import argparse
import time

import _frame as frame
import numpy as np
from scipy.stats import norm

from aceirl.models.tabular.mdp import FloatArray
from studies.bayesian import SCENES, Scene, corridor

LEVEL = 0.9


def measure(options: argparse.Namespace, report: frame.Report) -> int:
    """Coverage of each problem; the exit status says whether all lie where they should."""
    table = report.table(
        "posterior",
        frame.Column("problem"),
        frame.number("parameters"),
        frame.number("draws"),
        frame.number("covered", "{:.1%}"),
        frame.number("lowest", "{:.1%}"),
        frame.number("highest", "{:.1%}"),
        frame.number("effective samples", "{:,.0f}"),
        frame.number("largest R-hat", "{:.3f}"),
        frame.number("a posterior", frame.seconds),
        page="posterior.md",
    )
    wrong = 0
    for make_scene in SCENES:
        scene = make_scene(options.seed)
        held, effective, r_hat, took = covered(scene, options.draws, options.seed)
        share = held.mean(axis=0)
        wrong += not 0.87 <= share.min() <= share.max() <= 0.93
        table.add(scene.name, share.size, options.draws, share.mean(), share.min(), share.max(), effective, r_hat, took)
    grid = report.table(
        "posterior-grid",
        frame.Column("data"),
        frame.number("mean off, in standard errors", "{:.2f}"),
        frame.number("largest", "{:.2f}"),
        page="posterior.md",
    )
    off = np.array([against_grid(corridor(0), seed) for seed in range(options.grids)])
    grid.add(f"{options.grids} draws", float(np.abs(off).mean()), float(np.abs(off).max()))
    return wrong


def covered(scene: Scene, draws: int, seed: int) -> tuple[FloatArray, float, float, float]:
    """`[draws, n]` whether each parameter was held; the median effective size of the worst parameter, the 99 % quantile
    of the largest R-hat, and seconds of processor time a posterior."""
    rng = np.random.default_rng([seed, 1])
    held, effective, r_hats, spent = [], [], [], 0.0
    for _ in range(draws):
        theta, likelihood = scene.drawn(rng)
        began = time.process_time()
        posterior = scene.posterior(likelihood, rng)
        spent += time.process_time() - began
        low, high = posterior.interval(LEVEL)
        held.append((low <= theta) & (theta <= high))
        effective.append(posterior.effective.min())
        r_hats.append(posterior.r_hat.max())
    return (
        np.array(held, dtype=np.float64),
        float(np.median(effective)),
        float(np.quantile(r_hats, 0.99)),
        spent / draws,
    )


def against_grid(scene: Scene, seed: int) -> FloatArray:
    """`[n]`: the mean of the samples less the exact one, in standard errors."""
    rng = np.random.default_rng([seed, 2])
    _, likelihood = scene.drawn(rng)
    axis = scene.prior.parameters(norm.ppf((np.arange(400) + 0.5) / 400))
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    logs = likelihood.log_likelihood(points)
    weights = np.exp(logs - logs.max())
    mean = weights @ points / weights.sum()
    spread = np.sqrt(weights @ (points - mean) ** 2 / weights.sum())
    posterior = scene.posterior(likelihood, rng)
    return np.asarray((posterior.mean - mean) / (spread / np.sqrt(posterior.effective)))


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--draws", type=int, default=2000, help="rewards drawn from the prior"),
        frame.argument("--grids", type=int, default=40, help="draws compared with exact integration"),
        frame.argument("--seed", type=int, default=0),
    )
