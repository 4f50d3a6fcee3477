"""A model that is not a table runs through the same engine: nothing but the model, and its environment, is new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from aceirl import FunctionExpert
from aceirl.certificates import KINDS
from aceirl.data.arrays import FloatArray
from aceirl.data.dataset import Dataset, Totals
from aceirl.errors import InputError
from aceirl.learner.engine import Engine
from aceirl.learner.loop import answers_of, learn
from aceirl.learner.settings import Settings
from aceirl.learner.turns import Turn
from aceirl.protocols import ActionBelief, Policy, Question, RewardFunction

HORIZON = 8


def away(step: int, seen: Any) -> int:
    """Right of a slanted line to the right, and else to the left."""
    return int(seen[0] + 0.3 * seen[1] > 0.6)


EXPERT = FunctionExpert(away)


class Beach:
    """Two coordinates, drawn anew at the start of an episode; a step goes left or right, and drifts into the sea."""

    n_actions, horizon = 2, HORIZON

    def reset(self, rng: np.random.Generator) -> FloatArray:
        self.rng, self.place = rng, rng.random(2) * [1.0, 0.3]
        return self.place

    def step(self, action: int) -> tuple[FloatArray, bool]:
        moved = self.place + np.array((0.15 * (2 * action - 1), 0.0)) + self.rng.normal(0, 0.03, 2)
        self.place = np.clip(moved, 0.0, 1.0)
        return self.place, bool(self.place[1] == 0.0)


@dataclass(frozen=True, eq=False)
class Neighbours:
    """What the expert does near an answer is that answer: of several that are near, the first, so it never changes."""

    totals: Totals = field(default_factory=Totals)
    places: tuple[tuple[float, ...], ...] = ()
    answers: tuple[int, ...] = ()
    near: float = 0.05
    n_actions: int = 2

    def encode(self, observation: Any, terminal: bool = False) -> tuple[float, ...]:
        return tuple(float(value) for value in observation)

    def update(self, data: Dataset) -> Neighbours:
        found = replace(self, totals=self.totals + data.totals)
        for step, seen, action in data.all_answers:
            if not found.expert([seen], step).known[0]:
                found = replace(found, places=(*found.places, seen), answers=(*found.answers, action))
        return found

    def _distances(self, observations: Sequence[Any]) -> FloatArray:
        places = np.array([*self.places, (np.inf, np.inf)])
        return np.asarray(np.linalg.norm(np.array(observations)[:, None] - places, axis=2))

    def expert(self, observations: Sequence[Any], step: int) -> ActionBelief:
        near = self._distances(observations) <= self.near
        first = np.array([*self.answers, 0])[near.argmax(axis=1)]
        known = np.asarray(near.any(axis=1))
        return ActionBelief(np.where(known[:, None], np.eye(self.n_actions)[first], 1 / self.n_actions), known)

    def plan(self, reward: RewardFunction | None) -> Policy:
        return self

    def act(self, observation: Any, step: int, rng: np.random.Generator) -> int:
        return int(self.expert([observation], step).probabilities[0].argmax())

    def uncertainty(self, observations: Sequence[Any], actions: Sequence[int]) -> FloatArray:
        return np.asarray(np.minimum(1.0, self._distances(observations).min(axis=1) / self.near))


def learned(seed: int = 0, **settings: Any) -> list[Turn]:
    chosen = Settings(strategy="advice", certify="policy", irl=None, max_samples=6_000, seed=seed, **settings)
    return list(learn(Beach(), EXPERT, chosen, model=Neighbours()))


def lost_share(turn: Turn, episodes: int, rng: np.random.Generator) -> float:
    """What the policy loses at most against the expert in fresh episodes, as a share of an episode."""
    lost = []
    for _ in range(episodes):
        beach = Beach()
        seen, over, step = beach.reset(rng), False, 0
        while not over and step < HORIZON:
            action = turn.agent.act(seen, step, rng)
            if action != EXPERT.answer(Question(step, seen, (), rng, observation=seen)):
                break
            (seen, over), step = beach.step(action), step + 1
        lost.append(0.0 if over else (HORIZON - step) / HORIZON)
    return float(np.mean(lost))


def test_a_certificate_is_reached_and_is_true_in_fresh_episodes() -> None:
    turns, rng = learned(), np.random.default_rng(1)
    last, certificate = turns[-1], turns[-1].certificate("policy")
    assert last.stopped == "certificate"
    assert certificate.holds
    assert certificate.value <= 0.1 * HORIZON
    assert last.record.episodes == len(turns) == last.belief.model.totals.episodes
    assert list(last.record.certificates) == ["policy"]
    assert lost_share(turns[0], 300, rng) > 0.3, "one episode is not enough"
    # A mean of 2 000 shares has a standard error of at most 0.012.
    assert lost_share(last, 2000, rng) <= certificate.value / HORIZON + 0.03
    assert "asked again wherever the policy followed an earlier answer" in certificate.in_words()


def test_what_is_certified_is_seldom_wrong() -> None:
    """Of four runs one may be wrong at `delta = 0.1`, and hardly ever two."""
    rng = np.random.default_rng(2)
    shares = [lost_share(learned(seed, epsilon=2.0)[-1], 300, rng) for seed in range(4)]
    assert sum(share > 2.0 / HORIZON + 0.05 for share in shares) <= 1


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"strategy": "ace"}, "the strategy ace needs exact planning in tables and confidence radii, which the model "),
        ({"irl": "max-margin"}, "the IRL algorithm max-margin needs exact planning in tables, "),
        ({"certify": "reward"}, "the certificate reward needs exact planning in tables and confidence radii, "),
    ],
)
def test_what_needs_tables_is_refused_in_a_sentence_before_any_work(settings: dict[str, Any], named: str) -> None:
    chosen = Settings(**{"strategy": "advice", "certify": "policy", "irl": None, **settings})
    with pytest.raises(InputError) as caught:
        Engine(Beach(), answers_of(EXPERT, chosen), chosen, model=Neighbours())
    assert named in str(caught.value)
    assert "Neighbours does not offer" in str(caught.value)
    assert str(caught.value).count(".") == 0


def test_the_other_certificates_are_left_out() -> None:
    last = learned(epsilon=4.0)[-1]
    assert set(last.belief.certificates) == {"policy"} < set(KINDS)
