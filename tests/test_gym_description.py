"""Gymnasium environments as people see them: words, maps and pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium_environments import Corridor
from typer.testing import CliRunner

from aceirl.cli import app
from aceirl.envs import Layout
from aceirl.envs.described import LONGEST, action_names, description, map_cell, state_words, words
from aceirl.envs.description import EnvironmentDescription, Frame, MapCell
from aceirl.envs.gymnasium import GymEnvironment
from aceirl.envs.map_layout import MOST_PANELS, layout, rendered, turned
from aceirl.experts.tasks import Source, rendering_env
from aceirl.experts.tasks import layout as layout_of
from aceirl.explain import maps
from aceirl.models.tabular.encoder import StateIndex

pytest.importorskip("pygame")

TAXI = "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"
CLIFF = "CliffWalking-v1" if "CliffWalking-v1" in gymnasium.registry else "CliffWalking-v0"


def opened(name: str, **parameters: Any) -> tuple[gymnasium.Env[Any, Any], GymEnvironment]:
    if name.startswith("MiniGrid"):
        pytest.importorskip("minigrid")
    env = rendering_env(Source(name, parameters, 0, horizon=50))
    return env, GymEnvironment(env, horizon=50)


def walked(environment: GymEnvironment, episodes: int = 30) -> None:
    """Meet some states."""
    rng = np.random.default_rng(0)
    for _ in range(episodes):
        environment.states.number(environment.reset(rng))
        for _ in range(environment.horizon):
            seen, over = environment.step(int(rng.integers(environment.n_actions)))
            environment.states.number(seen, terminal=over)
            if over:
                break


def drawn_layout(env: gymnasium.Env[Any, Any], environment: GymEnvironment) -> Layout:
    return layout(env, environment.states, environment.actions)


LAKE = ["SFFFFFFFFFF", "FFFFFFFFFFF", "FFFFFFFFFFG"]  # 512 pixels cannot be divided by its columns


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("FrozenLake-v1", {}),
        ("FrozenLake8x8-v1", {}),
        ("FrozenLake-v1", {"desc": LAKE}),
        (CLIFF, {}),
        (TAXI, {}),
        ("MiniGrid-Empty-5x5-v0", {}),
        ("MiniGrid-DoorKey-5x5-v0", {}),
    ],
)
def test_a_state_lies_where_the_environment_draws_itself_in_it(name: str, parameters: dict[str, Any]) -> None:
    """Another way to find the map cell: the pixels that change when the environment is moved there."""
    env, environment = opened(name, **parameters)
    walked(environment)
    found = drawn_layout(env, environment)
    pose, inner = description(env).pose, env.unwrapped
    assert len(found.drawn) == environment.n_states - 1 or len(found.panels) == MOST_PANELS
    panels = {panel.title: panel for panel in found.panels}
    checked = 0
    for title, panel in panels.items():
        members = [int(s) for s in found.drawn if _inside(found.positions[s], panel.extent)]
        assert members, title
        left, right, _, top = panel.extent
        assert panel.pixels is not None
        unit = panel.pixels.shape[1] / (right - left)
        for state in members[1:4]:
            pose(inner, environment.observation(members[0]))
            before = rendered(env)
            pose(inner, environment.observation(state))
            after = rendered(env)
            assert before is not None
            assert after is not None
            rows, columns = np.nonzero((before != after).any(axis=2))
            middles = [((x - left) * unit, (top - y) * unit) for x, y in found.positions[[members[0], state]]]
            near = [(np.abs(columns - x) < 0.8 * unit) & (np.abs(rows - y) < 0.8 * unit) for x, y in middles]
            assert all(area.any() for area in near), (title, state)
            assert (near[0] | near[1]).mean() > 0.95, (title, state)
            checked += 1
    assert checked >= 3


@pytest.mark.parametrize(("name", "columns", "goal"), [("FrozenLake-v1", 4, "the flag"), (CLIFF, 12, "the goal")])
def test_the_ends_of_episodes_lie_in_their_cells_on_the_map(name: str, columns: int, goal: str) -> None:
    """Cells are numbered row by row, and the last one is the goal; so it is on the map as the start and its
    neighbours are."""
    env, environment = opened(name)
    states = environment.states
    last = int(env.observation_space.n) - 1  # type: ignore[attr-defined]
    start, right, below = (states.number(cell) for cell in (0, 1, columns))
    holes = (5, 7, 11, 12) if goal == "the flag" else ()
    ends = {states.number(cell, terminal=True): cell for cell in (*holes, last)}
    found = drawn_layout(env, environment)
    origin = found.positions[start]
    for end, cell in ends.items():
        row, column = divmod(cell, columns)
        there = origin + column * (found.positions[right] - origin) + row * (found.positions[below] - origin)
        np.testing.assert_allclose(found.positions[end], there)
        assert _inside(there, found.panels[0].extent)
        told = goal if cell == last else "the hole"
        assert found.state_names[end] == f"{told} in row {row + 1}, column {column + 1}"


def test_a_place_that_is_an_end_at_one_time_only_is_on_the_map_twice() -> None:
    env = Drawn(EnvironmentDescription(map_cell=lambda env, room: MapCell(room, 0.0), frame=lambda env, shape: CELLS))
    environment = GymEnvironment(env, horizon=10)
    walked(environment)
    last, end = environment.states.find(3), environment.states.find(3, terminal=True)
    found = drawn_layout(env, environment)
    np.testing.assert_array_equal(found.positions[last], found.positions[end])
    assert found.state_names[end] == f"the end in {found.state_names[last]}"  # type: ignore[index]


@pytest.mark.parametrize(
    ("name", "told"), [("MiniGrid-Empty-5x5-v0", {"the goal"}), ("MiniGrid-LavaGapS5-v0", {"the goal", "the lava"})]
)
def test_the_ends_of_minigrid_are_on_the_map_of_the_rest_and_called_by_their_names(name: str, told: set[str]) -> None:
    """The agent hides what it stands on, and the picture of the end must not be another scene for that."""
    env, _ = opened(name)
    fixed = SameSeed(env)
    environment = GymEnvironment(fixed, horizon=50)
    walked(environment, 300)
    for _ in range(2):  # drawing it changes nothing
        found = drawn_layout(fixed, environment)
        assert [panel.title for panel in found.panels] == [f"facing {way}" for way in ("down", "left", "right", "up")]
        ends = {found.state_names[end].partition(" in row")[0] for end in environment.terminal - {0}}
        assert ends == told


class SameSeed(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Always the same map."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self.env.reset(seed=1, options=options)


def test_taxis_end_where_they_were_bound_for() -> None:
    env, environment = opened(TAXI)
    inner: Any = env.unwrapped
    for stand, (row, column) in enumerate(inner.locs):
        environment.states.number(inner.encode(row, column, stand, stand), terminal=True)
    told = state_words(env, environment.states)[1:]
    assert told == tuple(
        f"the passenger delivered at the {colour} stand" for colour in ("red", "green", "yellow", "blue")
    )


def _inside(position: np.ndarray[Any, Any], extent: tuple[float, float, float, float]) -> bool:
    (x, y), (left, right, bottom, top) = position, extent
    return bool(left < x < right and bottom < y < top)


def test_arrows_turn_with_whoever_walks() -> None:
    left, right, forward = np.eye(2)[0] * -1, np.eye(2)[0], np.eye(2)[1]
    arrows = np.array([left, right, forward])
    np.testing.assert_allclose(turned(arrows, (0.0, 1.0)), arrows)
    np.testing.assert_allclose(turned(arrows, (1.0, 0.0)), [[0, 1], [0, -1], [1, 0]])
    np.testing.assert_allclose(turned(arrows, (0.0, -1.0)), [[1, 0], [-1, 0], [0, -1]])


def test_a_turning_agent_has_a_panel_for_each_way_it_faces() -> None:
    env, environment = opened("MiniGrid-Empty-5x5-v0")
    walked(environment)
    found = drawn_layout(env, environment)
    assert [panel.title for panel in found.panels] == [f"facing {way}" for way in ("down", "left", "right", "up")]
    names = action_names(env, list(range(7)))
    for state in sorted(set(range(environment.n_states)) - environment.terminal):
        description(env).pose(env.unwrapped, environment.observation(state))
        before = np.array(env.unwrapped.agent_pos)  # type: ignore[attr-defined]
        env.unwrapped.step(names.index("forward"))
        moved = np.array(env.unwrapped.agent_pos) - before  # type: ignore[attr-defined]
        if moved.any():
            np.testing.assert_allclose(found.directions(state)[names.index("forward")], moved * (1, -1))


def test_a_thing_that_moved_makes_another_scene_and_is_drawn_where_it_is() -> None:
    env, environment = opened("MiniGrid-DoorKey-5x5-v0")
    for seed in (1, 2, 3):
        observation, _ = env.reset(seed=seed)
        taken = {**observation, "image": np.where(observation["image"][:, :, :1] == 5, (1, 0, 0), observation["image"])}
        with_key, without = map_cell(env, observation), map_cell(env, taken)
        assert with_key is not None
        assert without is not None
        assert (with_key.x, with_key.y, with_key.panel) == (without.x, without.y, without.panel)
        assert with_key.scene != without.scene
        assert "yellow key at" in words(env, observation)
        assert "key" not in words(env, taken)
        env.unwrapped.highlight = False  # type: ignore[attr-defined]
        own = rendered(env)
        env.reset(seed=seed + 10)
        description(env).pose(env.unwrapped, observation)
        np.testing.assert_array_equal(rendered(env), own)
    walked(environment)
    titles = [panel.title for panel in drawn_layout(env, environment).panels]
    assert len(set(titles)) == len(titles)
    assert titles[0] == "facing down, scene 1"


class Mirrored(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Says of each room that it is another."""

    def observation(self, observation: Any) -> Any:
        return 15 - observation


