"""The arena: methods of active inverse reinforcement learning side by side, on the same tasks, by the same yardstick.

`method` enters one of your own; docs/your-method.md shows how.
"""

from aceirl.arena.methods import METHODS, Method, method

__all__ = ["METHODS", "Method", "method"]
