"""An environment as all but the learner ask for it: what things are called, how it is drawn, what it pays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aceirl.envs import Layout, Problem
from aceirl.envs.description import OBSERVED
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.models.fields import Fields
from aceirl.models.tabular.mdp import MDP, IntArray
from aceirl.models.tabular.metrics import Truth
from aceirl.protocols import NumberedEnvironment

if TYPE_CHECKING:
    import gymnasium

    from aceirl.envs.gymnasium import GymAdapter
    from aceirl.envs.truth import ExactModel

Met = tuple[str, ...]
"""The states that a run met, as its environment names them, in their order."""


@dataclass(frozen=True, eq=False)
class World:
    """An environment to act in, and what is known about it without acting; of an object of one's own, nothing.

    `rmax` is how far the rewards of two steps lie apart, `max_return` how far the returns of two episodes do, where
    that is known. `stationary_dynamics` is false if the dynamics are known to depend on the step. `layout` is how the
    environment is drawn, where that is known without it. By the `discount` its returns are measured.
    """

    environment: NumberedEnvironment
    rmax: float = 1.0
    max_return: float | None = None
    stationary_dynamics: bool = True
    layout: Layout | None = None
    discount: float = 1.0

    @property
    def action_names(self) -> tuple[str, ...]:
        """What people call the actions; nothing if nobody can say."""
        return () if self.layout is None else self.layout.action_names

    def state_names(self, met: Met) -> tuple[str, ...]:
        """What people call the states; nothing if nobody can say."""
        return () if self.layout is None else tuple(f"state {name}" for name in self.layout.state_names)

    def drawing(self, met: Met) -> Layout | None:
        """Where the states lie on paper; None if nobody can say."""
        return self.layout

    def table(self) -> tuple[MDP, tuple[str, ...]] | None:
        """The exact dynamics, where they can be looked up, and the names of their states unless these are numbers."""
        return None

    def regret(self) -> Callable[[IntArray], float]:
        """What a policy `[H, S]` loses by what the environment pays itself; it must have an exact model."""
        raise InputError("the true reward is not known: only a Gymnasium environment has one of its own")

    def close(self) -> None:
        """Free what the environment holds."""


@dataclass(frozen=True, eq=False)
class OwnWorld(World):
    """One of our own problems, of which all is known."""

    problem: Problem = field(kw_only=True)

    @classmethod
    def of(cls, problem: Problem) -> OwnWorld:
        """The problem, to be played."""
        mdp, layout = problem.mdp, problem.layout
        played = Simulator(mdp, fields=Fields(layout.features, {}, speaks=False))
        return cls(played, 1.0, None, mdp.stationary, layout, mdp.discount, problem=problem)

    def table(self) -> tuple[MDP, tuple[str, ...]]:
        """The problem's own dynamics."""
        return self.problem.mdp, ()

    def regret(self) -> Callable[[IntArray], float]:
        """By the true reward."""
        return Truth(self.problem.mdp, self.problem.reward).regret


@dataclass(frozen=True, eq=False)
class GymWorld(World):
    """A Gymnasium environment `env`, or a vector of them, with what its description and its rules say.

    Without `env` there is only the adapter, and nothing is known.
    """

    environment: GymAdapter
    env: gymnasium.Env[Any, Any] | None = None

    @classmethod
    def of(cls, env: Any, environment: GymAdapter, discount: float = 1.0) -> GymWorld:
        """The environment with what it says it pays."""
        from aceirl.envs.pay import reward_range

        rmax, max_return = (None, None) if env is None or is_vector(env) else reward_range(env, discount)
        return cls(environment, rmax or 1.0, max_return, discount=discount, env=env)

    @property
    def _one(self) -> gymnasium.Env[Any, Any] | None:
        """The environment, if it is one that can be asked for its description."""
        return None if self.env is None or is_vector(self.env) else self.env

    @property
    def action_names(self) -> tuple[str, ...]:
        """By the names of its description, its own names, or numbers."""
        from aceirl.envs.described import action_names

        return () if self._one is None else tuple(action_names(self._one, self.environment.actions))

    def state_names(self, met: Met) -> tuple[str, ...]:
        """The states met in the words of its description."""
        from aceirl.envs.described import state_words

        return () if self._one is None else state_words(self._one, self.environment.states.numbered(met))

    def drawing(self, met: Met) -> Layout | None:
        """The states met, over the environment's own rendering."""
        from aceirl.envs.map_layout import layout

        if self._one is None:
            return None
        return layout(self._one, self.environment.states.numbered(met), self.environment.actions)

    def table(self) -> tuple[MDP, tuple[str, ...]] | None:
        """The table `P` of a toy-text environment, unless a wrapper changes it."""
        if self.env is None or not hasattr(self.env.unwrapped, "P") or self.environment.binned:
            return None
        try:
            model = self.model()
        except InputError:
            return None
        return model.mdp, model.states.names

    def model(self) -> ExactModel:
        """The exact model; an error if there is none."""
        from aceirl.envs.truth import exact_model

        if self.env is None:
            raise InputError("for the expert 'optimal' give the Gymnasium environment itself")
        model = exact_model(self.env, self.environment.horizon, self.environment.n_actions)
        return model.discounted(self.discount)

    def regret(self) -> Callable[[IntArray], float]:
        """By the environment's exact model."""
        return self.model().regret(self.environment.states) if self.env is not None else super().regret()

    def close(self) -> None:
        """Close the environment."""
        if self.env is not None:
            self.env.close()


@dataclass(frozen=True, eq=False)
class OfflineWorld(World):
    """An environment that is not at hand: what was written down of it, with its words for states and actions."""

    states: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()

    @property
    def action_names(self) -> tuple[str, ...]:
        """As they were written down."""
        return self.actions

    def state_names(self, met: Met) -> tuple[str, ...]:
        """As they were written down; of states that were met since then, the observations as they are."""
        return self.states + tuple(f"{OBSERVED}{name}" for name in met[len(self.states) :])


def is_vector(env: Any) -> bool:
    """Whether it is a Gymnasium vector environment; asking a wrapper for an attribute is not a way to find out."""
    from gymnasium.vector import VectorEnv

    return isinstance(env, VectorEnv)