class TaxiEnv(Corridor):
    """Someone's own environment, with a famous name."""


@pytest.mark.parametrize("make", [lambda: Mirrored(gymnasium.make("FrozenLake-v1")), TaxiEnv])
def test_what_is_not_known_is_not_drawn(make: Callable[[], gymnasium.Env[Any, Any]]) -> None:
    env = make()
    environment = GymEnvironment(env, horizon=10)
    walked(environment)
    found = drawn_layout(env, environment)
    assert not len(found.drawn)
    assert found.state_names[1] == f"the observation {environment.observation(1)}"


class Drawn(Corridor):
    """A corridor that draws itself, and whose description has mistakes."""

    def __init__(self, description: EnvironmentDescription) -> None:
        super().__init__()
        self.render_mode = "rgb_array"
        type(self).description = description

    description = EnvironmentDescription()

    def render(self) -> Any:
        return np.zeros((10, 40, 3), dtype=np.uint8)


CELLS = Frame((5.0, 5.0), (10.0, 10.0))


@pytest.mark.parametrize(
    ("described", "message"),
    [
        (
            EnvironmentDescription(map_cell=lambda env, room: MapCell(room, 0.0), pose=lambda env, room: env.nothing),
            "failed: Attribute",
        ),
        (
            EnvironmentDescription(map_cell=lambda env, room: MapCell(room, 0.0), frame=lambda env, shape: env.nothing),
            "failed: Attribute",
        ),
        (
            EnvironmentDescription(map_cell=lambda env, room: MapCell(0.0, room), frame=lambda env, shape: CELLS),
            "outside the rendering",
        ),
        (
            EnvironmentDescription(map_cell=lambda env, room: MapCell(room, 0.0), actions=("on",)),
            "1 names for 2 actions",
        ),
    ],
)
def test_mistakes_in_a_description_are_said(described: EnvironmentDescription, message: str) -> None:
    env = Drawn(described)
    environment = GymEnvironment(env, horizon=10)
    walked(environment)
    with pytest.warns(UserWarning, match=message):
        found = drawn_layout(env, environment)
    assert len(found.drawn) == 5, "four rooms, and the end in the last of them"


