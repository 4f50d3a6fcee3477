"""What planning elsewhere loses with a reward inferred from recordings, beside imitation's maximum causal entropy.

    python benchmarks/recordings.py [--seeds N] [--episodes N] [--errors SHARE] [--imitation PYTHON]

The expert of each recording is the best one, and takes any action instead one time in five. All are given the same
recordings. imitation's algorithm needs the dynamics: once it is given those that the recordings show, where an action
that was never tried stays where it is, and once the true ones. `infer` has the recordings alone; `fit` may explore the
environment as well, without asking anybody. Rewards are taken to every start and to changed dynamics.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import _frame as frame
import numpy as np

from aceirl import ActiveIRL
from aceirl.envs import ENVIRONMENTS, make
from aceirl.envs.simulator import Simulator
from aceirl.envs.truth import exact_model
from aceirl.experts.tasks import Source, gym_env
from aceirl.irl import MaxCausalEntropy
from aceirl.learner.transfer import KnownProcess, best_actions, process_of_source, same_states
from aceirl.models.tabular.counts import Counts
from aceirl.models.tabular.estimate import Estimate, ExpertKind
from aceirl.models.tabular.metrics import Truth
from aceirl.rewards import StateReward
from aceirl.runs.result import Result

EXPLORED = 2_000
"""Steps that `fit` may take in the environment."""

OTHER_SEED = 1_000

SEEN = ("imitation, dynamics as recorded", "`infer`", "imitation, true dynamics", "`fit`, explores")


@dataclass(frozen=True)
class Place:
    """Where is recorded, and where else the reward is taken; both by name, parameters and horizon.

    If `apart`, every start and the changed dynamics have a row each.
    """

    title: str
    environment: str
    elsewhere: tuple[dict[str, Any], ...]
    horizon: int | None = None
    parameters: tuple[tuple[str, Any], ...] = ()
    apart: bool = False

    def source(self, seed: int, **changed: Any) -> Source:
        """It, or it with other parameters."""
        return Source(self.environment, dict(self.parameters) | changed, seed, horizon=self.horizon)


PLACES = (
    Place("Gridworld", "gridworld", ({"failure": 0.1}, {"obstacle_up": 1})),
    Place("Four Paths", "four-paths", ({},)),
    Place("Double Chain", "double-chain", ({"slip": 0.3},)),
    Place(
        "Chain",
        "chain",
        ({"advance": 0.3, "advance_other": 0.7, "recover": 0.01, "recover_other": 0.05},),
    ),
    Place("FrozenLake", "FrozenLake-v1", ({"is_slippery": True},), 30, (("is_slippery", False),)),
    Place("CliffWalking", "CliffWalking-v1", ({"is_slippery": True},), 30, apart=True),
)


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """A row for each environment."""
    table = report.table(
        "recordings",
        frame.Column("transfer regret"),
        frame.number("steps"),
        *(frame.number(name, lost) for name in SEEN),
        frame.number("places closed"),
        frame.number("wrongly"),
        page="recordings.md",
    )
    theirs = imitation if _has_imitation(options.imitation) else own_entropy
    if theirs is own_entropy:
        print("imitation is not there: our own max-causal-entropy stands for it", file=sys.stderr)
    for place in PLACES:
        if options.only is None or place.environment in options.only:
            found = [Recorded.of(place, seed, options.episodes, options.errors) for seed in range(options.seeds)]
            problems = [one.problem(true=true) for one in found for true in (False, True)]
            rewards = theirs(problems, options.imitation)
            rows = [one.regrets(*rewards[2 * k : 2 * k + 2]) for k, one in enumerate(found)]
            steps = sum(row.steps for row in rows) // len(rows)
            closed, wrong = sum(row.closed for row in rows), sum(row.wrong for row in rows)
            for title, kept in _parts(place):
                means = [frame.Mean.of([float(np.mean(row.regrets[name][kept])) for row in rows]) for name in SEEN]
                table.add(title, steps, *means, closed, wrong)


def _parts(place: Place) -> list[tuple[str, slice]]:
    """The rows of a place, and which of its targets each is about."""
    if not place.apart:
        return [(place.title, slice(None))]
    return [(f"{place.title}, every start", slice(1)), (f"{place.title}, changed dynamics", slice(1, None))]


@dataclass(frozen=True)
class Row:
    """What one recording came to: the regrets in each target, and the places that were said to be closed."""

    regrets: dict[str, list[float]]
    steps: int
    closed: int
    wrong: int


@dataclass(frozen=True, eq=False)
class Recorded:
    """One recording, and the process it is from."""

    place: Place
    seed: int
    home: KnownProcess
    episodes: list[list[tuple[int, int]]]

    @classmethod
    def of(cls, place: Place, seed: int, episodes: int, errors: float) -> Recorded:
        """So many episodes of an expert who takes any action so often."""
        home = process_of_source(place.source(seed))
        assert home.reward is not None
        rng = np.random.default_rng([17, seed])
        policy = (1 - errors) * _expert(place.source(seed)) + errors / home.mdp.n_actions
        return cls(place, seed, home, [_walk(home, policy, rng) for _ in range(episodes)])

    def data(self) -> list[list[tuple[Any, ...]]]:
        """As a list of steps for each episode, in the environment's own observations."""
        over = self.home.terminal
        seen = self.home.observations or tuple(range(self.home.mdp.n_states))
        found = []
        for walk in self.episodes:
            steps = []
            for (state, action), (after, _) in pairwise(walk):
                if state not in over:
                    steps.append((seen[state], action, 0.0, seen[after], after in over, False))
            found.append(steps)
        return found

    def problem(self, *, true: bool) -> dict[str, np.ndarray]:
        """What imitation's algorithm is given: the dynamics, true or as recorded, and the states of the episodes."""
        mdp = self.home.mdp
        states = np.array([[state for state, _ in walk] for walk in self.episodes])
        exact = mdp.transitions.matrix.toarray().reshape(mdp.n_states, mdp.n_actions, mdp.n_states)
        if true:
            return {"transitions": exact, "initial": mdp.initial, "states": states}
        counted = np.zeros_like(exact)
        for walk in self.episodes:
            for (state, action), (after, _) in pairwise(walk):
                counted[state, action, after] += 1
        for state, action in np.argwhere(counted.sum(axis=2) == 0):
            counted[state, action, state] = 1
        initial = np.bincount(states[:, 0], minlength=mdp.n_states) / len(states)
        return {"transitions": counted / counted.sum(axis=2, keepdims=True), "initial": initial, "states": states}

    def targets(self) -> Iterator[KnownProcess]:
        """The process from every start, and with changed dynamics; what its expert wants is the truth in all."""
        yield self.home.starting("uniform")
        for changed in self.place.elsewhere:
            there = process_of_source(self.place.source(self.seed + OTHER_SEED, **changed))
            ours = not self.home.terminal
            yield (there.valued_as(self.home) if ours else there).starting("uniform")

    def regrets(self, recorded: np.ndarray, true: np.ndarray) -> Row:
        """The regrets of all, with the rewards `[S]` that imitation found by the dynamics as recorded and true."""
        settings: dict[str, Any] = {"seed": self.seed, "max_samples": EXPLORED, "certify": None}
        data, source = self.data(), self.place.source(self.seed)
        inferred = ActiveIRL(seed=self.seed).infer(data, source)
        explored = ActiveIRL(**settings).fit(_played(source), horizon=self.place.horizon, demonstrations=data)
        plans = (
            lambda target: _regret(target, self.home, recorded),
            lambda target: _transferred(inferred, target),
            lambda target: _regret(target, self.home, true),
            lambda target: _transferred(explored, target),
        )
        targets = list(self.targets())
        found = {name: [plan(target) for target in targets] for name, plan in zip(SEEN, plans, strict=True)}
        return Row(found, inferred.samples, *self._closed(inferred))

    def _closed(self, inferred: Result) -> tuple[int, int]:
        """How many places were said to be worth no more than the goal, and how many of these are by the truth."""
        support, found = inferred.support, inferred.explanation
        if support.by == "" or found is None:
            return 0, 0
        reward = self.home.reward
        assert reward is not None
        worth = reward[0].max(axis=1)
        numbers = same_states(inferred.turn.names, inferred.policy.shape[1], self.home)
        if self.home.terminal:  # an end is worth what is paid on arrival
            paid = self.home.mdp.transitions.matrix.T @ np.maximum(reward[0].ravel(), 0.0)
            worth = np.where(np.isin(np.arange(len(worth)), self.home.terminal_states), paid, 0.0)
        of_run = {int(number): float(value) for number, value in zip(numbers, worth, strict=True) if number >= 0}
        goal = of_run[found.goals[0]]
        above = [s for s in support.closed_places if of_run.get(s, 0.0) > goal + 1e-9]
        return len(support.closed_places), len(above)


