"""Structural estimates: published figures, coverage of intervals, how often a sentence is false, and time.

    python benchmarks/structural.py [--only rust coverage sentences careers sepsis time] [--draws 2000]
        [--keep FILE.jsonl] [--econirl PYTHON] [--out FILE.json] [--docs]

`--keep` stores finished draws, and a second run goes on from there. `--econirl` is the interpreter of an environment in
which econirl is installed: its estimators then take turns with ours on the same file, in one run. Without it that table
is left out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _frame as frame
import numpy as np

from aceirl import MDP, ActiveIRL, PolicyExpert, Simulator
from aceirl.bench.careers import reproduce_careers
from aceirl.bench.reproductions import RUST_PUBLISHED, SEPSIS_ENDS, reproduce_rust_bus, rust_bus
from aceirl.data.catalogue import SETS, sepsis_arrays
from aceirl.data.tables import Panel
from aceirl.irl.counterfactual import counterfactual
from aceirl.irl.structural import CHANCE, HABIT, RecordedChoices, StructuralModel
from aceirl.models.tabular.dynamic_programming import evaluate
from aceirl.models.tabular.mdp import FloatArray, IntArray, Transitions
from aceirl.models.tabular.panels import CountedDynamics, given_dynamics
from aceirl.runs.estimating import EstimatedReward

BINS, BUSES, MONTHS = 90, 37, 117
USAGE = np.array([0.39189, 0.59529, 0.01282])


@dataclass(frozen=True, eq=False)
class Fleet:
    """Buses that move on by the usage of a month from `origin [S, A]`: with costs as `features [S, A, K]`."""

    name: str
    origin: IntArray
    features: FloatArray
    parameters: dict[str, float]
    discount: float

    def transitions(self, usage: FloatArray) -> Transitions:
        """With these shares of 0, 1, 2 … bins driven in a month."""
        dense = np.zeros((*self.origin.shape, BINS))
        for bins, share in enumerate(usage):
            np.add.at(dense, (*np.indices(self.origin.shape), np.minimum(self.origin + bins, BINS - 1)), share)
        return given_dynamics(dense).transitions

    def model(self, usage: FloatArray = USAGE) -> StructuralModel:
        """The structural model, with the true usage or an estimate of it."""
        return StructuralModel(self.transitions(usage), self.features, tuple(self.parameters), self.discount)

    @property
    def truth(self) -> FloatArray:
        """`[K]`."""
        return np.array(list(self.parameters.values()))


def fleets() -> list[Fleet]:
    """Three models of the buses' size: Rust's, one with costs that flatten, and one with an overhaul between."""
    mile = np.arange(BINS)
    keep, new = mile, np.zeros(BINS, dtype=np.int64)

    def paid(*columns: tuple[int, Any], actions: int) -> FloatArray:
        features = np.zeros((BINS, actions, len(columns)))
        for k, (action, value) in enumerate(columns):
            features[:, action, k] = value
        return features

    two, three = np.stack((keep, new), axis=1), np.stack((keep, mile // 2, new), axis=1)
    linear = paid((1, -1.0), (0, -0.001 * mile), actions=2)
    root = paid((1, -1.0), (0, -0.01 * np.sqrt(mile)), actions=2)
    overhaul = paid((1, -1.0), (2, -1.0), (0, -0.001 * mile), actions=3)
    return [
        Fleet("linear costs", two, linear, {"RC": 10.07, "theta": 2.293}, 0.9999),
        Fleet("square-root costs", two, root, {"RC": 9.0, "theta": 5.0}, 0.99),
        Fleet("overhaul or replace", three, overhaul, {"OC": 7.0, "RC": 9.0, "theta": 2.5}, 0.999),
    ]


def simulated(policy: FloatArray, transitions: Transitions, rng: np.random.Generator) -> Panel:
    """A panel of the buses' size: new buses, and what is done with them."""
    chosen, moved = policy.cumsum(axis=1), transitions.dense().cumsum(axis=2)
    state, parts = np.zeros(BUSES, dtype=np.int64), []
    for _ in range(MONTHS):
        action = (rng.random(BUSES)[:, None] > chosen[state, :-1]).sum(axis=1)
        after = (rng.random(BUSES)[:, None] > moved[state, action, :-1]).sum(axis=1)
        parts.append((np.arange(BUSES), state, action, after))
        state = after
    who, states, actions, successors = np.array(parts).transpose(1, 2, 0).reshape(4, -1)
    return Panel(
        tuple(range(BINS)), tuple(range(policy.shape[1])), tuple(range(BUSES)), ("bin",), "action",
        who, states, actions, successors, who, np.arange(len(who)),
    )  # fmt: skip


