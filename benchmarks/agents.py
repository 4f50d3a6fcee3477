"""An agent of Stable-Baselines3 as the expert, and a fresh one trained on nothing but the recovered reward.

    make test-sb3

An expert is trained on the environment's own reward; aceirl explores, asks it and recovers a reward; a pupil is trained
on that reward alone. All three returns are measured on the environment's own reward. Exit status 1 if a pupil reaches
less than nine tenths of its expert's return.
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
from aceirl.loop import learn
from aceirl.outputs import GreedyPolicy, GymResult, RecoveredReward
from aceirl.settings import Settings

Predict = Callable[[Any, Any], tuple[Any, Any]]


@dataclass(frozen=True)
class Case:
    """An environment, how long its episodes are, and how long agents train and the learner explores."""

    environment: str
    horizon: int
    training_steps: int
    samples: int
    parameters: dict[str, Any] = field(default_factory=dict)

    def make(self) -> gymnasium.Env[Any, Any]:
        """A new environment."""
        return gymnasium.make(self.environment, max_episode_steps=self.horizon, **self.parameters)


CASES = {
    "FrozenLake": Case("FrozenLake-v1", 100, 60_000, 2_000),
    "CliffWalking": Case("CliffWalking-v1", 100, 40_000, 1_000),
}


def trained(env: gymnasium.Env[Any, Any], steps: int, seed: int) -> Any:
    """A DQN agent; without a hidden layer its network is a table of action values, all that so few states need."""
    from stable_baselines3 import DQN

    agent = DQN(
        "MlpPolicy",
        env,
        policy_kwargs={"net_arch": []},
        learning_rate=0.02,
        gamma=0.99,
        buffer_size=20_000,
        learning_starts=500,
        target_update_interval=250,
        exploration_fraction=0.7,
        exploration_final_eps=0.05,
        seed=seed,
        device="cpu",
    )
    return agent.learn(steps)


def decided(agent: Any) -> Predict:
    """What an agent does when it does not experiment."""
    return lambda observation, memory: agent.predict(observation, memory, deterministic=True)


def mean_return(case: Case, predict: Predict, episodes: int = 500) -> float:
    """What a policy earns of the environment's own reward, on average."""
    env, returns = case.make(), []
    for episode in range(episodes):
        observation, _ = env.reset(seed=episode)
        memory, total, over = None, 0.0, False
        while not over:
            action, memory = predict(observation, memory)
            observation, reward, terminated, truncated, _ = env.step(int(action))
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return float(np.mean(returns))


def recovered(case: Case, agent: Any) -> tuple[GymResult, int, int]:
    """What is learned from an agent by following and asking it, with the steps and answers it took.

    The reward is the plain feasible point: a pupil that does not see the step needs one that does not depend on it.
    """
    environment = GymEnvironment(case.make())
    expert = PredictExpert(agent, environment)
    settings = Settings(
        strategy="guided", irl="feasible-point", episodes_per_iteration=10, max_samples=case.samples, seed=0
    )
    for turn in learn(environment, expert, settings):
        last = turn
    learned = GymResult.of(last, environment)
    return learned, last.record.samples, last.record.answers


def measure(options: argparse.Namespace, report: frame.Report) -> int:
    """All cases; 1 if one of them falls short."""
    table = report.table(
        "agents",
        frame.Column("environment"),
        frame.number("expert's return", "{:.3f}"),
        frame.number("steps"),
        frame.number("answers"),
        frame.number("greedy policy's", "{:.3f}"),
        frame.number("pupil's", "{:.3f}"),
        frame.number("share", "{:.0%}"),
        frame.number("seconds", "{:.0f}"),
    )
    short = False
    for name, case in CASES.items():
        began = time.perf_counter()
        expert = trained(case.make(), case.training_steps, seed=options.seed)
        best = mean_return(case, decided(expert))
        learned, steps, answers = recovered(case, expert)
        greedy = mean_return(case, GreedyPolicy(learned).predict)
        wrapped = RecoveredReward(case.make(), learned, elsewhere=float(learned.reward.min()))
        pupil = trained(wrapped, case.training_steps, seed=options.seed + 1)
        reached = mean_return(case, decided(pupil))
        share = reached / best if best > 0 else best / reached
        short |= share < 0.9
        table.add(name, best, steps, answers, greedy, reached, share, time.perf_counter() - began)
    return int(short)


if __name__ == "__main__":
    frame.start(
        measure, __doc__, frame.argument("--seed", type=int, default=0, help="the expert's; the pupil has the next")
    )
