"""What the papers of the rivals with guarantees state, measured with these implementations.

    python benchmarks/rivals.py [--runs N] [--only TABLE ...]

`rivals-statements`: one number, bound or rate of each paper beside what is found here; exit status 1 if one is missed
by more than two standard errors. Coverage is the share of runs, each on a process of its own, in which a promise at
δ = 0.1 was kept. An exponent is that of the episodes, or of the samples, with the logarithm in the radius divided out.
`rivals-stopping`: samples after which the rule of US-IRL stops, beside 8·H³·S·A·β/ε² of its theorem (H² where steps
share their rows), and beside our certificates `set` and `compatibility` for the same accuracy and the same samples.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import _frame as frame
import numpy as np

from aceirl.bench.rivals.caty_irl import Compatibility, noncompatibility
from aceirl.bench.rivals.rle import Rle
from aceirl.bench.rivals.rlp import pessimistic
from aceirl.bench.rivals.us_irl import SetDistance, set_distance
from aceirl.certificates import KINDS
from aceirl.envs.simulator import Simulator
from aceirl.experts import PolicyExpert
from aceirl.irl.belief import Target
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.models.tabular.confidence import FAMILIES, adaptive
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.dynamic_programming import optimal_values
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.mdp import MDP, FloatArray
from aceirl.rewards import FeasibleRewardSet
from studies import rivals as study
from studies.adversaries import Case
from studies.soundness import belief_of

DELTA = 0.1
TABLES = ("rivals-statements", "rivals-stopping")


@dataclass(frozen=True)
class Stated:
    """A statement of a paper: a number that is to be met, or one that is to be reached at least."""

    rival: str
    where: str
    number: float
    measure: Callable[[int], list[float]]
    at_least: bool = False

    def kept(self, found: frame.Mean) -> bool:
        """Within two standard errors; up to rounding where nothing is random."""
        room = 2 * found.error + 1e-9
        return found.mean >= self.number - room and (self.at_least or found.mean <= self.number + room)


def generators(runs: int, seed: int) -> list[np.random.Generator]:
    return np.random.default_rng(seed).spawn(runs)


def slope(x: FloatArray, y: list[float]) -> float:
    """The exponent of `x` in `y`."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def distance_kept(runs: int) -> list[float]:
    """Whether two feasible sets are as close as US-IRL says when it stops at half of Rmax."""
    kept = []
    for rng in generators(min(runs, 40), 1):
        case = study.small_case(rng, (2, 2, 2))
        known = study.sampled(case, 300, rng)
        distance = study.hausdorff(
            FeasibleRewardSet.of_problem(case.mdp, case.actions, 1.0), FeasibleRewardSet.of_estimate(known, 1.0)
        )
        kept.append(float(distance <= set_distance(known, 1.0, DELTA)))
    return kept


UNIFORM_EPISODES = np.array([10**5, 10**6, 10**7, 10**8])


def pessimism_kept(runs: int) -> list[float]:
    """Whether the pessimistic reward is nowhere too high, at both of two looks."""
    found = []
    for rng in generators(runs, 2):
        case = study.small_case(rng)
        looks = [study.walked(case, np.full(case.mdp.shape, 0.5), episodes, rng) for episodes in (30, 3000)]
        found.append(float(all(study.pessimism(case, known, rng, DELTA).too_high <= 1e-9 for known in looks)))
    return found


def planning_kept(runs: int) -> list[float]:
    """Whether planning with a pessimistic reward loses at most its distance from the true one."""
    found = []
    for rng in generators(runs, 3):
        case = study.small_case(rng)
        fared = study.pessimism(case, study.walked(case, np.full(case.mdp.shape, 0.5), 300, rng), rng, DELTA)
        found.append(float(fared.regret <= fared.distance + 1e-9))
    return found


def rlp_rate(runs: int) -> list[float]:
    """The exponent of the episodes in the distance on the optimal policy, actions being uniform."""
    found = []
    for rng in generators(min(runs, 50), 4):
        case, drawn = study.small_case(rng), int(rng.integers(2**32))
        apart = []
        for episodes in UNIFORM_EPISODES:
            known = study.walked(case, np.full(case.mdp.shape, 0.5), int(episodes), rng)
            same = np.random.default_rng(drawn)  # the parameters of the reward
            apart.append(study.pessimism(case, known, same, DELTA).distance / logarithm(known))
        found.append(slope(UNIFORM_EPISODES, apart))
    return found


