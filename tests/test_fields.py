"""What observations consist of: read from their parts, documented, or given by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from aceirl.envs import make
from aceirl.envs.gymnasium import GymEnvironment
from aceirl.errors import InputError
from aceirl.experts.tasks import open_task
from aceirl.models.fields import Fields, FieldTable, entries
from aceirl.protocols import Capabilities


class Hand(NamedTuple):
    total: int
    dealer: int


@dataclass
class Seen:
    stock: int
    open: bool


class Shop(gymnasium.Env[Any, Any]):
    """A stock from 0 to 5, as the observation a space says."""

    action_space = spaces.Discrete(2)

    def __init__(self, space: spaces.Space[Any], observation: Any) -> None:
        self.observation_space, self.observation = space, observation

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self.observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation, 0.0, True, False, {}


def met(env: gymnasium.Env[Any, Any], fields: Any = None) -> FieldTable | None:
    """The fields after one episode of one step."""
    access = Capabilities.of(GymEnvironment(env, horizon=1, fields=fields))
    access.encode(access.environment.reset(np.random.default_rng(0)))
    access.encode(*access.environment.step(0))
    return access.field_table


@pytest.mark.parametrize(
    ("observation", "expected"),
    [
        ({"x": 1, "name": "a"}, {"x": 1, "name": "a"}),
        ({"at": np.array([3, 4]), "full": True}, {"at, entry 1": 3, "at, entry 2": 4, "full": True}),
        ((2, np.int64(5)), {"entry 1": 2, "entry 2": 5}),
        (Hand(17, 10), {"total": 17, "dealer": 10}),
        (Seen(4, True), {"stock": 4, "open": True}),
        (np.array([1.5, 2.5]), {"entry 1": 1.5, "entry 2": 2.5}),
        (np.zeros((3, 3)), {}),
        (tuple(range(9)), {}),
        (7, {}),
    ],
)
def test_the_entries_of_an_observation_go_by_their_names(observation: Any, expected: dict[str, Any]) -> None:
    assert entries(observation) == expected


def test_every_state_has_its_row_and_the_padding_state_has_none() -> None:
    table = met(Shop(spaces.Dict({"stock": spaces.Discrete(6), "open": spaces.Discrete(2)}), {"stock": 4, "open": 1}))
    assert table is not None
    assert [(field.name, field.kind) for field in table.fields] == [("stock", "ordered"), ("open", "categorical")]
    assert np.isnan(table.values[0]).all()
    assert table.values[1].tolist() == [4, 0]  # the only value of a categorical field that was met
    assert table.fields[1].value(0) == "1"
    assert table.ends.tolist() == [True, False, True]
    assert table.known.tolist() == [False, True, True]


def test_a_single_number_is_a_field_of_the_name_that_is_given() -> None:
    env = Shop(spaces.Discrete(31), 6)
    assert [table.names for table in (met(env), met(env, ["stock"]), met(env, {"stock": "ordered"})) if table] == [
        ("observation",),
        ("stock",),
        ("stock",),
    ]


def test_fields_are_given_as_kinds_or_functions_or_by_the_class() -> None:
    env = Shop(spaces.MultiDiscrete([6, 24]), np.array([3, 23]))
    table = met(env, {"entry 2": "circular", "scarce": lambda seen: bool(seen[0] < 4)})
    assert table is not None
    assert [(field.name, field.kind) for field in table.fields] == [
        ("entry 1", "ordered"),
        ("entry 2", "circular"),
        ("scarce", "categorical"),
    ]
    assert table.fields[2].labels == ("yes",)
    env.fields = ("stock", "hour")  # type: ignore[attr-defined]
    own = met(env)
    assert own is not None
    assert own.names == ("stock", "hour")
    made = met(env, lambda seen: {"twice": 2 * int(seen[0])})
    assert made is not None
    assert made.values[1].tolist() == [6]


def test_wrong_fields_say_what_would_be_right() -> None:
    env = Shop(spaces.Discrete(6), 3)
    with pytest.raises(InputError, match="must be categorical, ordered, circular"):
        met(env, {"stock": "numeric"})
    with pytest.raises(InputError, match=r"2 names .* has 1 entries"):
        met(env, ("a", "b"))
    with pytest.raises(InputError, match=r"there is no field 'colour'.*their fields are entry 1"):
        met(Shop(spaces.MultiDiscrete([6]), np.array([2])), {"colour": "categorical"})
    with pytest.raises(InputError, match="is ordered, and has the value 'red'"):
        Fields.given({"colour": "ordered"}).table([{"colour": "red"}])
    with pytest.raises(InputError, match="fields is for Gymnasium environments"):
        open_task("gridworld", fields=("x",))


def test_gymnasiums_own_environments_are_documented() -> None:
    taxi = met(gymnasium.make("Taxi-v4", max_episode_steps=1))
    assert taxi is not None
    assert taxi.names == ("row", "column", "passenger", "destination", "next stand")
    hand = met(gymnasium.make("Blackjack-v1", max_episode_steps=1))
    assert hand is not None
    assert [(one.name, one.kind) for one in hand.fields][-1] == ("usable ace", "categorical")


def test_our_own_environments_have_the_fields_of_their_drawing() -> None:
    task = open_task(make("gridworld", 0))
    table = Capabilities.of(task.environment).field_table
    assert table is not None
    assert table.names == ("column", "row")
    assert table.values[4].tolist() == [2, 2]
    assert Capabilities.of(open_task(make("random-mdp", 0)).environment).field_table is None


def test_entries_of_one_array_belong_together() -> None:
    table = Fields(entries, {}).table([{"battery": 3, "at": (1, 2)}, {"battery": 2, "at": (1, 3)}])
    assert [field.group for field in table.fields] == ["battery", "at", "at"]


def test_fields_given_by_names_or_kinds_are_plain_values_that_a_folder_keeps() -> None:
    shop = Shop(spaces.Discrete(6), 4)
    assert GymEnvironment(shop, horizon=1, fields=("stock",)).named_fields == ["stock"]
    assert GymEnvironment(shop, horizon=1, fields={"stock": "circular"}).named_fields == {"stock": "circular"}
    assert GymEnvironment(shop, horizon=1, fields={"few": lambda seen: seen < 3}).named_fields is None
    assert GymEnvironment(shop, horizon=1).named_fields is None


def test_values_of_a_record_are_numbers_of_the_same_table() -> None:
    table = Fields.given({"open": "categorical", "stock": "ordered"}, dict).table(
        [{"open": True, "stock": 3}, {"open": False, "stock": 5}]
    )
    assert table.numbers({"open": True, "stock": 4}) == (1.0, 4.0)
    assert table.numbers({"open": "perhaps", "stock": 4}) is None
    assert table.numbers({"stock": 4}) is None
