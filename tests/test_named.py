"""Things with a name and parameters: what is written down is read back, and what differs is told apart."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aceirl.certificates import KINDS
from aceirl.envs import make
from aceirl.envs.simulator import Simulator
from aceirl.errors import InputError
from aceirl.experts import PolicyExpert
from aceirl.explore import STRATEGIES
from aceirl.explore.ace import Ace
from aceirl.irl import ALGORITHMS, MaxCausalEntropy
from aceirl.irl.belief import Belief, Plan, uniform_policy
from aceirl.learner.named import Unavailable, read, write
from aceirl.learner.settings import Settings
from aceirl.models.tabular.confidence import FAMILIES, Radii, kl
from aceirl.models.tabular.estimate import Estimate
from aceirl.runs import Run
from aceirl.runs.api import ActiveIRL
from aceirl.runs.folder import CONFIGURATION

REGISTRIES: dict[str, Mapping[str, Callable[..., Any]]] = {
    "strategy": STRATEGIES,
    "IRL algorithm": ALGORITHMS,
    "confidence family": FAMILIES,
    "certificate": KINDS,
}


@dataclass(frozen=True)
class Patient:
    """A strategy of one's own, with parameters."""

    waits: int
    mood: str = "calm"
    shares: tuple[float, ...] = field(default_factory=tuple)

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        return Plan(policy=uniform_policy(belief.shape))


class Plain:
    """One without parameters."""

    def plan(self, belief: Belief, rng: np.random.Generator) -> Plan:
        return Plan(policy=uniform_policy(belief.shape))


class Moody(Plain):
    """One with a state that nobody can write down."""

    def __init__(self, mood: int) -> None:
        self.mood = mood


def wide(estimate: Estimate, rmax: float, delta: float) -> Radii:
    """A family of one's own."""
    return kl(estimate, rmax, delta / 2)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, known in REGISTRIES.items() for name in known])
def test_every_name_stands_for_a_thing_and_the_thing_for_its_name(kind: str, name: str) -> None:
    known = REGISTRIES[kind]
    thing = read(name, kind, known)
    assert write(thing, known) == name
    assert read(write(thing, known), kind, known) == thing


@pytest.mark.parametrize(
    ("kind", "thing", "text"),
    [
        ("strategy", Ace(), "ace"),
        ("strategy", Ace(tolerance=0.05), "ace:tolerance=0.05"),
        ("IRL algorithm", MaxCausalEntropy(reproduce_answers=False), "max-causal-entropy:reproduce_answers=false"),
        (
            "IRL algorithm",
            MaxCausalEntropy(0.5, False),
            "max-causal-entropy:regularisation=0.5,reproduce_answers=false",
        ),
        ("strategy", Patient(3), f"{__name__}.Patient:waits=3"),
        ("strategy", Patient(3, "cross"), f"{__name__}.Patient:waits=3,mood=cross"),
        ("confidence family", wide, f"{__name__}.wide"),
    ],
)
def test_parameters_are_written_where_they_differ_from_the_defaults(kind: str, thing: Any, text: str) -> None:
    assert write(thing, REGISTRIES[kind]) == text
    assert read(text, kind, REGISTRIES[kind]) == thing


@given(
    waits=st.integers(),
    mood=st.text() | st.sampled_from(["3", "true", "null", "a,b", "a=b", "a:b", '"quoted"', "", " ", "[1, 2]", "{}"]),
    shares=st.lists(st.floats(allow_nan=False)),
)
def test_any_plain_values_come_back_as_they_were(waits: int, mood: str, shares: list[float]) -> None:
    text = write(Patient(waits, mood, tuple(shares)), STRATEGIES)
    again = read(text, "strategy", STRATEGIES)
    assert isinstance(again, Patient)
    assert (again.waits, again.mood, list(again.shares)) == (waits, mood, shares)
    assert write(again, STRATEGIES) == text


def test_one_without_parameters_is_written_by_its_class() -> None:
    assert write(Plain(), STRATEGIES) == f"{__name__}.Plain"
    assert isinstance(read(f"{__name__}.Plain", "strategy", STRATEGIES), Plain)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("asce", "unknown strategy 'asce'; did you mean 'ace'?"),
        ("ace:tolerance", "parameters of strategy 'ace' are key=value, got 'tolerance'"),
        ("ace:tolerence=0.1", "unknown parameter of strategy 'ace' 'tolerence'; did you mean 'tolerance'?"),
        ("random:tolerance=0.1", "unknown parameter of strategy 'random' 'tolerance'"),
        (f"{__name__}.Patient", "cannot be made"),
    ],
)
def test_a_text_that_means_nothing_is_named(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text, "strategy", STRATEGIES)
    assert message in str(caught.value)


