"""An Optuna user: settings are suggested, a number is returned, bad trials are pruned from the callback."""

import gymnasium as gym
import optuna

from aceirl import ActiveIRL

env = gym.make("FrozenLake-v1", is_slippery=False)


def objective(trial):
    def report(record):
        trial.report(record.samples, step=record.iteration)
        if trial.should_prune():
            raise optuna.TrialPruned()

    irl = ActiveIRL(
        strategy=trial.suggest_categorical("strategy", ["random", "ace"]), max_samples=500, seed=trial.number
    )
    return irl.fit(env, lambda obs: 1, callback=report).samples


study = optuna.create_study(direction="minimize")
study.optimize(objective, n_trials=3)
print(study.best_params)
