"""Advice on an environment: what it is, what fits, what it costs, and a command that runs."""

from __future__ import annotations

import json
import re
import shlex
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium_environments import Corridor
from typer.testing import CliRunner

from aceirl.certificates.e_process import BatchOutcome, EProcess, Wager
from aceirl.cli import app
from aceirl.envs import ENVIRONMENTS, make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.experts.tasks import Source
from aceirl.learner.settings import Settings
from aceirl.models.tabular.bins import Bins
from aceirl.runs.advise import Recommendation, advise, least_episodes, look, trials, wander
from aceirl.runs.advise.advised import _bins, _budget, cost_in_words


@pytest.fixture(autouse=True)
def _briefly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trials, "REHEARSED_SECONDS", 0.5)


def advice_on(environment: str, **options: Any) -> Recommendation:
    return advise(Source(environment, options.pop("parameters", {}), options.pop("seed", 0), **options))


def chosen(advice: Recommendation) -> dict[str, str]:
    return {choice.setting: choice.value for choice in advice.choices}


def runs(command: str, *more: str) -> Any:
    """What a run that was advised says of itself."""
    program, *words = shlex.split(command)
    assert program == "aceirl"
    ran = CliRunner().invoke(app, [*words, *more, "--out", "r", "--json"])
    assert ran.exit_code == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_one_of_ours_is_described_and_its_run_rehearsed(name: str) -> None:
    advice = advice_on(name)
    mdp = make(name, 0).mdp
    facts = advice.facts
    assert (facts.states, facts.actions, facts.horizon) == (mdp.n_states, mdp.n_actions, mdp.horizon)
    assert facts.exact
    assert chosen(advice) == {
        "strategy": "guided",
        "reward": "auto",
        "certify": "policy",
        "episodes_per_iteration": "1",
        "confidence": "adaptive",
    }
    assert advice.command == f"aceirl run {name}"
    assert advice.cost is not None
    assert advice.cost.least_episodes is not None
    if advice.cost.samples is not None:
        assert advice.cost.samples >= advice.cost.least_episodes * mdp.horizon
    assert len(advice.in_words().splitlines()) <= 12


@pytest.mark.parametrize("name", ["gridworld", "chain", "double-chain"])
def test_what_is_foretold_is_about_what_the_advised_run_takes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "REHEARSED_SECONDS", 600.0)  # as many episodes on a slow machine
    advice = advice_on(name)
    assert advice.cost is not None
    assert advice.cost.samples is not None
    assert advice.cost.source.startswith("a trial run of")
    took = runs(advice.command)
    assert took["stopped"] == "certificate"
    assert 1 / 3 < advice.cost.samples / took["samples"] < 3
    assert advice.cost.answers is not None
    assert 1 / 3 < advice.cost.answers / took["answers"] < 3


@pytest.mark.parametrize(
    ("horizon", "known"), [(1, True), (2, False), (10, True), (10, False), (20, True), (200, False)]
)
def test_no_fewer_episodes_than_the_least_can_certify(horizon: int, known: bool) -> None:
    """Played out with the largest stake that there is: episodes of which none ever leaves what is known."""
    settings = Settings()
    target = settings.target(horizon)
    losses = np.minimum(target.losses(horizon), target.losses(horizon)[1]) if known else target.losses(horizon)
    simulator = Simulator(make("gridworld", 0, horizon=horizon).mdp) if known else None
    least = least_episodes(settings, simulator, horizon=horizon)
    process, stays = EProcess.started(target.share(horizon)), np.eye(horizon + 1, dtype=int)[-1]
    for episode in range(1, least + 1):
        assert process.certified(settings.delta) > target.share(horizon) * (1 + 1e-9), episode
        process = process.after(Wager(0.98), BatchOutcome(stays, losses))
    assert process.certified(settings.delta) <= target.share(horizon) * (1 + 1e-9)
    if horizon in (10, 20) and known:  # docs/certificates.md
        assert least == {10: 20, 20: 22}[horizon]


def test_frozen_lake_has_a_model_so_its_best_policy_is_asked() -> None:
    advice = advice_on("FrozenLake-v1")
    assert (advice.facts.states, advice.facts.actions, advice.facts.horizon) == (16, 4, 100)
    assert advice.facts.exact
    assert advice.command == "aceirl run FrozenLake-v1 --expert optimal --stationary-expert"
    assert any("give your own expert with --expert" in note for note in advice.notes)
    assert runs(advice.command, "--max-samples", "50")["samples"] >= 50