def _expert(source: Source) -> np.ndarray:
    """`[H, S, A]`: our own environments' expert, or the best policy of the others, which gets there soonest."""
    if source.environment in ENVIRONMENTS:
        return make(source.environment, source.seed, **source.parameters).expert
    with closing(gym_env(source)) as env:
        space: Any = env.action_space
        n_actions = int(space.n)
        assert source.horizon is not None
        return np.eye(n_actions)[exact_model(env, source.horizon, n_actions).expert()]


def _walk(home: KnownProcess, policy: np.ndarray, rng: np.random.Generator) -> list[tuple[int, int]]:
    """`H + 1` states, each with the action taken there; the last has none."""
    mdp = home.mdp
    rows = mdp.transitions.matrix
    state, walk = int(rng.choice(mdp.n_states, p=mdp.initial)), []
    for h in range(mdp.horizon):
        action = int(rng.choice(mdp.n_actions, p=policy[h, state]))
        walk.append((state, action))
        row = rows[[state * mdp.n_actions + action]].toarray()[0]
        state = int(rng.choice(mdp.n_states, p=row / row.sum()))
    return [*walk, (state, -1)]


def _played(source: Source) -> Any:
    """The environment to explore."""
    if source.environment in ENVIRONMENTS:
        return Simulator(make(source.environment, source.seed, **source.parameters).mdp)
    return gym_env(source)


