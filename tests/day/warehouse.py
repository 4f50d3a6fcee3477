import gymnasium as gym

import aceirl


class Warehouse(gym.Env):
    observation_space, action_space = gym.spaces.MultiDiscrete([4, 4, 2]), gym.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.y, self.box = int(self.np_random.integers(4)), 0, 0  # any door
        return (self.x, self.y, self.box), {}

    def step(self, action):
        dx, dy = [(1, 0), (0, 1), (-1, 0), (0, -1)][action]
        self.x, self.y = min(max(self.x + dx, 0), 3), min(max(self.y + dy, 0), 3)
        self.box = int(self.box or (self.x, self.y) == (3, 3))
        done = bool(self.box) and (self.x, self.y) == (0, 3)
        return (self.x, self.y, self.box), float(done), done, False, {}


result = aceirl.ActiveIRL(max_samples=5000).fit(Warehouse(), lambda at: 2 if at[2] else int(at[0] == 3), horizon=12)
result.show()
print(result.transfer(Warehouse(), start=(2, 2, 0)).in_words())
agent_env = result.wrapper(Warehouse())