def test_taxi_takes_too_long_to_foretell_and_then_only_the_least_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "REHEARSED_SECONDS", 0.0)  # too little on any machine
    advice = advice_on("Taxi-v4", horizon=50)
    assert (advice.facts.states, advice.facts.actions, advice.facts.horizon) == (500, 6, 50)
    assert advice.cost is not None
    assert advice.cost.least_episodes is not None
    assert advice.cost.samples is None
    assert "trial run" in advice.cost.source
    assert advice.command == "aceirl run Taxi-v4 --expert optimal --horizon 50 --stationary-expert"


def test_cart_pole_is_continuous_and_needs_no_bins_which_have_a_price() -> None:
    advice = advice_on("CartPole-v1")
    assert advice.facts.continuous == "continuous, 4 numbers"
    assert advice.cost is None
    assert not advice.missing
    assert [choice.setting for choice in advice.choices] == ["max_answers", "calibration_episodes"]
    assert advice.command == "aceirl run CartPole-v1 --expert package.module:function"
    (second,) = (note for note in advice.notes if "Only bins in which the expert always does the same" in note)
    bins = second.partition("--discretise=")[2].partition(", or ")[0]
    cut = Bins.of(bins, gymnasium.make("CartPole-v1").observation_space)
    assert all(low < 0 < high for low, high in zip(cut.low, cut.high, strict=True))


@pytest.mark.parametrize("dimensions", [1, 4, 8, 10])
def test_what_is_proposed_for_continuous_observations_is_not_too_much(dimensions: int) -> None:
    """Of 8 numbers six bins each would be 1.7 million; numbers that never change are not cut."""
    text = _bins([(-1.0, 1.0)] * dimensions + [(0.5, 0.5)])
    counts = [int(part.split(":")[-1]) for part in text.split(",")]
    assert counts[-1] == 1
    assert all(2 <= count <= 6 for count in counts[:-1])
    assert np.prod(counts) <= 2_000
    assert not _bins([(-1.0, 1.0)] * 12), "then a function is proposed"


def test_a_forecast_is_never_over_the_budget_of_the_command() -> None:
    walk = trials.Wandering(20, 2_000, 1e-5, 0)
    assert _budget(trials.Price(20, 40_000, 100, 1.0, ""), walk) == []
    assert _budget(trials.Price(20, 90_000, 100, 1.0, ""), walk) == ["--max-samples", "200000"]
    assert _budget(trials.Price(2_000, None, None, None, ""), walk) == ["--max-samples", "400000"]
    assert _budget(trials.Price(None, None, None, None, ""), walk) == []


def test_what_is_far_ahead_is_not_foretold(monkeypatch: pytest.MonkeyPatch) -> None:
    """By 40 episodes in these rooms it would be 265,202 samples; the run takes 1,372."""
    monkeypatch.setattr(trials, "REHEARSED_SECONDS", 600.0)  # as many episodes on a slow machine
    cost = advice_on("rooms").cost
    assert cost is not None
    assert cost.samples is not None
    assert 1_372 / 3 < cost.samples < 1_372 * 3


def balance(observation: Any) -> int:
    """Push to the side to which the pole falls."""
    return int(observation[2] + observation[3] > 0)


def test_with_bins_and_an_expert_cart_pole_is_rehearsed() -> None:
    bins = "-2.4:2.4:1,-3:3:1,-0.21:0.21:2,-3:3:2"
    advice = advice_on("CartPole-v1", discretise=bins, expert="test_advise:balance", horizon=50)
    assert advice.facts.binned
    assert advice.facts.states == 4
    assert not advice.facts.exact
    # Of how many bins it is said depends on how far the rehearsal got.
    assert any(re.search(r"\bbins?\b", note) for note in advice.notes)
    assert advice.cost is not None
    assert "trial run" in advice.cost.source
    assert runs(advice.command, "--max-samples", "100")["samples"] >= 100


def test_an_environment_without_a_time_limit_is_asked_for_a_horizon() -> None:
    """Gymnasium's cliff never ends by itself; a corridor of one's own does."""
    cliff = advice_on("CliffWalking-v1")
    assert cliff.facts.horizon is None
    assert cliff.cost is None
    assert "give --horizon" in cliff.missing[0]
    corridor = advice_on("gymnasium_environments:Corridor", parameters={"rooms": 3})
    assert "give --horizon" in corridor.missing[0]
    assert "20 of 20 random episodes ended" in corridor.missing[0]
    grid = advice_on("MiniGrid-Empty-5x5-v0")  # its limit is in its own rules
    assert "It truncates episodes after 100 steps" in grid.missing[0]
    assert grid.command == "aceirl advise MiniGrid-Empty-5x5-v0 --horizon 100"
    _, verb, _, *words = shlex.split(corridor.command)
    assert verb == "advise"
    assert words[:3] == ["--set", "rooms=3", "--horizon"]
    again = advice_on("gymnasium_environments:Corridor", parameters={"rooms": 3}, horizon=int(words[3]))
    assert not again.missing


