"""What other libraries make of the same expert, in an environment in which they are installed.

    python -m studies.peers METHOD TASK SEED

Prints one line of JSON: what the policy is paid at home and where the world is changed, and what it took. `bc` copies,
`dagger` asks at every step, `airl` finds a reward, with which PPO is trained anew in the changed world, all three as
imitation has them; `gladius` is econirl's neural estimator.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from studies.worlds import TASKS

ANSWERS, EPISODES, STEPS, COPIES = 600, 20, 50_000, 8
"""The answers of those that ask for so many, the episodes that a return is the mean of, the steps of training in each
world, and how many environments are stepped at once for it."""

EPOCHS: dict[str, Any] = {"n_epochs": 50, "progress_bar": False, "log_interval": 10**9}
"""How a policy is fitted to answers; DAgger's own four epochs a round are too few for so few answers."""

Act = Callable[[Any], Any]
"""A rule: an observation in, an action out."""

BatchAct = Callable[[Any], Any]
"""A policy: observations `[n, d]` in, `n` actions out."""


def mean_return(make: Callable[[], Any], act: BatchAct) -> float:
    """What a policy is paid, over episodes from the seeds 0, 1, …, which are played side by side."""
    envs = [make() for _ in range(EPISODES)]
    seen = {seed: env.reset(seed=seed)[0] for seed, env in enumerate(envs)}
    total = 0.0
    while seen:
        for seed, action in zip(list(seen), act(np.array(list(seen.values()))), strict=True):
            seen[seed], paid, terminated, truncated, _ = envs[seed].step(action)
            total += float(paid)
            if terminated or truncated:
                del seen[seed]
    return total / EPISODES


def one_by_one(act: Act) -> BatchAct:
    """A policy that acts as a rule says."""
    return lambda seen: [act(one) for one in seen]


def demonstrations(env: Any, rule: Act, seed: int, steps: int) -> list[tuple[Any, Any, bool]]:
    """The expert's observations `[n + 1, d]`, actions `[n]` and whether the last is an end, until so many steps."""
    found: list[tuple[Any, Any, bool]] = []
    taken = 0
    while taken < steps:
        observation, _ = env.reset(seed=1_000_000 * seed + len(found))
        seen, done, over, terminated = [observation], [], False, False
        while not over and taken < steps:
            done.append(rule(observation))
            observation, _, terminated, truncated, _ = env.step(done[-1])
            seen.append(observation)
            over, taken = terminated or truncated, taken + 1
        found.append((np.array(seen), np.array(done), terminated))
    return found


def transitions(episodes: list[tuple[Any, Any, bool]]) -> Any:
    """As imitation takes them."""
    from imitation.data.rollout import flatten_trajectories
    from imitation.data.types import Trajectory

    return flatten_trajectories([Trajectory(seen, done, None, end) for seen, done, end in episodes])


def vectorised(make: Callable[[], Any], copies: int = 1) -> Any:
    """An environment, in so many copies, as imitation takes it, with the observations of the last step kept."""
    from imitation.data.wrappers import RolloutInfoWrapper
    from stable_baselines3.common.vec_env import DummyVecEnv

    return DummyVecEnv([lambda: RolloutInfoWrapper(make())] * copies)


def bc(home: Callable[[], Any], away: Callable[[], Any], rule: Act, seed: int) -> dict[str, Any]:
    """Behaviour cloning."""
    from imitation.algorithms.bc import BC

    env = home()
    episodes = demonstrations(env, rule, seed, ANSWERS)
    learner = BC(
        observation_space=env.observation_space,
        action_space=env.action_space,
        demonstrations=transitions(episodes),
        rng=np.random.default_rng(seed),
    )
    learner.train(**EPOCHS)
    return {"act": predicting(learner.policy), "answers": ANSWERS, "steps": ANSWERS}


def dagger(home: Callable[[], Any], away: Callable[[], Any], rule: Act, seed: int) -> dict[str, Any]:
    """DAgger: every step is answered."""
    import tempfile

    from imitation.algorithms.bc import BC
    from imitation.algorithms.dagger import SimpleDAggerTrainer
    from imitation.policies.base import NonTrainablePolicy

    asked = 0

    class Rule(NonTrainablePolicy):  # type: ignore[misc]
        def _choose_action(self, observation: Any) -> Any:
            nonlocal asked
            asked += 1
            return np.array(rule(observation))

    rng, env = np.random.default_rng(seed), vectorised(home)
    cloner = BC(observation_space=env.observation_space, action_space=env.action_space, rng=rng)
    with tempfile.TemporaryDirectory() as folder:
        learner = SimpleDAggerTrainer(
            venv=env,
            scratch_dir=folder,
            expert_policy=Rule(env.observation_space, env.action_space),
            bc_trainer=cloner,
            rng=rng,
        )
        learner.train(total_timesteps=ANSWERS, bc_train_kwargs=EPOCHS)
    return {"act": predicting(learner.policy), "answers": asked, "steps": asked}


