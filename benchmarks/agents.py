"""An agent of Stable-Baselines3 as the expert, and another trained on nothing but the recovered reward, elsewhere.

    make test-sb3

An expert is trained on the environment's own reward; aceirl explores, asks it and recovers a reward. Then two agents
are trained alike where that reward is to be used, FrozenLake on another map: one on the recovered reward, one on the
environment's own. All returns are of the environment's own reward. Exit status 1 if the first agent earns less than
nine tenths of what the second does.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import _frame as frame
import gymnasium
import numpy as np

from aceirl.envs.gymnasium import GymEnvironment
from aceirl.experts import PredictExpert
from aceirl.learner.loop import learn
from aceirl.learner.outputs import GreedyPolicy, ObservedReward, RecoveredReward
from aceirl.learner.settings import Settings

Predict = Callable[[Any, Any], tuple[Any, Any]]
Make = Callable[[], gymnasium.Env[Any, Any]]


@dataclass(frozen=True)
class Case:
    """An environment, how long its episodes are, how long agents train and the learner explores, and what is changed
    in the environment in which the reward is to be used."""

    environment: str
    horizon: int
    training_steps: int
    samples: int
    changed: dict[str, Any] = field(default_factory=dict)

    def here(self) -> gymnasium.Env[Any, Any]:
        """A new environment, as the expert knows it."""
        return gymnasium.make(self.environment, max_episode_steps=self.horizon)

    def there(self) -> gymnasium.Env[Any, Any]:
        """A new environment, as it is where the reward is to be used."""
        return gymnasium.make(self.environment, max_episode_steps=self.horizon, **self.changed)


# With the flag where it is on Gymnasium's own map, and the holes elsewhere: copying the expert's answers earns 0.25
# of at most 0.99.
OTHER_LAKE = ["SHFF", "FFFF", "FFHF", "HFFG"]

CASES = {
    "FrozenLake, another map": Case("FrozenLake-v1", 100, 30_000, 5_000, {"desc": OTHER_LAKE}),
    "CliffWalking": Case("CliffWalking-v1", 100, 30_000, 1_000),
}


def trained(env: gymnasium.Env[Any, Any], steps: int, seed: int) -> Any:
    """A DQN agent; without a hidden layer its network is a table of action values, all that so few states need.

    Where steps slip, a table has to average: the learning rate falls to nothing.
    """
    from stable_baselines3 import DQN

    agent = DQN(
        "MlpPolicy",
        env,
        policy_kwargs={"net_arch": []},
        learning_rate=lambda left: 0.05 * left,
        batch_size=128,
        gamma=0.99,
        buffer_size=50_000,
        learning_starts=500,
        target_update_interval=250,
        exploration_fraction=0.7,
        exploration_final_eps=0.1,
        seed=seed,
        device="cpu",
    )
    return agent.learn(steps)


def decided(agent: Any) -> Predict:
    """What an agent does when it does not experiment."""
    return lambda observation, memory: agent.predict(observation, memory, deterministic=True)


def mean_return(make: Make, predict: Predict, episodes: int = 500) -> float:
    """What a policy earns of the environment's own reward, on average."""
    env, returns = make(), []
    for episode in range(episodes):
        observation, _ = env.reset(seed=episode)
        memory, total, over = None, 0.0, False
        while not over:
            action, memory = predict(observation, memory)
            observation, reward, terminated, truncated, _ = env.step(int(action))
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return float(np.mean(returns))


def recovered(case: Case, agent: Any) -> tuple[ObservedReward, GreedyPolicy, int, int]:
    """What is learned from an agent by asking it, with the steps and answers it took."""
    environment = GymEnvironment(case.here())
    settings = Settings(certify=None, episodes_per_iteration=10, max_samples=case.samples, seed=0)
    for turn in learn(environment, PredictExpert(agent, environment), settings):
        last = turn
    reward, policy = ObservedReward.of(last, environment), GreedyPolicy.of(last, environment)
    return reward, policy, last.record.samples, last.record.answers


def measure(options: argparse.Namespace, report: frame.Report) -> int:
    """All cases; 1 if one of them falls short."""
    table = report.table(
        "agents",
        frame.Column("environment"),
        frame.number("expert's return", "{:.3f}"),
        frame.number("steps"),
        frame.number("answers"),
        frame.Column("space"),
        frame.number("there: copying the answers", "{:.3f}"),
        frame.number("trained on the reward", "{:.3f}"),
        frame.number("on the environment's own", "{:.3f}"),
        frame.number("share", "{:.0%}"),
        frame.number("seconds", "{:.0f}"),
    )
    short = False
    for name, case in CASES.items():
        began = time.perf_counter()
        expert = trained(case.here(), case.training_steps, seed=options.seed)
        best = mean_return(case.here, decided(expert))
        learned, policy, steps, answers = recovered(case, expert)
        copied = mean_return(case.there, policy.predict)
        reached, own = (
            mean_return(case.there, decided(trained(env, case.training_steps, seed=options.seed + 1)))
            for env in (RecoveredReward(case.there(), learned), case.there())
        )
        share = reached / own if own > 0 else own / reached
        short |= share < 0.9
        space = "none" if learned.explanation is None else learned.explanation.space
        table.add(name, best, steps, answers, space, copied, reached, own, share, time.perf_counter() - began)
    return int(short)


if __name__ == "__main__":
    frame.start(
        measure, __doc__, frame.argument("--seed", type=int, default=0, help="the expert's; the others have the next")
    )
