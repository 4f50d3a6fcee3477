"""The same things under their names in this version of the package and in the one before, for `--against`.

The version before had the transitions as four fields of the process, the sweeps in `kernels`, and IRL algorithms as
functions whose results were made feasible afterwards.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from aceirl.models.tabular.mdp import MDP, FloatArray

_mdp: Any = import_module("aceirl.models.tabular.mdp")
HAS_OPERATOR = hasattr(_mdp, "Transitions")

_sweeps: Any = import_module(
    "aceirl.models.tabular.dynamic_programming" if HAS_OPERATOR else "aceirl.models.tabular.kernels"
)
optimal_values = _sweeps.optimal_values
soft_values = _sweeps.soft_values
evaluate = _sweeps.evaluate
occupancy = _sweeps.occupancy
greedy_actions = _sweeps.greedy_actions


def sparse_mdp(
    horizon: int, n_states: int, n_actions: int, indptr: Any, successors: Any, probabilities: Any, initial: FloatArray
) -> MDP:
    """A stationary process from sparse rows."""
    if not HAS_OPERATOR:
        before: Any = MDP
        mdp: MDP = before(horizon, n_states, n_actions, indptr, successors, probabilities, initial)
        return mdp
    return MDP(horizon, _mdp.Transitions(n_states, n_actions, indptr, successors, probabilities), initial)


def dense(mdp: MDP) -> FloatArray:
    """`[S, A, S]` or `[H, S, A, S]`."""
    transitions: Any = mdp.transitions if HAS_OPERATOR else mdp
    found: FloatArray = transitions.dense()
    return found


def max_causal_entropy(estimate: Any, rmax: float, warm: Any) -> Any:
    """The reward of maximum causal entropy that reproduces the answers, started from the parameters of the last."""
    if HAS_OPERATOR:
        return import_module("aceirl.irl").MaxCausalEntropy()(estimate, rmax, warm or {})
    found = import_module("aceirl.irl.max_causal_entropy").max_causal_entropy(estimate, rmax, warm)
    return import_module("aceirl.irl").made_feasible(estimate, found, rmax)