def logarithm(known: Estimate) -> float:
    """The root of what the visits of a row are divided into, on average over the rows."""
    return float(np.sqrt((known.row_visits[0] * adaptive(known, 1.0, DELTA).divergence[0]).mean()))


def rle_rate(runs: int) -> list[float]:
    """The exponent of the episodes in the distance on all policies, with episodes of RLE."""
    sizes = np.array([1000, 10_000, 100_000])
    found = []
    for rng in generators(min(runs, 50), 5):
        case = study.small_case(rng)
        values = rng.random(case.mdp.shape[:2]) * np.arange(case.mdp.horizon, 0, -1.0)[:, None]
        apart = []
        for episodes in sizes:
            chosen = Settings(
                strategy=Rle(),
                irl="feasible-point",
                reward="any",
                certify=None,
                episodes_per_iteration=int(episodes) // 10,
                max_samples=int(episodes) * case.mdp.horizon,
                seed=int(rng.integers(2**32)),
            )
            *_, last = learn(Simulator(case.mdp), PolicyExpert(case.actions, case.mdp.shape), chosen)
            known = last.belief.estimate
            apart.append(everywhere(case, known, values) / logarithm(known))
        found.append(slope(sizes, apart))
    return found


def everywhere(case: Case, known: Estimate, values: FloatArray) -> float:
    """`max over policies of E Σ |r - r̂|`, which bounds the distance on every policy."""
    later = np.concatenate([values[1:], np.zeros((1, case.mdp.n_states))])
    true = values[:, :, None] - case.mdp.transitions.expect(later)
    apart = np.abs(true - pessimistic(known, values, np.zeros(case.mdp.shape), DELTA))
    return float(case.mdp.initial @ optimal_values(case.mdp, apart)[1][0])


def muffins(reward: list[float]) -> Callable[[int], list[float]]:
    """What the expert loses who eats the first of three cakes, under rewards in [-1, 1]."""

    def measure(runs: int) -> list[float]:
        case = Case(MDP.from_dense(np.ones((1, 3, 1)), initial=0, horizon=1), np.array([[0]]))
        known = study.sampled(case, 1, np.random.default_rng(0))
        return [noncompatibility(known, np.array(reward).reshape(1, 1, 3) + 1, 2.0)]

    return measure


def compatibility_kept(runs: int) -> list[float]:
    """Whether what the expert loses is known as well as is said, at three looks, for 30 rewards at each."""
    found = []
    for rng in generators(runs, 6):
        case, kept = study.small_case(rng), True
        for episodes in (3, 100, 20_000):
            known = study.walked(case, np.full(case.mdp.shape, 0.5), episodes, rng)
            kept &= study.compatibility_error(case, known, rng) <= study.compatibility_promise(known, DELTA)
        found.append(float(kept))
    return found


def inclusion_kept(runs: int) -> list[float]:
    """Whether the true set lies between the two of PIRLO, as far as 50 rewards tell."""
    found = []
    for rng in generators(runs, 7):
        case = study.small_case(rng)
        one = study.inclusion(case, study.walked(case, np.full(case.mdp.shape, 0.5), 1000, rng), rng, 50, DELTA)
        found.append(float(one.possible == one.feasible and one.sure_and_feasible == one.sure))
    return found


STATEMENTS = (
    Stated("US-IRL", "Theorem 6.1: the sets are as close as it says", 1 - DELTA, distance_kept, at_least=True),
    Stated("RLP", "Theorem 4.3: nowhere higher than the true reward", 1 - DELTA, pessimism_kept, at_least=True),
    Stated("RLP", "Proposition 3.3: planning loses at most `d^π`", 1 - DELTA, planning_kept, at_least=True),
    Stated("RLP", "Theorem 4.3: `d^π` falls with the episodes, exponent", -0.5, rlp_rate),
    Stated("RLE", "Theorem 5.1: `d^all` falls with the episodes, exponent", -0.5, rle_rate),
    Stated("CATY-IRL", "Example 4.2: loss under the true reward", 0.0, muffins([1, 0.99, -1])),
    Stated("CATY-IRL", "Example 4.2: loss under a good one", 0.01, muffins([0.99, 1, -1])),
    Stated("CATY-IRL", "Example 4.2: loss under a bad one", 2.0, muffins([-1, -1, 1])),
    Stated("CATY-IRL", "Definition 4.3: loss known as well as it says", 1 - DELTA, compatibility_kept, at_least=True),
    Stated("PIRLO", "inclusion: subset, true set, superset", 1 - DELTA, inclusion_kept, at_least=True),
)


