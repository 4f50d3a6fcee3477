"""Pictures show what they are given, on every shape, and reach the disk."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrow, FancyBboxPatch, Patch, Polygon

from aceirl.envs import ENVIRONMENTS, Layout, Problem, make
from aceirl.errors import InputError
from aceirl.explain import maps, plots

SHAPES = ["four-paths", "double-chain", "chain", "gridworld", "random-mdp"]


@pytest.fixture(params=SHAPES)
def problem(request: pytest.FixtureRequest) -> Problem:
    return make(request.param, 0)


def cells(figure: Figure) -> list[Patch]:
    return [patch for patch in figure.axes[0].patches if isinstance(patch, FancyBboxPatch | Circle)]


def texts(figure: Figure) -> str:
    return " | ".join(text.get_text() for text in [*figure.texts, *figure.axes[0].texts])


def lightness(patch: Patch) -> float:
    return float(np.dot(patch.get_facecolor()[:3], (0.2126, 0.7152, 0.0722)))


def test_every_shape_is_drawn_with_one_cell_a_state_in_its_place(problem: Problem) -> None:
    for figure in (
        maps.visits(problem.layout, np.ones(problem.mdp.shape)),
        maps.reward(problem.layout, problem.reward),
        maps.policy(problem.layout, problem.expert),
    ):
        drawn = cells(figure)
        assert len(drawn) == problem.mdp.n_states
        middle = [patch.get_path().get_extents(patch.get_patch_transform()) for patch in drawn]
        centres = [[(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2] for box in middle]
        np.testing.assert_allclose(centres, problem.layout.positions, atol=1e-6)
        figure.draw_without_rendering()


def test_everything_written_lies_on_the_paper(problem: Problem) -> None:
    known = np.zeros(problem.mdp.shape[:2], dtype=bool)
    counts = np.random.default_rng(0).poisson(3000, problem.mdp.shape)
    for figure in (
        maps.visits(problem.layout, counts),
        maps.reward(problem.layout, counts / counts.max()),
        maps.policy(problem.layout, problem.expert, known),
    ):
        figure.draw_without_rendering()
        box = figure.get_tightbbox().transformed(figure.dpi_scale_trans)
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1


def test_a_state_where_the_expert_is_unknown_is_hatched_and_has_no_arrow() -> None:
    problem = make("double-chain", 0)
    known = np.ones(problem.mdp.shape[:2], dtype=bool)
    known[:, [0, 7]] = False
    figure = maps.policy(problem.layout, problem.expert, known)
    assert [s for s, cell in enumerate(cells(figure)) if cell.get_hatch()] == [0, 7]
    assert sum(isinstance(patch, FancyArrow) for patch in figure.axes[0].patches) == 29
    assert "hatched: never" in texts(figure)
    everywhere = maps.policy(problem.layout, problem.expert)
    assert not any(cell.get_hatch() for cell in cells(everywhere))
    assert "known" not in texts(everywhere)


def test_the_arrow_is_the_action_at_the_first_known_step() -> None:
    layout = make("double-chain", 0, length=2).layout
    policy = np.eye(2)[np.array([[0, 0], [1, 1], [1, 1]])]
    known = np.array([[False, True], [True, True], [True, True]])
    arrows = [p for p in maps.policy(layout, policy, known).axes[0].patches if isinstance(p, FancyArrow)]
    # The head begins a little beyond the middle of the cell, and nothing of an arrow is wider.
    heads = [arrow.get_xy()[arrow.get_xy()[:, 1].argmax(), 0] for arrow in arrows]
    assert (np.array(heads) > layout.positions[:, 0]).tolist() == [True, False]


def test_an_action_without_direction_is_written_out() -> None:
    problem = make("chain", 0)
    assert texts(maps.policy(problem.layout, problem.expert)).count("a10") == 6


def test_visits_darken_with_counts_and_white_is_never() -> None:
    problem = make("gridworld", 0)
    counts = np.zeros(problem.mdp.shape)
    counts[0, :8, 0] = 10.0 ** np.arange(8)
    figure = maps.visits(problem.layout, counts)
    shades = [lightness(cell) for cell in cells(figure)]
    assert shades[8] == pytest.approx(1)
    assert shades[:8] == sorted(shades[:8], reverse=True)
    assert "never" in texts(figure)
    assert "10M" in texts(figure)
    assert "never" in texts(maps.visits(problem.layout, np.zeros(problem.mdp.shape)))


def test_reward_is_split_by_action_only_where_actions_differ() -> None:
    problem = make("gridworld", 0)
    reward = np.zeros(problem.mdp.shape)
    reward[:, 0, 2] = 1
    figure = maps.reward(problem.layout, reward)
    parts = [p for p in figure.axes[0].patches if isinstance(p, Polygon) and not isinstance(p, FancyArrow)]
    assert len(parts) == 4
    darkest = min(parts, key=lightness)
    assert darkest.get_xy().mean(axis=0)[0] > problem.layout.positions[0, 0] + 0.2
    assert not any(isinstance(p, Polygon) for p in maps.reward(problem.layout, problem.reward).axes[0].patches)


def test_colours_step_evenly_from_light_to_dark() -> None:
    rgb = plots.COLOURS(np.linspace(0, 1, 9))[:, :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_cone = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
               [0.0883024619, 0.2817188376, 0.6299787005]]  # fmt: skip
    lightness = np.cbrt(linear @ np.array(to_cone).T) @ (0.2104542553, 0.7936177850, -0.0040720468)
    steps = np.diff(lightness)
    assert (steps < 0).all()
    assert np.ptp(steps) < 0.15 * abs(steps.mean())


def test_learning_curve_marks_the_first_crossing_and_admits_when_there_is_none() -> None:
    samples, regret = [100, 200, 300, 400], [0.9, 0.3, 0.5, 0.1]
    assert "below 0.4 after 200 samples" in texts(plots.learning_curve(samples, regret, 0.4))
    assert "below 0.3 after 400 samples" in texts(plots.learning_curve(samples, regret, 0.3))
    assert "not below 0.05 yet" in texts(plots.learning_curve(samples, regret, 0.05))
    assert "below" not in texts(plots.learning_curve(samples, regret))


def test_bound_curve_is_logarithmic_and_counts_equality_as_met() -> None:
    figure = plots.bound_curve([10, 10_000], [20.0, 2.0], epsilon=2.0)
    assert figure.axes[0].get_yscale() == figure.axes[0].get_xscale() == "log"
    assert "at most 2 after 10,000 samples" in texts(figure)
    plots.bound_curve([20], [3.0]).draw_without_rendering()


def test_bad_input_is_named() -> None:
    layout = make("gridworld", 0).layout
    with pytest.raises(InputError, match=r"visits must have shape \[H, 9, 4\], got \[9, 4\]"):
        maps.visits(layout, np.zeros((9, 4)))
    with pytest.raises(InputError, match=r"visits of state 0 .* negative"):
        maps.visits(layout, -np.ones((1, 9, 4)))
    with pytest.raises(InputError, match="reward"):
        maps.reward(layout, np.full((1, 9, 4), np.nan))
    with pytest.raises(InputError, match="policy"):
        maps.policy(layout, np.zeros((1, 9, 4)))
    with pytest.raises(InputError, match=r"known must have shape \[2, 9\], got \[9\]"):
        maps.policy(layout, np.full((2, 9, 4), 0.25), np.ones(9))
    with pytest.raises(InputError, match=r"samples and regret .* \[2\] and \[1\]"):
        plots.learning_curve([1, 2], [0.5])
    with pytest.raises(InputError, match=r"regret\[1\] is not finite"):
        plots.learning_curve([1, 2], [0.5, float("nan")])
    with pytest.raises(InputError, match=r"samples\[1\] is smaller"):
        plots.learning_curve([2, 1], [0.5, 0.4])
    with pytest.raises(InputError, match=r"bound\[1\] is 0.0"):
        plots.bound_curve([1, 2], [0.5, 0.0])


def test_files_are_written_and_the_same_figure_gives_the_same_bytes(tmp_path: Path) -> None:
    problem = make("gridworld", 0)
    before = dict(matplotlib.rcParams)
    first = plots.save(maps.policy(problem.layout, problem.expert), tmp_path / "policy.first")
    again = plots.save(maps.policy(problem.layout, problem.expert), tmp_path / "again")
    assert [path.name for path in first] == ["policy.first.png", "policy.first.svg"]
    assert first[0].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in first[1].read_text()
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    assert [path.name for path in plots.save(plots.learning_curve([1], [1]), tmp_path / "x", ("pdf",))] == ["x.pdf"]
    assert dict(matplotlib.rcParams) == before


def test_extreme_layouts_draw_too() -> None:
    single = Layout("ring", np.zeros((1, 2)), ("only",), ("stay",), np.zeros((1, 2)))
    maps.policy(single, np.ones((1, 1, 1))).draw_without_rendering()
    maps.reward(single, np.ones((1, 1, 1))).draw_without_rendering()
    long = make("double-chain", 0, length=400).layout
    width, _ = maps.visits(long, np.ones((1, 400, 2))).get_size_inches()
    assert width < 13
    assert {make(name, 0).layout.kind for name in ENVIRONMENTS} == {"chain", "grid", "arms", "ring"}


def test_a_reward_that_rests_on_nothing_is_hatched() -> None:
    problem = make("gridworld", 0)
    visited = np.arange(9) != 4
    hatched = [p for p in maps.reward(problem.layout, problem.reward, visited).axes[0].patches if p.get_hatch()]
    assert len(hatched) == 1
    with pytest.raises(InputError, match=r"visited must have shape \[9\], got \[8\]"):
        maps.reward(problem.layout, problem.reward, np.ones(8))


def test_what_is_not_determined_of_a_reward_is_hatched() -> None:
    problem = make("gridworld", 0)
    paid = np.zeros((9, 4))
    paid[7] = 1.0
    undetermined = np.isin(np.arange(9), [2, 5])
    figure = maps.explained(problem.layout, paid, undetermined)
    assert [s for s, cell in enumerate(cells(figure)) if cell.get_hatch()] == [2, 5]
    assert "hatched: not determined, may pay as much" in texts(figure)
    assert "what each place pays" in texts(figure)
    assert "step" not in texts(figure)
    shades = [lightness(cell) for cell in cells(figure)]
    assert min(range(9), key=shades.__getitem__) == 7
    everywhere = maps.explained(problem.layout, paid, np.zeros(9))
    assert not any(cell.get_hatch() for cell in cells(everywhere))
    assert "hatched" not in texts(everywhere)
    maps.explained(problem.layout, paid, np.ones(9)).draw_without_rendering()


def test_hurry_is_written_under_the_reward() -> None:
    problem = make("gridworld", 0)
    nothing = np.zeros(9)
    assert "each step costs 0.1" in texts(maps.explained(problem.layout, np.eye(9)[:, :4], nothing, step_cost=0.1))
    assert "each step pays 0.25" in texts(maps.explained(problem.layout, np.eye(9)[:, :4], nothing, step_cost=-0.25))


def test_what_is_paid_for_an_action_has_its_part_of_the_cell() -> None:
    problem = make("gridworld", 0)
    paid = np.zeros((9, 4))
    paid[0, 2] = 1.0
    figure = maps.explained(problem.layout, paid, np.zeros(9))
    parts = [p for p in figure.axes[0].patches if isinstance(p, Polygon) and not isinstance(p, FancyArrow)]
    assert len(parts) == 4
    assert min(parts, key=lightness).get_xy().mean(axis=0)[0] > problem.layout.positions[0, 0] + 0.2


def test_an_explained_reward_of_another_shape_is_refused() -> None:
    layout = make("gridworld", 0).layout
    with pytest.raises(InputError, match=r"paid must have shape .*9, 4\], got .*9, 3\]"):
        maps.explained(layout, np.zeros((9, 3)), np.zeros(9))
    with pytest.raises(InputError, match=r"undetermined must have shape \[9\], got \[8\]"):
        maps.explained(layout, np.zeros((9, 4)), np.zeros(8))
    with pytest.raises(InputError, match="paid"):
        maps.explained(layout, np.full((9, 4), np.nan), np.zeros(9))


def test_the_answer_importance_is_written_on_its_states() -> None:
    problem = make("gridworld", 0)
    importance = np.zeros(9)
    importance[[0, 4]] = 0.25, 0.75
    figure = maps.importance(problem.layout, importance, importance > 0)
    assert "75.0%" in texts(figure)
    assert len([p for p in figure.axes[0].patches if p.get_hatch()]) == 7
    with pytest.raises(InputError, match="importance must have shape"):
        maps.importance(problem.layout, importance[:3])
    assert "3.0%" in texts(plots.bars(["here", "there"], [0.97, 0.03], "Why here", "", ".1%"))


def test_a_long_note_is_broken_into_lines() -> None:
    problem = make("gridworld", 0)
    figure = maps.reward(problem.layout, np.random.default_rng(0).random(problem.mdp.shape), np.arange(9) > 0)
    figure.draw_without_rendering()
    width = figure.get_window_extent().width
    assert all(text.get_window_extent().x1 < width for text in figure.texts)


def test_no_arrow_is_drawn_where_several_actions_are_as_good() -> None:
    problem = make("gridworld", 0)
    table = problem.expert.copy()
    table[0, 4] = [0.5, 0.5, 0.0, 0.0]
    arrows = [len(maps.policy(problem.layout, each).axes[0].patches) for each in (problem.expert, table)]
    assert arrows[1] == arrows[0] - 1


@pytest.mark.parametrize(
    "pointing",
    [
        [(-1.0, 0.0), (1.0, 0.0)],
        [(-1.0, 0.0), (1.0, 0.0), (0.0, 1.0)],
        [(0.0, 1.0), (1.0, 0.0)],
        [(-1.0, 0.0), (0.0, -1.0), (1.0, 0.0), (0.0, 1.0)],
        [(0.6, 0.8), (0.8, 0.6), (-1.0, 0.0)],
    ],
)
def test_the_part_of_an_action_lies_where_the_action_points(pointing: list[tuple[float, float]]) -> None:
    """Also where actions point to some sides of a cell only: then no part reaches round the corner."""
    parts = maps._parts(np.array(pointing))
    for part, direction in zip(parts, np.array(pointing), strict=True):
        middle = part[1:].mean(axis=0)
        assert middle @ direction / np.linalg.norm(middle) > 0.999
        along = part[1:] @ direction / np.linalg.norm(part[1:], axis=1)
        assert (along >= np.cos(np.pi / 4) - 1e-9).all()