def test_cells_lie_on_a_rendering_of_ones_own() -> None:
    env = Drawn(EnvironmentDescription(map_cell=lambda env, room: MapCell(room, 0.0), frame=lambda env, shape: CELLS))
    environment = GymEnvironment(env, horizon=10)
    walked(environment)
    found = drawn_layout(env, environment)
    assert found.panels[0].extent == (0.0, 4.0, -1.0, 0.0)
    np.testing.assert_allclose(sorted(found.positions[1:, 0]), [0.5, 1.5, 2.5, 3.5, 3.5])
    np.testing.assert_allclose(found.positions[1:, 1], -0.5)


class Broken(Corridor):
    """A corridor whose description does not work."""

    description = EnvironmentDescription(
        words=lambda env, observation: observation["room"],
        map_cell=lambda env, observation: MapCell(float("nan"), 0.0),
    )


def test_a_description_that_fails_costs_the_map_and_nothing_else() -> None:
    environment = GymEnvironment(Broken(), horizon=10)
    walked(environment)
    with pytest.warns(UserWarning, match="the description of Broken failed"):
        found = drawn_layout(Broken(), environment)
    assert not len(found.drawn)
    assert found.state_names[1] == "the observation 0"


def test_long_observations_are_cut_and_numbered() -> None:
    partial = opened("MiniGrid-Empty-5x5-v0")[0].unwrapped
    seen, _ = partial.reset(seed=0)
    assert map_cell(partial, seen) is None
    assert len(words(partial, seen)) <= LONGEST + 2
    states = StateIndex(partial.observation_space)
    states.number(seen)
    assert state_words(partial, states)[1].startswith("state 1: the observation")