def statements(options: argparse.Namespace, report: frame.Report) -> int:
    table = report.table(
        "rivals-statements",
        frame.Column("rival"),
        frame.Column("statement of its paper"),
        frame.number("stated", str),
        frame.number("here", str),
        frame.Column("kept", lambda kept: "yes" if kept else "no"),
        page="rivals.md",
    )
    missed = 0
    for stated in STATEMENTS:
        found = frame.Mean.of(stated.measure(options.runs))
        kept = stated.kept(found)
        missed += not kept
        table.add(stated.rival, stated.where, f"{'at least ' if stated.at_least else ''}{stated.number:g}", found, kept)
    return missed


SIZES = ((3, 2, 3, 1.0), (3, 2, 3, 0.5), (3, 2, 6, 1.0), (9, 2, 3, 1.0))


def stopping(options: argparse.Namespace, report: frame.Report) -> None:
    table = report.table(
        "rivals-stopping",
        *(frame.number(head) for head in ("S", "A", "H")),
        frame.number("ε", "{:g}"),
        frame.Column("dynamics"),
        frame.number("US-IRL: samples"),
        frame.number("theorem", "{:,.0f}"),
        frame.number("ratio", "{:.3f}"),
        frame.number("`set`: samples"),
        frame.number("`compatibility`: samples"),
        page="rivals.md",
    )
    for (n_states, n_actions, horizon, epsilon), stationary in (
        (size, kind) for kind in (True, False) for size in SIZES
    ):
        rng = np.random.default_rng(0)
        steps = () if stationary else (horizon,)
        rows = rng.dirichlet(np.ones(n_states), (*steps, n_states, n_actions))
        mdp = MDP.from_dense(rows, initial=0, horizon=horizon)
        needed = {name: stopped(mdp, kind, epsilon) for name, kind in KINDS_COMPARED.items()}
        samples = needed["set-distance"]
        n = samples / (n_states * n_actions * (1 if stationary else horizon))
        free, possible = n_states - 1, n_states * n_actions * (1 if stationary else horizon)
        beta = np.log(possible / DELTA) + free * (1 + np.log(1 + n / free))
        theorem = 8 * horizon ** (2 if stationary else 3) * n_states * n_actions * beta / epsilon**2
        table.add(
            n_states, n_actions, horizon, epsilon, "the same at every step" if stationary else "by step",
            samples, theorem, samples / theorem, needed["set"], needed["compatibility"],
        )  # fmt: skip


KINDS_COMPARED: dict[str, Any] = {
    "set-distance": SetDistance(),
    "set": KINDS["set"](),
    "compatibility": Compatibility(),
}


def stopped(mdp: MDP, kind: Any, epsilon: float) -> int:
    """Samples, equally many of each `(h, s, a)` and by one per cent more each time, until a kind is as accurate.

    The paper's `ε` is between two rewards in [-1, 1]; that is half of it in [0, 1], at each of H steps.
    """
    horizon, _, n_actions = mdp.shape
    target = Target(epsilon * horizon / 2, DELTA, 1.0)
    rng = np.random.default_rng(1)
    answers = np.broadcast_to(np.arange(n_actions) == 0, mdp.shape).astype(np.int64)
    counts = Counts.empty(mdp.shape, stationary=mdp.stationary)
    for times in growing():
        moves = Simulator(mdp).sample_many(np.full(mdp.shape, times), rng)
        counts = counts + Counts.of_moves(moves, mdp.shape, stationary=mdp.stationary)
        known = Estimate.of(counts.with_answers(answers), kind=ExpertKind(), delta=DELTA / 3, initial=mdp.initial)
        if target.reached(kind.value(belief_of(known, FAMILIES["adaptive"], target=target))):
            break
    return counts.samples


def growing() -> Iterator[int]:
    """How many samples to add, from 1 up, about one in a hundred of those there are."""
    total = 0
    while True:
        added = 1 + total // 100
        total += added
        yield added


def measure(options: argparse.Namespace, report: frame.Report) -> int:
    missed = statements(options, report) if "rivals-statements" in options.only else 0
    if "rivals-stopping" in options.only:
        stopping(options, report)
    return int(missed > 0)


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--runs", type=int, default=200, help="runs a statement"),
        frame.argument("--only", nargs="+", choices=TABLES, default=list(TABLES), part=True, help="these tables"),
    )
