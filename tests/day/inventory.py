import gymnasium as gym

import aceirl


class Inventory(gym.Env):
    observation_space, action_space = gym.spaces.Discrete(11), gym.spaces.Discrete(4)  # stock, boxes to order

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.stock = int(self.np_random.integers(11))
        return self.stock, {}

    def step(self, order):
        demand = int(self.np_random.integers(3))
        sold = min(self.stock + int(order), demand)
        self.stock = min(self.stock + int(order), 10) - min(sold, 10)
        return self.stock, 2.0 * sold - 0.1 * self.stock - 0.5 * (order > 0), False, False, {}


result = aceirl.ActiveIRL(max_samples=5000).fit(Inventory(), lambda stock: 3 if stock < 3 else 0, horizon=15)
result.show()
print(result.transfer(Inventory(), start=9).in_words())
agent_env = result.wrapper(Inventory())
