"""From the history of an interview to a reward: planned behind the scenes, on a copy, while questions go on."""

from __future__ import annotations

import io
import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from aceirl.counts import Estimate, ExpertKind
from aceirl.dynamic_programming import greedy_actions, occupancy
from aceirl.irl import action_values, made_feasible
from aceirl.irl.max_causal_entropy import max_causal_entropy
from aceirl.mdp import FloatArray, IntArray
from aceirl.protocols import EndingEnvironment, Environment, GrowingEnvironment
from aceirl.rewards.feasible import FeasibleRewardSet
from aceirl.web.history import History, Tallies
from aceirl.web.slips import Slips, slips

RMAX = 1.0
PERSON = ExpertKind(deterministic=True, stationary=True)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What is known at one moment of an interview; `version` names the moment, `warm` is where inference starts.

    `initial`, `end` and `possible_states` are what the environment says of itself, as in `Estimate.of`.
    """

    version: tuple[int, int]
    tallies: Tallies
    slips: Slips
    states_met: float
    delta: float
    initial: FloatArray | None
    end: int | None
    possible_states: float | None
    warm: FloatArray | None

    @classmethod
    def of(
        cls, environment: Environment, history: History, version: tuple[int, int], delta: float, warm: FloatArray | None
    ) -> Snapshot:
        """A copy of what is known now; quick, since nobody can answer meanwhile."""
        possible = environment.possible_states or math.inf if isinstance(environment, GrowingEnvironment) else None
        return cls(
            version=version,
            tallies=history.tallies(environment.n_states),
            slips=slips(history.repeats, history.contradictions),
            states_met=sum(history.met.values()) / max(1, history.episodes),
            delta=delta,
            initial=environment.initial,
            end=environment.end if isinstance(environment, EndingEnvironment) else None,
            possible_states=possible,
            warm=warm,
        )

    def estimate(self) -> Estimate:
        """What was seen says of the environment and of the person."""
        return Estimate.of(
            self.tallies.counts(),
            kind=PERSON,
            delta=self.delta,
            initial=self.initial,
            end=self.end,
            possible_states=self.possible_states,
        )


@dataclass(frozen=True, eq=False)
class Learnt:
    """What a snapshot taught: a reward `[H, S, A]` in `[0, 1]`, its greedy `policy [H, S]`, and a picture of both.

    `worth [S]` is what the policy earns in each state, on average over the steps at which it is there. `agrees` is
    whether the policy does what the person said wherever they said something. `gentle_reward` is the reward before it
    was made to agree with every single answer; the answers lose `gentle_loss` under it, and people who err as often as
    this person seems to may well lose `slack`.
    """

    version: tuple[int, int]
    reward: FloatArray
    policy: IntArray
    worth: FloatArray
    agrees: bool
    parameters: FloatArray
    gentle_reward: FloatArray
    gentle_loss: float
    slack: float


def learn(seen: Snapshot) -> Learnt:
    """The reward behind the answers. A function of the snapshot alone, so it may run anywhere."""
    known = seen.estimate()
    gentle = max_causal_entropy(known, RMAX, _fitting(seen.warm, known.mdp.shape))
    recovered = made_feasible(known, gentle, RMAX)
    q = action_values(known, recovered.reward, recovered.unknown_step_reward)
    policy = greedy_actions(q, np.random.default_rng(0))
    given = known.counts.answers.sum(axis=0)
    said = given.any(axis=1)
    reachable = FeasibleRewardSet.of_estimate(known, RMAX, gentle.unknown_step_reward)
    return Learnt(
        version=seen.version,
        reward=recovered.reward,
        policy=policy,
        worth=_worth(known, recovered.reward, policy),
        agrees=bool((policy[:, said] == given[said].argmax(axis=1)).all()),
        parameters=recovered.parameters,
        gentle_reward=gentle.reward,
        gentle_loss=reachable.expert_loss(gentle.reward),
        slack=slack(seen.slips, seen.states_met, known.mdp.horizon),
    )


def prepare() -> None:
    """Learn from next to nothing, so that all compiled parts are ready before somebody waits for them."""
    visits = np.ones((2, 2, 2), dtype=np.int64)
    moves = {(s, a, t): 1 for s in range(2) for a in range(2) for t in range(2)}
    tallies = Tallies(2, visits, moves, {0: 1}, [(0, 0, 1)])
    learn(Snapshot((0, 0), tallies, slips(0, 0), 1.0, 0.1, np.array([1.0, 0.0]), None, None, None))


def slack(erring: Slips, states_met: float, horizon: int) -> float:
    """What slips may cost the answers in an episode: each of the states met is a chance to lose all that is left."""
    return min(1.0, erring.guess * states_met) * horizon * RMAX


def _fitting(warm: FloatArray | None, shape: tuple[int, int, int]) -> FloatArray | None:
    """The last parameters, with zeros for states met since; None if states were forgotten, as after undoing."""
    if warm is None or warm.shape[1] > shape[1]:
        return None
    return np.pad(warm, ((0, 0), (0, shape[1] - warm.shape[1]), (0, 0)))


def _worth(known: Estimate, reward: FloatArray, policy: IntArray) -> FloatArray:
    """`[S]`: the reward of what the policy does, averaged as often as it is there; zero where it never is."""
    there = occupancy(known.mdp, np.eye(known.mdp.n_actions)[policy])
    visits = there.sum(axis=(0, 2))
    earned = (there * reward).sum(axis=(0, 2))
    return np.asarray(np.divide(earned, visits, out=np.zeros_like(visits), where=visits > 1e-9))


def as_files(learnt: Learnt, summary: dict[str, Any]) -> dict[str, bytes]:
    """What an interview leaves behind, by file name: arrays for programs, and a summary for everyone."""
    arrays = io.BytesIO()
    np.savez_compressed(
        arrays,
        reward=learnt.reward,
        policy=learnt.policy,
        worth=learnt.worth,
        gentle_reward=learnt.gentle_reward,
        gentle_loss=learnt.gentle_loss,
        slack=learnt.slack,
    )
    return {"reward.npz": arrays.getvalue(), "result.json": json.dumps(summary, indent=2, ensure_ascii=False).encode()}
