import gymnasium as gym

import aceirl


class Queue(gym.Env):
    observation_space, action_space = gym.spaces.MultiDiscrete([6, 6]), gym.spaces.Discrete(2)  # lengths; which server

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.lengths = [0, 0]
        return tuple(self.lengths), {}

    def step(self, server):
        self.lengths[server] = min(5, self.lengths[server] + 1)
        for k, speed in enumerate((0.7, 0.4)):
            self.lengths[k] -= int(self.lengths[k] > 0 and self.np_random.random() < speed)
        return tuple(self.lengths), -float(sum(self.lengths)), False, False, {}


result = aceirl.ActiveIRL(max_samples=5000).fit(Queue(), lambda seen: int(seen[0] > seen[1] + 1), horizon=15)
result.show()
print(result.transfer(Queue(), start=(5, 0)).in_words())
agent_env = result.wrapper(Queue())