def drawn(fleet: Fleet, draw: int) -> dict[str, Any]:
    """One panel, its estimate, and what the intervals cover; the usage is estimated from the panel too."""
    rng = np.random.default_rng([int.from_bytes(fleet.name.encode()[:6]), draw])
    world = fleet.model()
    panel = simulated(world.policy(fleet.truth), world.transitions, rng)
    bins = panel.successor - fleet.origin[panel.state, panel.action]
    usage = np.bincount(bins[panel.successor < BINS - 1], minlength=len(USAGE)).astype(np.float64)
    found = fleet.model(usage / usage.sum()).fit(RecordedChoices.of(panel))
    low, high = found.intervals(0.9).T
    there = counterfactual(found, scaled={"RC": 0.8})
    ends = there.demand_intervals(0.9)[-1]
    changed = fleet.parameters | {"RC": 0.8 * fleet.parameters["RC"]}
    true = true_demand(fleet, changed)
    return {
        "model": fleet.name,
        "draw": draw,
        "converged": found.converged,
        "estimate": found.parameters.tolist(),
        "covered": [bool(one) for one in (low <= fleet.truth) & (fleet.truth <= high)],
        "demand": float(there.demand[-1]),
        "demand_covered": bool(ends[0] <= true <= ends[1]),
    }


def true_demand(fleet: Fleet, parameters: dict[str, float]) -> float:
    """The share of replacements in the long run with the true usage."""
    world = fleet.model()
    policy = world.policy(np.array(list(parameters.values())))
    share = np.full(BINS, 1 / BINS)
    chain = world.problem.chain(policy).toarray()
    share = np.linalg.matrix_power(chain, 2**14)[0]
    return float(share @ policy[:, -1])


def kept(path: Path | None) -> Iterator[dict[str, Any]]:
    """The draws that were finished before."""
    if path is not None and path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def coverage(options: argparse.Namespace, report: frame.Report) -> None:
    """How often 90 % intervals hold the truth."""
    table = report.table(
        "coverage",
        frame.Column("model"),
        frame.Column("parameter"),
        frame.number("truth", "{:.4g}"),
        frame.number("mean estimate", "{:.4g}"),
        frame.number("covered", "{:.1%}"),
        frame.number("panels"),
        page="data.md",
    )
    before = {(one["model"], one["draw"]): one for one in kept(options.keep)}
    for fleet in fleets():
        found = []
        for draw in range(options.draws):
            if (fleet.name, draw) not in before:
                before[fleet.name, draw] = drawn(fleet, draw)
                if options.keep is not None:
                    with options.keep.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(before[fleet.name, draw]) + "\n")
            found.append(before[fleet.name, draw])
        # A panel without an estimate has no interval: it does not cover.
        share = np.mean([[one["converged"] and hit for hit in one["covered"]] for one in found], axis=0)
        mean = np.mean([one["estimate"] for one in found if one["converged"]], axis=0)
        for k, (name, truth) in enumerate(fleet.parameters.items()):
            table.add(fleet.name, name, truth, mean[k], share[k], len(found))
        demand = np.mean([one["demand"] for one in found if one["converged"]])
        hits = np.mean([one["converged"] and one["demand_covered"] for one in found])
        true = true_demand(fleet, fleet.parameters | {"RC": 0.8 * fleet.parameters["RC"]})
        table.add(fleet.name, "demand, RC a fifth lower", true, demand, hits, len(found))


