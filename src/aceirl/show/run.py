"""One run in words, numbers and pictures."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from aceirl.certificates import KINDS, amount
from aceirl.engine import Engine, Record, RunState, Turn
from aceirl.errors import InputError
from aceirl.loop import answers_of
from aceirl.mdp import BoolArray, FloatArray
from aceirl.rewards import answer_importance
from aceirl.runs import Run
from aceirl.sources import Task, layout, open_source, state_names

MOST_SHARES = 12  # of the states whose answers mattered, if they are listed

STOPPED = {
    "certificate": "It stopped because the certificate that was asked for holds.",
    "regret": "It stopped because the regret is as low as was asked for.",
    "budget": "It stopped because the budget of samples is spent.",
    None: "It was interrupted; `aceirl resume` goes on with it.",
}


def outcome(run: Run) -> dict[str, Any]:
    """The result of a run as plain values, for one line of JSON."""
    records, _ = _finished(run)
    last = records[-1]
    return {
        "samples": last.samples,
        "iterations": last.iteration,
        "answers": last.answers,
        "regret": last.regret,
        "stopped": last.stopped,
        "bound": last.bound,
        "certificates": last.certificates,
        "seconds": sum(record.seconds for record in records),
        "directory": str(run.path),
    }


def in_words(run: Run, task: Task | None = None) -> str:
    """What a run found, for someone who was not there. A `task` that is open already is not opened again."""
    with _opened(run, task) as found:
        return "\n".join(_words(found))


def draw(run: Run) -> list[Path]:
    """The pictures of a run and a page that holds them all, in the run's own folder."""
    with _opened(run) as found:
        return _draw(found)


@contextmanager
def _opened(run: Run, task: Task | None = None) -> Iterator[_Opened]:
    if task is not None or run.source is None:
        yield _Opened(run, task)
        return
    with open_source(replace(run.source, num_envs=1)) as task:
        yield _Opened(run, task)


def _draw(found: _Opened) -> list[Path]:
    from aceirl.show import maps, plots

    run, records, state = found.run, found.records, found.state
    drawing = None if run.source is None else layout(run.source, state.names)
    folder = run.path / "pictures"
    samples = [record.samples for record in records]
    asked = run.settings.certify
    goal = run.settings.target(state.counts.shape[0]).epsilon
    promised = [record.certificates[asked.name] if asked else record.bound for record in records]
    # The scale is logarithmic: what is certain altogether is drawn far below what was asked.
    figures = {"bound": plots.bound_curve(samples, np.maximum(promised, goal / 100), goal)}
    if records[-1].regret is not None:
        figures["learning"] = plots.learning_curve(
            samples, [record.regret or 0.0 for record in records], run.settings.until_regret
        )
    if drawing is not None and len(drawing.drawn):
        answered, turn = found.answered, found.turn
        figures["visits"] = maps.visits(drawing, state.counts.visits)
        figures["reward"] = maps.reward(drawing, turn.belief.recovered.reward, state.counts.visits.any(axis=(0, 2)))
        figures["policy"] = maps.policy(drawing, np.eye(state.counts.shape[2])[turn.policy], answered)
        figures["why-here"] = maps.importance(drawing, found.importance, answered.any(axis=0))
    elif found.task is not None and (most := found.most_important(MOST_SHARES)):
        figures["why-here"] = plots.shares([found.names[s] for s in most], found.importance[most])
    folder.mkdir(exist_ok=True)
    written = [path for name, figure in figures.items() for path in plots.save(figure, folder / name)]
    return [_page(found, [path for path in written if path.suffix == ".svg"]), *written]


