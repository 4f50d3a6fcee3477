"""Pictures of the README and the pages, from real runs: `make pictures`, or `python docs/drawings.py [NAME ...]`.

one-iteration.gif         one iteration of the loop, step by step
one-iteration.png         its five stages as a strip
many-rewards.png          four rewards that explain the same expert
what-exploring-buys.png   where three strategies look, and what they lose
four-paths-reward.png     what the expert wants on Four Paths, as `aceirl show` draws it
taxi-policy.png           the policy recovered on Taxi, over the environment's own rendering

The interview's are taken in a browser (tests/browser/pictures.py), the planner's by `benchmarks/planner.py --picture`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrow, FancyBboxPatch
from PIL import Image

from aceirl import (
    ActiveIRL,
    Answers,
    Engine,
    ExpertKind,
    FeasibleRewardSet,
    Question,
    Settings,
    Simulator,
    Turn,
    load,
    make,
    rewards,
)
from aceirl.envs import Problem
from aceirl.explain.pictures import figures
from aceirl.explain.plots import COLOURS, INK, LINE, MARK, MUTED, RULE, save
from aceirl.models.tabular.mdp import FloatArray

matplotlib.use("agg")
IMAGES = Path(__file__).parent / "images"
ARROWS = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])  # left, up, right, down, as Gridworld has them
STAGES = ("plan", "walk and ask", "count", "infer", "certify")


def cell(ax: Axes, state: int, size: int, colour: object, edge: str = RULE, hatch: str = "") -> None:
    """A cell of a grid whose states go up the columns, from the left."""
    x, y = divmod(state, size)
    box = FancyBboxPatch((x - 0.44, y - 0.44), 0.88, 0.88, boxstyle="round,pad=0,rounding_size=0.12")
    box.set(facecolor=colour, edgecolor=edge, linewidth=0.8, hatch=hatch)
    ax.add_patch(box)


def arrow(ax: Axes, state: int, size: int, action: int, colour: str = INK) -> None:
    """An action, in the cell of its state."""
    at, way = np.array(divmod(state, size)), 0.5 * ARROWS[action]
    ax.add_patch(
        FancyArrow(*(at - way / 2), *way, width=0.05, head_width=0.24, head_length=0.2, length_includes_head=True,
                   color=colour, linewidth=0)
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Stage:
    """What one frame shows: the number of its stage, a sentence, and how the map is drawn."""

    number: int
    words: str
    draw: Callable[[Axes], None]
    seconds: float = 2.2


@dataclass(frozen=True, eq=False)
class Iteration:
    """One iteration of the loop in a room of 5 by 5 cells, after a few others, and what it came to."""

    problem: Problem
    size: int
    before: Turn
    after: Turn
    follow: FloatArray

    @classmethod
    def played(cls, number: int = 3, seed: int = 10) -> Iteration:
        """Drive the engine as any program does: it asks, we tell."""
        size = 5
        problem = make("gridworld", seed=0, size=size, horizon=12, failure=0.1, obstacle=0.0)
        best = problem.expert[0].argmax(axis=1)
        settings = Settings(seed=seed, infer_after_growth=0)
        engine = Engine(Simulator(problem.mdp), Answers(ExpertKind(stationary=True)), settings)
        turns: list[Turn] = []
        while len(turns) < number:
            belief, step = engine.belief, engine.ask()
            if isinstance(step, Question):
                engine.tell(int(best[step.state]))
                continue
            plan = settings.strategy.plan(belief, np.random.default_rng(0))
            turns.append(step)
        assert plan.follow is not None
        return cls(problem, size, turns[-2], turns[-1], np.broadcast_to(plan.follow, problem.mdp.shape[:2])[0])

    def known(self, ax: Axes, answers: FloatArray, colours: FloatArray | None = None) -> None:
        """The cells, with what the expert is known to do in them."""
        for state in range(self.size**2):
            answered = bool(answers[state].any())
            colour = COLOURS(colours[state]) if colours is not None else "#e3efe4" if answered else "white"
            cell(ax, state, self.size, colour, hatch="" if answered or colours is not None else "////")
            dark = colours is not None and colours[state] > 0.5
            if answered:
                arrow(ax, state, self.size, int(answers[state].argmax()), "white" if dark else INK)

    def stages(self) -> Iterator[Stage]:
        """Frame after frame."""
        before = self.before.counts.answers.sum(axis=0).astype(float)

        def planned(ax: Axes) -> None:
            self.known(ax, before)
            for state in np.flatnonzero((self.follow < 1) & before.any(axis=1)).tolist():
                cell(ax, state, self.size, "none", edge=MARK)

        yield Stage(
            0,
            "Follow the expert. In the framed cells,\nsometimes try what it declined.\nHatched: no answer yet.",
            planned,
            3.5,
        )
        yield from self._walk(before.copy())
        asked = self.after.counts.answers.sum(axis=0).astype(float)
        visits = self.after.counts.visits.sum(axis=(0, 2))

        def counted(ax: Axes) -> None:
            self.known(ax, np.zeros_like(asked), np.sqrt(visits / visits.max()))
            for state in np.flatnonzero(visits).tolist():
                dark = np.sqrt(visits[state] / visits.max()) > 0.5
                ax.text(*divmod(state, self.size), str(visits[state]), ha="center", va="center",
                        color="white" if dark else INK, fontsize=11)  # fmt: skip

        yield Stage(2, "Visits, transitions and answers\nare added up.", counted, 3.0)
        found = self.after.explanation
        assert found is not None
        worth = np.clip(found.by_state, 0, None)

        def inferred(ax: Axes) -> None:
            self.known(ax, asked, worth / max(1e-9, worth.max()))

        share = f"{found.explained} of the {found.compared} answers that\ncan be compared so far"
        yield Stage(3, f"A simple reward explains\n{share}.\nDark: where the expert wants to be.", inferred, 3.5)
        certificate = self.after.certificate("policy")

        def certified(ax: Axes) -> None:
            self.known(ax, asked)

        lost, asked_for = f"{certificate.value:.3g} of {certificate.possible:.3g}", f"{certificate.epsilon:.2g}"
        words = f"Doing what the expert said loses\nat most {lost} so far.\n{asked_for} was asked: "
        yield Stage(4, words + ("stop." if certificate.holds else "go round again."), certified, 4.0)

    def _walk(self, asked: FloatArray) -> Iterator[Stage]:
        episode = self.after.episodes[0]
        new = {(step, state): action for step, state, action in episode.answers}
        path = [episode.start]
        for step, state, action, successor in episode.walk:
            question = (step, state) in new
            trail, known = list(path), asked.copy()

            def at(ax: Axes, trail: list[int] = trail, known: FloatArray = known, ask: bool = question) -> None:
                self.known(ax, known)
                xs, ys = np.array([divmod(s, self.size) for s in trail], dtype=float).T
                ax.plot(xs, ys, color=LINE, linewidth=2.5, alpha=0.6)
                ax.plot(xs[-1], ys[-1], "o", color=LINE, markersize=15, markeredgecolor="white")
                if ask:
                    ax.text(xs[-1], ys[-1], "?", color="white", ha="center", va="center", fontsize=11, weight="bold")

            words = "What would you do here?" if question else "This cell is known."
            said = new[step, state] if question else int(asked[state].argmax())
            words += "" if action == said else "\nThe plan tries something else."
            yield Stage(1, f"Step {step + 1} of {len(episode.walk)}.\n{words}", at, 1.2 if question else 0.6)
            if question:
                asked[state] = np.eye(4)[new[step, state]]
            path.append(successor)


def frame(iteration: Iteration, stage: Stage) -> Image.Image:
    """A frame of the animation: the map, and beside it the stages and a sentence."""
    figure = Figure(figsize=(7.2, 4.2), facecolor="white")
    ax = figure.add_axes((0.01, 0.04, 0.53, 0.92))
    grid(ax, iteration.size)
    stage.draw(ax)
    for i, name in enumerate(STAGES):
        here = i == stage.number
        figure.text(0.58, 0.88 - 0.085 * i, f"{i + 1}  {name}", fontsize=13, color=INK if here else MUTED,
                    weight="bold" if here else "normal")  # fmt: skip
    figure.text(0.58, 0.38, stage.words, fontsize=11.5, color=INK, va="top", linespacing=1.5)
    return drawn(figure, 100)


def grid(ax: Axes, size: int) -> None:
    ax.set(xlim=(-0.5, size - 0.5), ylim=(-0.5, size - 0.5), aspect="equal")
    ax.axis("off")


def drawn(figure: Figure, dpi: int) -> Image.Image:
    """A figure as pixels."""
    buffer = BytesIO()
    figure.savefig(buffer, dpi=dpi, format="png")
    return Image.open(buffer).convert("RGB")


def one_iteration_gif(path: Path) -> None:
    iteration = Iteration.played()
    stages = list(iteration.stages())
    frames = [frame(iteration, stage).quantize(64, dither=Image.Dither.NONE) for stage in stages]
    # It plays three times and then rests on its last frame.
    durations = [int(1000 * stage.seconds) for stage in stages]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=durations, loop=2, optimize=True)


def one_iteration_png(path: Path) -> None:
    iteration = Iteration.played()
    last = {stage.number: stage for stage in iteration.stages()}
    figure = Figure(figsize=(12, 2.9), facecolor="white")
    for i, (number, stage) in enumerate(sorted(last.items())):
        ax = figure.add_axes((0.005 + 0.2 * i, 0.02, 0.19, 0.82))
        grid(ax, iteration.size)
        stage.draw(ax)
        ax.set_title(f"{number + 1}  {STAGES[number]}", fontsize=13, color=INK)
    figure.savefig(path, dpi=110)


def many_rewards_png(path: Path) -> None:
    problem = make("gridworld", seed=0)
    feasible = FeasibleRewardSet.of_problem(problem.mdp, problem.expert, rmax=1.0)
    centre = np.zeros(problem.mdp.shape)
    centre[:, 4] = 1.0
    shown = {
        "the truth": problem.reward,
        "the same everywhere": np.full(problem.mdp.shape, 0.5),
        "most for the centre": rewards.extreme(feasible, centre).reward,
        "pays what the expert does": problem.expert,
    }
    figure = Figure(figsize=(11, 3.1), facecolor="white")
    best = problem.expert[0].argmax(axis=1)
    for i, (name, reward) in enumerate(shown.items()):
        assert rewards.contains(feasible, reward), name
        ax = figure.add_axes((0.01 + 0.25 * i, 0.02, 0.23, 0.84))
        grid(ax, 3)
        paid = reward[:, np.arange(9), best].mean(axis=0)
        for state in range(9):
            cell(ax, state, 3, COLOURS(paid[state]))
            arrow(ax, state, 3, int(best[state]), "white" if paid[state] > 0.5 else INK)
        ax.set_title(name, fontsize=13, color=INK)
    figure.savefig(path, dpi=110)


def what_exploring_buys_png(path: Path) -> None:
    problem = make("four-paths", seed=0)
    goal = int(problem.reward.max(axis=(0, 2)).argmax())
    figure = Figure(figsize=(11, 4.2), facecolor="white")
    for i, strategy in enumerate(("random", "ace", "guided")):
        result = ActiveIRL(strategy=strategy, seed=0, max_samples=1000, certify=None, episodes_per_iteration=5).fit(
            problem
        )
        visits = result.turn.counts.visits.sum(axis=(0, 2))
        ax = figure.add_axes((0.01 + 0.333 * i, 0.02, 0.31, 0.8))
        position = problem.layout.positions
        ax.set(xlim=(position.min() - 0.7, position.max() + 0.7), ylim=(position.min() - 0.7, position.max() + 0.7))
        ax.set_aspect("equal")
        ax.axis("off")
        for state, (x, y) in enumerate(position):
            share = np.log1p(visits[state]) / np.log1p(visits.max())
            box = FancyBboxPatch((x - 0.42, y - 0.42), 0.84, 0.84, boxstyle="round,pad=0,rounding_size=0.1")
            box.set(facecolor=COLOURS(share) if visits[state] else "white", edgecolor=MARK if state == goal else RULE)
            box.set_linewidth(2.2 if state == goal else 0.8)
            ax.add_patch(box)
        met = int((visits > 0).sum())
        ax.set_title(
            f"{strategy}: {met} of 41 states met\nthe policy loses {result.regret:.0%}", fontsize=12, color=INK
        )
    figure.savefig(path, dpi=110)


def drawn_by_show(environment: str, expert: str | None, name: str, path: Path, **choices: int) -> None:
    """One of the pictures that `aceirl show` draws of a run."""
    with TemporaryDirectory() as folder:
        run = ActiveIRL(**choices).fit(environment, expert).save(Path(folder) / "run")
        save(figures(load(run))[name], path.with_suffix(""), ("png",))


PICTURES: dict[str, Callable[[Path], None]] = {
    "one-iteration.gif": one_iteration_gif,
    "one-iteration.png": one_iteration_png,
    "many-rewards.png": many_rewards_png,
    "what-exploring-buys.png": what_exploring_buys_png,
    "four-paths-reward.png": partial(drawn_by_show, "four-paths", None, "reward"),
    "taxi-policy.png": partial(drawn_by_show, "Taxi-v4", "optimal", "policy", max_samples=20_000),
}

if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name](IMAGES / name)
        print(IMAGES / name)