def sentences(options: argparse.Namespace, report: frame.Report) -> None:
    """How often "it predicts better than a habit" is said where decisions are a habit, and where they are not."""
    table = report.table(
        "sentences",
        frame.Column("decisions are"),
        frame.number("panels"),
        frame.number("“predicts better than a habit”", "{:.1%}"),
        page="data.md",
    )
    fleet = fleets()[0]
    world = fleet.model()
    habit = np.tile([0.9923, 0.0077], (BINS, 1))
    for words, policy in (("a habit: replaced at random", habit), ("of Rust's model", world.policy(fleet.truth))):
        claimed = []
        for draw in range(options.sentences):
            panel = simulated(policy, world.transitions, np.random.default_rng([99, draw]))
            found = EstimatedReward(world.fit(RecordedChoices.of(panel)), panel, CountedDynamics())
            claimed.append(found.estimate.converged and found.beats(HABIT) and found.beats(CHANCE))
        table.add(words, len(claimed), float(np.mean(claimed)))


def rust(report: frame.Report) -> None:
    """The published figures beside ours."""
    table = report.table(
        "rust",
        frame.Column("figure"),
        frame.number("here", "{:.4f}"),
        frame.number("published", "{:.4f}"),
        page="data.md",
    )
    figures = reproduce_rust_bus()[1]
    words = {"RC": "replacement cost RC", "RC_se": "its standard error", "theta": "cost of mileage θ"}
    words |= {"theta_se": "its standard error", "log_likelihood": "log-likelihood of the choices"}
    for name, value in RUST_PUBLISHED.items():
        table.add(words[name], figures[name], value)


def careers(report: frame.Report) -> None:
    """What the career decisions say in dollars, beside the published model."""
    table = report.table(
        "careers",
        frame.Column("a year of, or"),
        frame.number("thousands of dollars (standard error)", "{}"),
        frame.number("published", "{}"),
        page="data.md",
    )
    figures = reproduce_careers()[1]
    for name, pair in figures["dollars"].items():
        if name != "wage":
            theirs = figures["published"].get(name)
            table.add(name, "{:.2f} ({:.2f})".format(*pair), theirs and "{:.2f} ({:.2f})".format(*theirs))


def sepsis(options: argparse.Namespace, report: frame.Report) -> None:
    """Strategies in ICU-Sepsis as an environment: episodes of 20 steps, the clinicians' average policy to ask."""
    table = report.table(
        "sepsis",
        frame.Column("strategy"),
        frame.number("steps"),
        frame.number("answers"),
        frame.number("patients who survive with the learned policy", "{:.3f}"),
        frame.Column("what is said of the wish"),
        page="data.md",
    )
    parts, horizon = sepsis_arrays(), 20
    policy = parts["policy"].copy()
    policy[SEPSIS_ENDS:] = 1 / policy.shape[1]  # nothing is decided after the end
    mdp = MDP.from_dense(parts["transitions"], initial=parts["initial"], horizon=horizon)
    survive = np.where(np.arange(mdp.n_states)[:, None] < SEPSIS_ENDS, parts["transitions"][:, :, SEPSIS_ENDS + 1], 0)
    reward = np.ascontiguousarray(np.broadcast_to(survive, mdp.shape))

    def survivors(chosen: FloatArray) -> float:
        return float(mdp.initial @ evaluate(mdp, reward, np.ascontiguousarray(chosen))[1][0])

    table.add("the clinicians themselves", None, None, survivors(np.broadcast_to(policy, mdp.shape)), "")
    for strategy in options.strategies:
        learner = ActiveIRL(strategy=strategy, max_samples=options.steps, episodes_per_iteration=50, certify="none")
        found = learner.fit(Simulator(mdp), PolicyExpert(policy, mdp.shape, stationary=True))
        said = "nothing" if found.wish.kind == "open" else found.wish.sentence
        table.add(strategy, found.samples, found.answers, survivors(np.eye(mdp.n_actions)[found.policy]), said)