def _regret(target: KnownProcess, home: KnownProcess, reward: np.ndarray) -> float:
    """What the plan for a reward of states `[S]` loses, paid at every step, after the end too, as imitation has it."""
    numbers = same_states(home.names, home.mdp.n_states, target)
    there = np.where(numbers >= 0, reward[numbers], 0.0)
    policy, _ = best_actions(target.mdp, np.ascontiguousarray(np.broadcast_to(there[:, None], target.mdp.shape)))
    assert target.reward is not None
    return Truth(target.mdp, target.reward).regret(policy)


def _transferred(result: Result, target: KnownProcess) -> float:
    names = () if result.turn.names else target.names
    regret = result.transfer(target, names=names).regret
    assert regret is not None
    return regret


def imitation(problems: list[dict[str, np.ndarray]], python: Path) -> list[np.ndarray]:
    """`[S]` for each problem: imitation's reward, by an interpreter of its own."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "in.npz", Path(folder) / "out.npz"
        arrays: dict[str, Any] = {f"{name}_{k}": a for k, one in enumerate(problems) for name, a in one.items()}
        np.savez(given, **arrays)
        script = Path(__file__).with_name("_mce.py")
        subprocess.run([str(python), str(script), str(given), str(found)], check=True)
        with np.load(found) as file:
            return [file[f"reward_{k}"] for k in range(len(problems))]


def own_entropy(problems: list[dict[str, np.ndarray]], python: Path) -> list[np.ndarray]:
    """The same by our own algorithm, for states."""
    found = []
    for one in problems:
        transitions, walks = one["transitions"], one["states"]
        n_states, n_actions, _ = transitions.shape
        shape = walks.shape[1] - 1, n_states, n_actions
        rows, after = np.nonzero(transitions.reshape(-1, n_states))
        times = np.rint(transitions.reshape(-1, n_states)[rows, after] * 1e9).astype(np.int64)
        answers = np.zeros(shape, dtype=np.int64)
        for walk in walks:
            for step, (state, later) in enumerate(pairwise(walk)):
                answers[step, state, int(transitions[state, :, later].argmax())] += 1
        counts = Counts.of_arrays(
            True, np.full(shape, 10**9), answers, np.zeros(n_states, np.int64), rows * n_states + after, times
        )
        kind = ExpertKind(deterministic=False)
        estimate = Estimate.of(counts, kind=kind, delta=0.1, initial=one["initial"])
        recovered = MaxCausalEntropy(reproduce_answers=False)(estimate, 1.0, {}, StateReward())
        found.append(recovered.reward[0, :, 0])
    return found


def _has_imitation(python: Path) -> bool:
    try:
        wanted = "from imitation.algorithms import mce_irl"
        return subprocess.run([str(python), "-c", wanted], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def lost(value: frame.Mean) -> str:
    """A mean regret and its standard error."""
    return f"{value.mean:.3f} ± {value.error:.3f}"


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--seeds", type=int, default=5),
        frame.argument("--episodes", type=int, default=50, help="in each recording"),
        frame.argument("--errors", type=float, default=0.2, help="how often the expert takes any action"),
        frame.argument(
            "--imitation",
            type=Path,
            default=frame.ROOT / ".tools" / "sb3" / "bin" / "python",
            help="an interpreter that has imitation and seals",
        ),
        frame.argument("--only", nargs="+", part=True, help="environments"),
    )