class _Opened:
    """A run, opened again: what it recorded, what it was about, and what follows from that."""

    def __init__(self, run: Run, task: Task | None) -> None:
        self.run, self.task = run, task
        self.records, self.state = _finished(run)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What people call the states."""
        return () if self.task is None else state_names(self.task, self.state.names)

    @cached_property
    def turn(self) -> Turn:
        """The last turn, as it was."""
        assert self.task is not None
        answers = answers_of(self.task.expert, self.run.settings)
        return Engine(self.task.environment, answers, self.run.settings, state=self.state).last_turn

    @cached_property
    def answered(self) -> BoolArray:
        """`[H, S]`: where an answer of the expert counts."""
        return np.asarray(self.turn.belief.estimate.expert_uses.any(axis=2))

    @cached_property
    def importance(self) -> FloatArray:
        """`[S]`: how important the answers in each state are, as shares."""
        return answer_importance(self.turn.belief.estimate, self.turn.belief.recovered, self.turn.policy)

    def most_important(self, n: int) -> list[int]:
        """The states whose answers matter most, at most `n` of them."""
        order = np.argsort(-self.importance, kind="stable")[:n]
        return [int(s) for s in order if self.importance[s] > 0]


def _words(found: _Opened) -> list[str]:
    run, last = found.run, found.records[-1]
    lines = [
        f"{run.source.environment if run.source else 'A run from Python'}, strategy {run.settings.named('strategy')}: "
        f"{last.samples:,} steps in {last.episodes:,} episodes, {last.answers:,} answers from the expert.",
        STOPPED[last.stopped],
    ]
    if not last.answers:
        lines.append("There is no answer of the expert to go by: the recovered reward means nothing.")
    elif found.task is not None:
        lines.append(_where_the_reward_is(found))
    if found.task is not None and (most := found.most_important(3)):
        told = "; ".join(f"{found.names[s]} ({found.importance[s]:.0%})" for s in most)
        lines.append(f"The answers that mattered most, by what a guess there would cost, as a share of it all: {told}.")
    if found.task is not None and last.answers and (silent := _silent(found)):
        lines.append(f"In {silent:,} of the states met the expert has said nothing, and more steps cannot change that.")
    if last.regret is not None:
        lines.append(
            f"Acting on it loses {last.regret:.1%} of what lies between the best and the worst behaviour "
            "(measured against the truth, which the software did not see)."
        )
    if found.task is not None:
        lines += _what_is_certain(found)
    return lines


def _finished(run: Run) -> tuple[list[Record], RunState]:
    records, state = run.records(), run.state()
    if not records or state is None:
        raise InputError(f"{run.path} has no finished iteration yet")
    return records, state


def _silent(found: _Opened) -> int:
    """How many states were visited and never answered for, by an expert who was asked everywhere."""
    limit, counts = found.run.settings.max_answers, found.state.counts
    if limit is not None and counts.questions >= limit:
        return 0
    return int((counts.visits.any(axis=(0, 2)) & ~counts.answers.any(axis=(0, 2))).sum())


def _where_the_reward_is(found: _Opened) -> str:
    """Where the recovered reward is largest on average over steps, among states that were visited, by name."""
    state = found.state
    by_state = found.turn.belief.recovered.reward.mean(axis=0).max(axis=1)
    by_state = np.where(state.counts.visits.any(axis=(0, 2)), by_state, -np.inf)
    best = np.flatnonzero(by_state >= by_state.max() - 1e-9)
    names = "; ".join(found.names[s] for s in best[:4])
    others = "; and others" if len(best) > 4 else ""
    return (
        f"The recovered reward is largest in {names}{others}. It is one of many that explain the answers, and need not "
        "lie where the expert's goal does."
    )


def _what_is_certain(found: _Opened) -> list[str]:
    """The certificate that was asked for in full; the others, where they hold, in a line each."""
    task, settings = found.task, found.run.settings
    assert task is not None
    asked = settings.certify.name if settings.certify else None
    certificates = [found.turn.certificate(kind) for kind in KINDS]
    lines = [certificate.in_words(found.names) for certificate in certificates if certificate.kind == asked]
    low, high = task.reward_range or (0.0, settings.rmax)
    if asked == "policy" and not 0 <= low <= high <= settings.rmax:
        value = (high - low) / settings.rmax * certificates[0].value
        lines.append(
            f"The environment's own rewards lie between {low:g} and {high:g}; in those it is at most {amount(value)}."
        )
    return lines + [c.in_words(found.names) for c in certificates if c.holds and c.kind != asked]


def _page(found: _Opened, pictures: list[Path]) -> Path:
    from jinja2 import Environment, PackageLoader

    template = Environment(loader=PackageLoader("aceirl.show"), autoescape=True).get_template("run.html")
    images = {path.stem: base64.b64encode(path.read_bytes()).decode() for path in pictures}
    path = found.run.path
    page = path / "report.html"
    page.write_text(template.render(title=path.name, words=_words(found), images=images))
    return page