THEIRS = """
import json, sys, time
import numpy as np, pandas as pd
from econirl.datasets import rust_bus_reward_spec
from econirl.estimators import ESTIMATOR
frame = pd.read_csv(sys.argv[1])
frame = frame[frame.month > 0]
def once():
    began = time.perf_counter()
    model = ESTIMATOR(n_states=90, discount=0.9999, utility=rust_bus_reward_spec(90), se_method="asymptotic")
    model.fit(frame, state="bin", action="replaced", id="bus")
    found = {"RC": float(model.params_["replacement_cost"]), "theta": 1000 * float(model.params_["operating_cost"])}
    return time.perf_counter() - began, found, float(model.log_likelihood_)
for line in sys.stdin:
    try:
        print(json.dumps(once()), flush=True)
    except Exception as error:
        print(json.dumps([None, type(error).__name__ + ": " + str(error)[:200], None]), flush=True)
"""


def times(options: argparse.Namespace, report: frame.Report) -> None:
    """One estimate of the buses, from the file to standard errors, ours and econirl's in turns."""
    table = report.table(
        "time",
        frame.Column("estimator"),
        frame.number("median time", frame.seconds),
        frame.Column("parameters"),
        frame.Column("log-likelihood"),
        page="data.md",
    )  # fmt: skip
    path = str(SETS["rust-bus"].path("group4.csv"))
    theirs = {
        name: subprocess.Popen(
            [str(options.econirl), "-c", THEIRS.replace("ESTIMATOR", name), path],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        for name in ("NFXP", "CCP")
    }  # fmt: skip
    spent: dict[str, list[float]] = {"aceirl": [], **{name: [] for name in theirs}}
    said: dict[str, tuple[str, str]] = {}
    for turn in range(options.rounds + 1):  # the first round compiles, and does not count
        began = time.perf_counter()
        mine = rust_bus()
        mine.estimate.standard_errors("observed")
        took = time.perf_counter() - began
        if turn:
            spent["aceirl"].append(took)
        said["aceirl"] = shown(mine.parameters), f"{mine.log_likelihood:.3f}"
        for name, process in theirs.items():
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("go\n")
            process.stdin.flush()
            took, parameters, value = json.loads(process.stdout.readline())
            if took is not None and turn:
                spent[name].append(took)
            words = parameters if isinstance(parameters, str) else shown(parameters)
            said[name] = words, "" if value is None else f"{value:.3f}"
    for process in theirs.values():
        process.communicate()
    for name, found in spent.items():
        label = "aceirl" if name == "aceirl" else f"econirl {name}"
        table.add(label, statistics.median(found) if found else None, *said[name])


def shown(parameters: dict[str, float]) -> str:
    """Names and numbers."""
    return ", ".join(f"{name} {value:.4g}" for name, value in parameters.items())


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """The sections that were asked for."""
    if "rust" in options.only:
        rust(report)
    if "coverage" in options.only:
        coverage(options, report)
    if "sentences" in options.only:
        sentences(options, report)
    if "careers" in options.only:
        careers(report)
    if "sepsis" in options.only and SETS["icu-sepsis"].here:
        sepsis(options, report)
    if "time" in options.only and options.econirl is not None:
        times(options, report)


if __name__ == "__main__":
    sections = ["rust", "coverage", "sentences", "careers", "sepsis", "time"]
    frame.start(
        measure,
        __doc__,
        frame.argument("--only", nargs="+", default=sections, choices=sections, help="sections"),
        frame.argument("--draws", type=int, default=2000, help="simulated panels a model"),
        frame.argument("--sentences", type=int, default=300, help="simulated panels for the sentence"),
        frame.argument("--keep", type=Path, help="finished draws are stored here, and taken from here"),
        frame.argument("--strategies", nargs="+", default=["guided", "ace", "advice", "random"], help="in ICU-Sepsis"),
        frame.argument("--steps", type=int, default=3000, help="in ICU-Sepsis, for each strategy"),
        frame.argument("--econirl", type=Path, help="interpreter of an environment with econirl"),
        frame.argument("--rounds", type=int, default=2, help="turns of the time"),
    )