def test_without_an_expert_only_the_least_is_said() -> None:
    advice = advice_on("gymnasium_environments:Corridor", horizon=10)
    assert advice.cost is not None
    assert advice.cost.samples is None
    assert advice.cost.least_episodes == least_episodes(Settings(), horizon=10)
    assert advice.command == "aceirl run gymnasium_environments:Corridor --expert package.module:function --horizon 10"
    assert "too early to estimate the rest" in cost_in_words(advice.cost)[1]
    assert any("Name an expert: " in note for note in advice.notes)


def test_a_person_is_not_asked_for_a_rehearsal() -> None:
    advice = advice_on("FrozenLake-v1", expert="terminal")
    assert advice.cost is not None
    assert advice.cost.samples is None
    assert "without the expert" in advice.cost.source


def onward(observation: Any, rng: np.random.Generator) -> int:
    """Nearly always on."""
    return int(rng.random() < 0.9)


def test_a_stochastic_expert_gets_no_certificate() -> None:
    options = {"expert": "test_advise:onward", "stochastic_expert": True, "horizon": 8}
    advice = advice_on("gymnasium_environments:Corridor", **options)
    assert chosen(advice)["certify"] == "none"
    assert advice.cost is not None
    assert advice.cost.least_episodes is None
    assert "100,000 samples" in cost_in_words(advice.cost)[0]
    assert runs(advice.command, "--max-samples", "40")["samples"] >= 40


def test_an_expert_who_sees_more_than_the_learner_is_found_out() -> None:
    """Whatever is seen is one bin, and the expert pushes now to one side, now to the other."""
    bins = "-2.4:2.4:1,-3:3:1,-0.21:0.21:1,-3:3:1"
    advice = advice_on("CartPole-v1", discretise=bins, expert="test_advise:balance", horizon=50)
    assert any(note.startswith("The expert contradicted itself in 1 bin:") for note in advice.notes)
    frank = advice_on("gymnasium_environments:Corridor", expert="test_advise:on", horizon=8)
    assert not any("contradicted" in note for note in frank.notes)


def on(observation: Any) -> int:
    """Always on."""
    return 1


class Slow(Corridor):
    """A corridor whose steps take their time."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(0.003)
        return super().step(action)


def test_slow_steps_are_better_played_side_by_side() -> None:
    slow = advice_on("test_advise:Slow", horizon=5)
    assert chosen(slow)["num_envs"] == "8"
    assert slow.command.endswith("--num-envs 8")


def test_random_episodes_are_counted_as_they_are() -> None:
    wandered = wander(Simulator(make("gridworld", 0).mdp), seed=0)
    assert (wandered.episodes, wandered.steps, wandered.ended) == (20, 200, 0)
    assert wandered.states is not None
    assert 1 < wandered.states <= 9


def test_continuous_actions_are_rounded_and_the_advice_says_so() -> None:
    advice = advice_on("Pendulum-v1")
    assert advice.facts.actions is None
    assert "3 numbers, continuous actions, 200 steps an episode" in advice.seen[0]
    assert any("rounded" in note for note in advice.notes)


def test_what_nothing_can_be_learnt_in_is_refused() -> None:
    with pytest.raises(InputError, match="actions must be Discrete"):
        look(Source("Pendulum-v1", {}, 0, discretise="3"))
    with pytest.raises(InputError, match="did you mean 'gridworld'"):
        advice_on("gridwrld")


def test_the_command_says_it_in_words_and_in_json() -> None:
    said = CliRunner().invoke(app, ["advise", "gridworld"])
    assert said.exit_code == 0, said.stderr
    assert said.stdout.splitlines()[-1] == "Next: aceirl run gridworld"
    plain = CliRunner().invoke(app, ["advise", "gridworld", "--json"])
    told = json.loads(plain.stdout)
    assert told["facts"]["states"] == 9
    assert told["command"] == "aceirl run gridworld"
    assert {choice["setting"] for choice in told["choices"]} >= {"strategy", "reward", "certify", "confidence"}
