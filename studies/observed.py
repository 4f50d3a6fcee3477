"""Experts who see more than the learner does: bins, hidden state. What becomes of the promise about the policy.

The small cases have an exact truth; those of Gymnasium are measured by playing fresh episodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np

from aceirl.envs.gymnasium import GymEnvironment
from aceirl.envs.simulator import Simulator
from aceirl.experts import FunctionExpert, ObservationExpert
from aceirl.learner.loop import learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Turn
from aceirl.models.tabular.bins import Bins
from aceirl.models.tabular.encoder import StateIndex
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray
from studies.adversaries import Case
from studies.soundness import DELTAS, Outcome, Promise, certified_value, looked, lost_share, worst_regret

# Small cases with an exact truth.

SHARE = 0.1
"""What is asked: a tenth of an episode. What is hidden is a little more likely to matter than that."""


@dataclass(frozen=True, eq=False)
class Hidden:
    """A case of which the learner sees only `observed [S]`; the expert sees all of it."""

    case: Case
    observed: IntArray


class Masked:
    """The process of a hidden case, as the learner meets it."""

    initial = None

    def __init__(self, hidden: Hidden) -> None:
        self._simulator, self._observed = Simulator(hidden.case.mdp), hidden.observed
        self.n_states = int(hidden.observed.max()) + 1
        self.n_actions, self.horizon = hidden.case.mdp.n_actions, hidden.case.mdp.horizon
        self.state = 0

    def reset(self, rng: np.random.Generator) -> int:
        self.state = self._simulator.reset(rng)
        return int(self._observed[self.state])

    def step(self, action: int) -> tuple[int, bool]:
        self.state, over = self._simulator.step(action)
        return int(self._observed[self.state]), over


def bins_case(rng: np.random.Generator) -> Hidden:
    """Two places a bin; in the rarer one, met at any step with a small chance, the expert acts otherwise."""
    horizon, cells = 5, 3
    # First met at step h with probability (1-q)^h·q: the mean share lost is about q·(H+1)/2.
    rare = SHARE * rng.uniform(1.25, 1.6) * 2 / (horizon + 1)
    sides = np.tile([1 - rare, rare], cells)
    rows = rng.dirichlet(np.ones(cells), (2 * cells, 2)).repeat(2, axis=2) * sides
    actions = rng.integers(2, size=(horizon, cells)).repeat(2, axis=1)
    actions[:, 1::2] = 1 - actions[:, 1::2]
    start = rng.dirichlet(np.ones(cells)).repeat(2) * sides
    mdp = MDP.from_dense(rows, initial=start, horizon=horizon)
    return Hidden(Case(mdp, actions), np.arange(2 * cells) // 2)


def hidden_key_case(rng: np.random.Generator) -> Hidden:
    """Now and then the expert holds a key from the start; only at the door, halfway, does it act otherwise then."""
    horizon, door, places = 6, 3, 4
    holds = SHARE * rng.uniform(1.25, 1.6) / (1 - door / horizon)
    rows = np.zeros((2 * places, 2, 2 * places))
    for key in range(2):
        own = slice(key * places, (key + 1) * places)
        rows[own, :, own] = rng.dirichlet(np.ones(places), (1, 2))
    actions = np.tile(rng.integers(2, size=(horizon, places)), 2)
    actions[door, places:] = 1 - actions[door, places:]
    start = np.concatenate(((1 - holds) * np.eye(places)[0], holds * np.eye(places)[0]))
    return Hidden(Case(MDP.from_dense(rows, initial=start, horizon=horizon), actions), np.arange(2 * places) % places)


HIDDEN: dict[str, Callable[[np.random.Generator], Hidden]] = {"bins": bins_case, "hidden key": hidden_key_case}


def hidden_run(name: str, seed: int, *, ask_again: float = 1.0, episodes: int = 8, turns: int = 12) -> Outcome:
    """Which promises were broken at any turn of a run, against the exact truth."""
    hidden = HIDDEN[name](np.random.default_rng([seed, 13]))
    case, environment = hidden.case, Masked(hidden)
    expert = FunctionExpert(lambda step, state: int(case.actions[step, environment.state]), ask_again=ask_again)
    horizon = case.mdp.horizon
    where = f"advice, N_E = {episodes}"
    kinds = ("policy", "policy, E[Z]")
    outcome: Outcome = {Promise(kind, where, delta): None for kind in kinds for delta in DELTAS}
    settings = Settings(
        strategy="advice",
        irl="feasible-point",
        epsilon=SHARE * horizon,
        delta=min(DELTAS),
        episodes_per_iteration=episodes,
        max_samples=turns * episodes * horizon,
        seed=seed,
    )
    for turn in learn(environment, expert, settings):
        promised = {delta: certified_value(turn.belief, "policy", delta) for delta in DELTAS}
        if min(promised.values()) >= horizon:
            continue
        known = turn.belief.known_actions
        assert known is not None
        agreed = np.where(known[:, hidden.observed] == case.actions, case.actions, -1)
        found = worst_regret(case, turn.policy[:, hidden.observed]), horizon * lost_share(case, agreed)
        for kind, lost in zip(kinds, found, strict=True):
            for delta, value in promised.items():
                looked(outcome, Promise(kind, where, delta), lost, value, horizon)
    return outcome


# Environments of Gymnasium, measured by playing.


def balance(observation: FloatArray) -> int:
    """CartPole: push to where the pole falls; stands for 500 steps."""
    place, speed, angle, turning = observation
    return int(angle + 0.25 * turning + 0.05 * place + 0.1 * speed > 0)


def swing(observation: FloatArray) -> int:
    """MountainCar: push the way it rolls."""
    return 2 if observation[1] >= 0 else 0


def pump(observation: FloatArray) -> int:
    """Acrobot: turn the joint the way it turns."""
    return 0 if observation[5] < 0 else 2


class KeyRoom(gymnasium.Env[Any, Any]):
    """A corridor with a door at one end and a chest at the other; now and then the key lies at the start.

    With it the expert goes to the door, without it to the chest. The learner sees the place, and the key never.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it
    observation_space, action_space = gymnasium.spaces.Discrete(7), gymnasium.spaces.Discrete(2)
    max_return = 1.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.key = 3, bool(self.np_random.random() < 0.25)
        return self.place, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.place += 1 if action else -1
        over = self.place in (0, 6)
        return self.place, float(over and (self.place == 6) == self.key), over, False, {}

    def expert(self, observation: int) -> int:
        return int(self.key)


