"""An SB3 user: a trained model is the expert, another is trained on the learned reward, both are evaluated."""

import gymnasium as gym
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.evaluation import evaluate_policy

from aceirl import ActiveIRL

env = gym.make("FrozenLake-v1", is_slippery=False)
model = DQN("MlpPolicy", env, seed=0).learn(total_timesteps=500)
result = ActiveIRL(max_samples=2000, seed=0).fit(env, model)
student = PPO("MlpPolicy", result.wrapper(env), n_steps=64, seed=0).learn(total_timesteps=128)
mean_reward, std_reward = evaluate_policy(result, env, n_eval_episodes=2)