def test_the_taxi_has_a_panel_for_each_errand() -> None:
    env, environment = opened(TAXI)
    walked(environment)
    found = drawn_layout(env, environment)
    assert "at red, to green" in {panel.title for panel in found.panels}
    assert len({tuple(position) for position in found.positions[1:].tolist()}) == environment.n_states - 1


class Terrace(Corridor):
    """A corridor of one's own that says where its rooms are, and draws nothing."""

    description = EnvironmentDescription(
        actions=("left", "right"),
        words=lambda env, observation: f"room {observation} of {env.rooms}",
        map_cell=lambda env, observation: MapCell(observation, 0.0, "downstairs" if observation < 2 else "upstairs"),
    )


class Crowd(Corridor):
    """All rooms in one cell: that is no map."""

    description = EnvironmentDescription(map_cell=lambda env, observation: MapCell(0.0, 0.0))


def test_an_environment_of_ones_own_takes_part() -> None:
    env = Terrace()
    environment = GymEnvironment(env, horizon=10)
    walked(environment)
    found = drawn_layout(env, environment)
    assert found.state_names[:2] == ("nowhere", "room 0 of 4")
    assert {found.state_names[s] for s in environment.terminal} == {"nowhere", "the end in room 3 of 4"}
    assert [panel.title for panel in found.panels] == ["downstairs", "upstairs"]
    assert all(panel.pixels is None for panel in found.panels)
    np.testing.assert_allclose(found.directions(1), [[-1, 0], [1, 0]])
    states = {found.state_names[s]: found.positions[s] for s in found.drawn}
    np.testing.assert_allclose(states["room 1 of 4"] - states["room 0 of 4"], [1, 0])
    maps.reward(found, np.random.default_rng(0).random((3, *found.action_directions.shape[:2])))


@pytest.mark.parametrize("env", [Crowd(), Corridor()])
def test_without_map_cells_there_is_no_map(env: Corridor) -> None:
    environment = GymEnvironment(env, horizon=10)
    walked(environment)
    found = drawn_layout(env, environment)
    assert len(found.drawn) == 0
    assert len(found.state_names) == environment.n_states


def test_a_run_is_drawn_over_the_rendering(tmp_path: Path) -> None:
    runner = CliRunner()
    folder = tmp_path / "lake"
    ran = runner.invoke(
        app,
        ["run", "FrozenLake-v1", "--expert", "optimal", "--stationary-expert", "--horizon", "30",
         "--max-samples", "300", "--out", str(folder)],
    )  # fmt: skip
    assert ran.exit_code == 0, ran.output
    assert "The answers that mattered most" in ran.output
    shown = runner.invoke(app, ["show", str(folder)])
    assert shown.exit_code == 0, shown.output
    for name in ("visits", "reward", "policy", "why-here"):
        assert "<image" in (folder / "pictures" / f"{name}.svg").read_text()
    source = Source("FrozenLake-v1", {}, 0, horizon=30)
    met = layout_of(source, ("nowhere", "0", "4", "terminal 5", "terminal 15"))
    ends = ("the hole in row 2, column 2", "the flag in row 4, column 4")
    assert met.state_names == ("nowhere", "row 1, column 1", "row 2, column 1", *ends)


def test_where_there_is_no_map_the_answers_are_listed(tmp_path: Path) -> None:
    folder = tmp_path / "game"
    ran = CliRunner().invoke(
        app,
        ["run", "Blackjack-v1", "--expert", "optimal", "--stationary-expert", "--horizon", "5", "--max-samples", "100",
         "--out", str(folder)],
    )  # fmt: skip
    assert ran.exit_code == 0, ran.output
    assert "against the dealer's" in ran.output
    assert CliRunner().invoke(app, ["show", str(folder)]).exit_code == 0
    assert {path.stem for path in (folder / "pictures").iterdir()} == {
        "bound",
        "learning",
        "policy",
        "reward",
        "visits",
        "why-here",
    }


def test_fields_name_the_parts_of_an_observation() -> None:
    class Named(Corridor):
        fields = ("room",)

    environment = GymEnvironment(Named(), horizon=10)
    walked(environment)
    assert drawn_layout(Named(), environment).state_names[1] == "the observation room 0"