class FoggyGrid(gymnasium.Env[Any, Any]):
    """A 5×5 grid with a goal in a corner and a pit below its middle; the learner sees the row and whether the column is
    even. The expert knows where it is: first across, then down."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it
    observation_space, action_space = gymnasium.spaces.Discrete(10), gymnasium.spaces.Discrete(4)
    max_return = 1.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.row, self.column = 0, 4 if self.np_random.random() < 0.75 else 2
        return self._seen(), {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        down, across = ((1, 0), (-1, 0), (0, 1), (0, -1))[action]
        self.row, self.column = min(max(self.row + down, 0), 4), min(max(self.column + across, 0), 4)
        won, lost = (self.row, self.column) == (4, 4), (self.row, self.column) == (1, 2)
        return self._seen(), float(won), won or lost, False, {}

    def _seen(self) -> int:
        return 2 * self.row + self.column % 2

    def expert(self, observation: int) -> int:
        return 2 if self.column < 4 else 0


@dataclass(frozen=True, eq=False)
class Observed:
    """An environment, how it is cut, and its expert; returns of episodes of `horizon` steps differ by `possible`."""

    make: Callable[[], gymnasium.Env[Any, Any]]
    horizon: int
    possible: float
    budget: int = 3000
    fresh: int = 200
    expert: Callable[[Any], int] | None = None
    discretise: Callable[[Any], Any] | None = None


def _cut(
    name: str, horizon: int, expert: Callable[[Any], int], cuts: Callable[[Any], Any], budget: int = 3000
) -> Observed:
    def make() -> gymnasium.Env[Any, Any]:
        return gymnasium.make(name, max_episode_steps=horizon, disable_env_checker=True)

    return Observed(make, horizon, float(horizon), budget, expert=expert, discretise=cuts)


def _bins(name: str, horizon: int, expert: Callable[[Any], int], text: str, budget: int = 3000) -> Observed:
    space = gymnasium.make(name).observation_space
    return _cut(name, horizon, expert, Bins.of(text, space), budget)


OBSERVED: dict[str, Callable[[], Observed]] = {
    "CartPole, 1×1×2×1": lambda: _bins("CartPole-v1", 100, balance, "-2.4:2.4:1,-3:3:1,-0.21:0.21:2,-3:3:1"),
    "CartPole, 3×3×6×6": lambda: _bins("CartPole-v1", 100, balance, "-2.4:2.4:3,-3:3:3,-0.21:0.21:6,-3:3:6", 6000),
    "CartPole, 1×3×80×80": lambda: _bins("CartPole-v1", 100, balance, "-2.4:2.4:1,-3:3:3,-0.21:0.21:80,-3:3:80"),
    "CartPole, along its rule": lambda: _cut("CartPole-v1", 100, balance, balance, 5000),
    "MountainCar, 3×3": lambda: _bins("MountainCar-v0", 200, swing, "3", 5000),
    "MountainCar, 9×9": lambda: _bins("MountainCar-v0", 200, swing, "9", 8000),
    "MountainCar, 10×10": lambda: _bins("MountainCar-v0", 200, swing, "10", 20_000),
    "Acrobot, 1×1×1×1×3×3": lambda: _bins("Acrobot-v1", 200, pump, "1,1,1,1,3,3", 5000),
    "Acrobot, 2×2×2×2×5×5": lambda: _bins("Acrobot-v1", 200, pump, "2,2,2,2,5,5", 5000),
    "Acrobot, 1×1×1×1×1×20": lambda: _bins("Acrobot-v1", 200, pump, "1,1,1,1,1,20", 20_000),
    "hidden key": lambda: Observed(KeyRoom, 6, 1.0, 1000, 2000),
    "foggy grid": lambda: Observed(FoggyGrid, 12, 1.0, 1000, 2000),
}


DEAR = frozenset(name for name in OBSERVED if name.startswith("Acrobot") or name == "MountainCar, 10×10")
"""Those of which a run takes long."""


@dataclass(frozen=True)
class Price:
    """What a run came to: whether it certified and after how much, and what its policy really loses.

    `loss` is measured by the environment's own rewards and lies within `error` of the truth but for six standard
    errors; both are None if nothing was certified.
    """

    certified: bool
    samples: int
    answers: int
    asked_again: int
    value: float
    loss: float | None = None
    error: float | None = None

    @property
    def broken(self) -> bool:
        return self.loss is not None and self.error is not None and self.loss - self.error > self.value


class UnawareIndex(StateIndex):
    """Takes its bins for all there is to see."""

    binned = False


class Unaware(GymEnvironment):
    """The same, as an environment."""

    binned = False

    def __init__(
        self, env: gymnasium.Env[Any, Any], *, horizon: int, discretise: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__(env, horizon=horizon, discretise=discretise)
        self.states = UnawareIndex(env.observation_space, discretise)


def observed_run(
    name: str, seed: int, *, ask_again: float | None = None, budget: int = 5000, fresh: int = 200
) -> Price:
    """One run; if it certifies, its policy and the expert are played in the same fresh episodes."""
    case = OBSERVED[name]()
    env = case.make()
    expert = case.expert or env.expert  # type: ignore[attr-defined]
    kind = GymEnvironment if ask_again != 0 else Unaware
    environment = kind(env, horizon=case.horizon, discretise=case.discretise)
    settings = Settings(
        strategy="advice",
        irl="feasible-point",
        max_return=case.possible,
        max_samples=case.budget,
        ask_again=ask_again,
        infer_after_growth=10.0,
        seed=seed,
    )
    for turn in learn(environment, ObservationExpert(expert, environment), settings):
        last = turn  # and none before it is kept
    value = last.belief.certificates["policy"].value(last.belief)
    counts = last.counts
    price = Price(last.stopped == "certificate", counts.samples, counts.questions, int(counts.repeats.sum()), value)
    if not price.certified:
        return price
    lost = np.array([_lost(env, environment, expert, last, int(episode)) for episode in range(case.fresh)])
    spread = 6 * float(lost.std()) / np.sqrt(case.fresh)
    return replace(price, loss=float(lost.mean()), error=spread)


def _lost(
    env: gymnasium.Env[Any, Any], environment: GymEnvironment, expert: Callable[[Any], int], last: Turn, episode: int
) -> float:
    """What the policy loses against the expert in one episode that begins alike for both."""

    def act(step: int, observation: Any, *, as_expert: bool) -> Any:
        if as_expert:
            return expert(observation)
        state = environment.states.find(observation)
        return environment.action(0 if state is None else int(last.policy[step, state]))

    returns = []
    for as_expert in (True, False):
        observation, _ = env.reset(seed=10**6 + episode)
        paid = 0.0
        for step in range(environment.horizon):
            observation, reward, terminated, _, _ = env.step(act(step, observation, as_expert=as_expert))
            paid += float(reward)
            if terminated:
                break
        returns.append(paid)
    return returns[0] - returns[1]