def airl(home: Callable[[], Any], away: Callable[[], Any], rule: Act, seed: int) -> dict[str, Any]:
    """Adversarial IRL with PPO, and PPO again for its reward where the world is changed.

    Most of its time is one call of the networks a step, so eight environments are stepped at once.
    """
    from imitation.algorithms.adversarial.airl import AIRL
    from imitation.rewards.reward_nets import BasicShapedRewardNet
    from imitation.rewards.reward_wrapper import RewardVecEnvWrapper
    from imitation.util.networks import RunningNorm
    from stable_baselines3 import PPO

    env = vectorised(home, COPIES)
    options = {"batch_size": 64, "ent_coef": 0.0, "learning_rate": 5e-4, "gamma": 0.99, "n_epochs": 5}
    options["n_steps"] = 2048 // COPIES
    student = PPO("MlpPolicy", env, seed=seed, device="cpu", **options)
    reward = BasicShapedRewardNet(
        env.observation_space,
        env.action_space,
        normalize_input_layer=RunningNorm,
        use_action=False,
        use_next_state=True,
    )
    learner = AIRL(
        demonstrations=transitions(demonstrations(home(), rule, seed, ANSWERS)),
        demo_batch_size=512,
        gen_replay_buffer_capacity=2048,
        n_disc_updates_per_round=8,
        venv=env,
        gen_algo=student,
        reward_net=reward,
        allow_variable_horizon=True,
    )
    learner.train(STEPS)
    elsewhere = RewardVecEnvWrapper(vectorised(away, COPIES), reward.base.predict_processed)
    again = PPO("MlpPolicy", elsewhere, seed=seed, device="cpu", **options).learn(STEPS)
    return {
        "act": predicting(student.policy),
        "away": predicting(again.policy),
        "answers": ANSWERS,
        "steps": ANSWERS + STEPS,
        "steps away": STEPS,
    }


def gladius(home: Callable[[], Any], away: Callable[[], Any], rule: Act, seed: int) -> dict[str, Any]:
    """econirl's neural estimator: every observation is a state of its own, told apart by its numbers."""
    import jax.numpy as jnp
    import pandas as pd  # type: ignore[import-untyped]
    from econirl.estimators import NeuralGLADIUS

    env = home()
    episodes = demonstrations(env, rule, seed, ANSWERS)
    seen = np.concatenate([observations[:-1] for observations, _, _ in episodes])
    shift, scale = seen.mean(axis=0), seen.std(axis=0) + 1e-6
    table = jnp.asarray((seen - shift) / scale, dtype=jnp.float32)
    data = pd.DataFrame(
        {
            "state": np.arange(len(seen)),
            "action": np.concatenate([actions for _, actions, _ in episodes]),
            "episode": np.repeat(np.arange(len(episodes)), [len(actions) for _, actions, _ in episodes]),
        }
    )
    assert isinstance(env.action_space, gymnasium.spaces.Discrete)
    model = NeuralGLADIUS(
        n_actions=int(env.action_space.n),
        discount=0.99,
        state_encoder=lambda states: table[jnp.asarray(states, dtype=jnp.int32).reshape(-1)],
        state_dim=seen.shape[1],
        seed=seed,
    )
    model.fit(data, state="state", action="action", id="episode")

    def act(seen: Any) -> Any:
        return model.predict_q_from_features((seen - shift) / scale).argmax(axis=1)

    return {"act": act, "answers": ANSWERS, "steps": ANSWERS}


def predicting(policy: Any) -> BatchAct:
    """A policy of Stable-Baselines3 as a function."""
    return lambda seen: policy.predict(seen, deterministic=True)[0]


METHODS = {"bc": bc, "dagger": dagger, "airl": airl, "gladius": gladius}


def main() -> None:
    """One run."""
    warnings.filterwarnings("ignore")
    method, task, seed = sys.argv[1:]
    world, began = TASKS[task], time.process_time()
    assert world.rule is not None
    found = METHODS[method](world.home, world.away, world.rule, int(seed))
    seconds = time.process_time() - began
    act = found.pop("act")
    elsewhere = found.pop("away", act)
    row = {"home": mean_return(world.home, act), "away": mean_return(world.away, elsewhere), "seconds": seconds}
    print(json.dumps(found | row))


if __name__ == "__main__":
    main()
