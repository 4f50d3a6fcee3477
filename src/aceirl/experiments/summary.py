"""One run in words, numbers and pictures."""

from __future__ import annotations

import base64
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from aceirl.certificates import KINDS
from aceirl.counts import Estimate
from aceirl.envs import Layout
from aceirl.errors import InputError
from aceirl.irl import worth_of_answers
from aceirl.loop import Record, State, certify, estimate, target
from aceirl.mdp import BoolArray, FloatArray
from aceirl.runs import Run
from aceirl.tasks import Task, layout, open_task

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


def in_words(run: Run) -> str:
    """What a run found, for someone who was not there."""
    return "\n".join(_words(_Findings(run)))


def draw(run: Run) -> list[Path]:
    """The pictures of a run and a page that holds them all, in the run's own folder."""
    from aceirl.experiments import maps, plots

    found = _Findings(run)
    records, state, layout = found.records, found.state, found.layout
    folder = run.path / "pictures"
    samples = [record.samples for record in records]
    asked = run.settings.certify
    goal = target(run.settings, state.counts.shape[0])
    promised = [record.certificates[asked] if asked else record.bound for record in records]
    # The scale is logarithmic: what is certain altogether is drawn far below what was asked.
    figures = {"bound": plots.bound_curve(samples, np.maximum(promised, goal / 100), goal)}
    if records[-1].regret is not None:
        figures["learning"] = plots.learning_curve(
            samples, [record.regret or 0.0 for record in records], run.settings.until_regret
        )
    if layout is not None and len(layout.drawn) and state.recovered is not None and state.policy is not None:
        answered = found.answered
        figures["visits"] = maps.visits(layout, state.counts.visits)
        figures["reward"] = maps.reward(layout, state.recovered.reward, state.counts.visits.any(axis=(0, 2)))
        figures["policy"] = maps.policy(layout, np.eye(state.counts.shape[2])[state.policy], answered)
        figures["why-here"] = maps.worth(layout, found.worth, answered.any(axis=0))
    elif found.task is not None:
        most = found.worthiest(MOST_SHARES)
        figures["why-here"] = plots.shares([found.name(s) for s in most], found.worth[most])
    folder.mkdir(exist_ok=True)
    written = [path for name, figure in figures.items() for path in plots.save(figure, folder / name)]
    return [_page(found, [path for path in written if path.suffix == ".svg"]), *written]


class _Findings:
    """A run, opened again: what it recorded, what it was about, and what follows from that."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.records, self.state = _finished(run)

    @cached_property
    def task(self) -> Task | None:
        return None if self.run.source is None else open_task(self.run.source)

    @cached_property
    def layout(self) -> Layout | None:
        return None if self.run.source is None else layout(self.run.source, self.state.names)

    @cached_property
    def estimate(self) -> Estimate:
        assert self.task is not None
        return estimate(self.task.environment, self.task.expert, self.run.settings, self.state.counts)

    @cached_property
    def answered(self) -> BoolArray:
        """`[H, S]`: where an answer of the expert counts."""
        return np.asarray(self.estimate.kind.pooled(self.state.counts.answers).any(axis=2))

    @cached_property
    def worth(self) -> FloatArray:
        """`[S]`: the share of each state in what the answers are worth."""
        assert self.state.recovered is not None
        assert self.state.policy is not None
        return worth_of_answers(self.estimate, self.state.recovered, self.state.policy)

    def worthiest(self, n: int) -> list[int]:
        """The states whose answers are worth most, at most `n` of them."""
        order = np.argsort(-self.worth, kind="stable")[:n]
        return [int(s) for s in order if self.worth[s] > 0]

    def name(self, state: int) -> str:
        return str(state) if self.layout is None else self.layout.state_names[state]


def _words(found: _Findings) -> list[str]:
    run, last = found.run, found.records[-1]
    lines = [
        f"{run.source.environment if run.source else 'A run from Python'}, strategy {run.settings.strategy}: "
        f"{last.samples:,} steps in {last.episodes:,} episodes, {last.answers:,} answers from the expert.",
        STOPPED[last.stopped],
    ]
    if not last.answers:
        lines.append("The expert never answered, so there is nothing to go by: the recovered reward means nothing.")
    elif found.layout is not None:
        lines.append(_where_the_reward_is(found.state, found.layout))
    if found.task is not None and (most := found.worthiest(3)):
        told = "; ".join(f"{found.name(s)} ({found.worth[s]:.0%})" for s in most)
        lines.append(f"The answers that mattered most, by their share of what all are worth: {told}.")
    if last.regret is not None:
        lines.append(
            f"Acting on it loses {last.regret:.1%} of what lies between the best and the worst behaviour "
            "(measured against the truth, which the software did not see)."
        )
    if found.task is not None:
        lines += _what_is_certain(found)
    return lines


def _finished(run: Run) -> tuple[list[Record], State]:
    records, state = run.records(), run.state()
    if not records or state is None:
        raise InputError(f"{run.path} has no finished iteration yet")
    return records, state


def _where_the_reward_is(state: State, layout: Layout) -> str:
    """Where the recovered reward is largest on average over steps, among states that were visited, by name."""
    assert state.recovered is not None
    by_state = state.recovered.reward.mean(axis=0).max(axis=1)
    by_state = np.where(state.counts.visits.any(axis=(0, 2)), by_state, -np.inf)
    best = np.flatnonzero(by_state >= by_state.max() - 1e-9)
    names = "; ".join(layout.state_names[s] for s in best[:4])
    return f"The recovered reward is largest in {names}{'; and others' if len(best) > 4 else ''}."


def _what_is_certain(found: _Findings) -> list[str]:
    """The certificate that was asked for in full; the others, where they hold, in a line each."""
    task, settings = found.task, found.run.settings
    assert task is not None
    names = found.layout.state_names if found.layout else ()
    certificates = [certify(kind, task.environment, task.expert, settings, found.state) for kind in KINDS]
    lines = [certificate.in_words(names) for certificate in certificates if certificate.kind == settings.certify]
    low, high = task.reward_range or (0.0, settings.rmax)
    if settings.certify == "policy" and not 0 <= low <= high <= settings.rmax:
        value = (high - low) / settings.rmax * certificates[0].value
        lines.append(
            f"The environment's own rewards lie between {low:g} and {high:g}; in those it is at most {value:.3g}."
        )
    return lines + [c.in_words(names) for c in certificates if c.holds and c.kind != settings.certify]


def _page(found: _Findings, pictures: list[Path]) -> Path:
    from jinja2 import Environment, PackageLoader

    template = Environment(loader=PackageLoader("aceirl.experiments"), autoescape=True).get_template("run.html")
    images = {path.stem: base64.b64encode(path.read_bytes()).decode() for path in pictures}
    path = found.run.path
    page = path / "report.html"
    page.write_text(template.render(title=path.name, words=_words(found), images=images))
    return page