def test_a_function_has_no_parameters() -> None:
    with pytest.raises(InputError, match=r"'kl' has no parameters, got 'x=1'"):
        read("kl:x=1", "confidence family", FAMILIES)


@pytest.mark.parametrize("text", ["gone.away.Clever:steps=3", "aceirl.explore.Nothing", "gone.away"])
def test_what_cannot_be_imported_keeps_its_text_and_fails_when_it_is_used(text: str) -> None:
    thing = read(text, "strategy", STRATEGIES)
    assert isinstance(thing, Unavailable)
    assert write(thing, STRATEGIES) == text
    for use in (lambda: thing.plan(None, None), lambda: thing(None)):
        with pytest.raises(InputError, match="was used in this run and cannot be found here"):
            use()


@pytest.mark.parametrize("value", [np.zeros(2), object(), {1, 2}])
def test_a_parameter_that_cannot_be_written_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match=r"Patient.*shares.*cannot be saved"):
        write(Patient(1, shares=value), STRATEGIES)


def parts() -> tuple[Simulator, PolicyExpert]:
    problem = make("gridworld", 0, horizon=3)
    return Simulator(problem.mdp), PolicyExpert(problem.expert, problem.mdp.shape)


def learner(strategy: Any, **settings: Any) -> ActiveIRL:
    return ActiveIRL(strategy=strategy, irl="feasible-point", certify=None, max_samples=9, **settings)


def test_a_run_says_with_which_parameters_it_was_made_and_when_others_took_over(tmp_path: Path) -> None:
    path = tmp_path / "run"
    learner(Patient(3)).fit(*parts(), out=path)
    assert json.loads((path / CONFIGURATION).read_text())["settings"]["strategy"] == f"{__name__}.Patient:waits=3"
    assert Run.open(path).settings.strategy == Patient(3)
    again = learner(Patient(3)).fit(*parts(), out=path)
    assert len(again.records) == 3
    learner(Patient(4)).fit(*parts(), out=path)
    learner("random").fit(*parts(), out=path)
    changes = [change["changed"]["strategy"] for change in Run.open(path).changes]
    assert changes == [
        [f"{__name__}.Patient:waits=3", f"{__name__}.Patient:waits=4"], [f"{__name__}.Patient:waits=4", "random"]
    ]  # fmt: skip


def test_parameters_of_ours_are_told_apart_too(tmp_path: Path) -> None:
    learner("ace:tolerance=0.05").fit(*parts(), out=tmp_path / "run")
    learner("ace").fit(*parts(), out=tmp_path / "run")
    (change,) = Run.open(tmp_path / "run").changes
    assert change["changed"] == {"strategy": ["ace:tolerance=0.05", "ace"]}


def test_an_object_with_a_state_of_its_own_can_be_used_but_not_saved(tmp_path: Path) -> None:
    assert learner(Moody(3)).fit(*parts()).stopped == "budget"
    with pytest.raises(InputError) as caught:
        learner(Moody(3)).fit(*parts(), out=tmp_path / "run")
    assert "Moody cannot be saved" in str(caught.value)
    assert "frozen dataclass" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_run_whose_strategy_is_gone_can_be_opened_and_not_resumed(tmp_path: Path) -> None:
    path = tmp_path / "run"
    run = Run.create(path, Settings(strategy=Patient(3), irl="feasible-point", certify=None, max_samples=9))
    next(run.resume(*parts()))
    configuration = json.loads((path / CONFIGURATION).read_text())
    configuration["settings"]["strategy"] = "gone.away.Clever:waits=3"
    (path / CONFIGURATION).write_text(json.dumps(configuration))
    opened = Run.open(path)
    assert len(opened.records()) == 1
    assert opened.settings.named("strategy") == "gone.away.Clever:waits=3"
    with pytest.raises(InputError, match=r"gone\.away\.Clever:waits=3 was used in this run and cannot be found here"):
        next(opened.resume(*parts()))
