"""One run in words, numbers and pictures."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np

from aceirl.certificates import KINDS
from aceirl.errors import InputError
from aceirl.loop import Record, State, certify, target
from aceirl.runs import Run
from aceirl.tasks import Task, open_task

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
    records, state = _finished(run)
    last = records[-1]
    task = None if run.source is None else open_task(run.source)
    lines = [
        f"{run.source.environment if run.source else 'A run from Python'}, strategy {run.settings.strategy}: "
        f"{last.samples:,} steps in {last.episodes:,} episodes, {last.answers:,} answers from the expert.",
        STOPPED[last.stopped],
    ]
    if task is not None and task.layout is not None:
        lines.append(_where_the_reward_is(state, task))
    if last.regret is not None:
        lines.append(
            f"Acting on it loses {last.regret:.1%} of what lies between the best and the worst behaviour "
            "(measured against the truth, which the software did not see)."
        )
    if task is not None:
        lines += _what_is_certain(run, task, state)
    return "\n".join(lines)


def draw(run: Run) -> list[Path]:
    """The pictures of a run and a page that holds them all, in the run's own folder."""
    from aceirl.experiments import plots

    records, state = _finished(run)
    task = None if run.source is None else open_task(run.source)
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
    if task is not None and task.layout is not None and state.recovered is not None and state.policy is not None:
        answered = state.counts.answers.sum(axis=2) > 0
        figures["visits"] = plots.visits(task.layout, state.counts.visits)
        figures["reward"] = plots.reward(task.layout, state.recovered.reward, state.counts.visits.any(axis=(0, 2)))
        figures["policy"] = plots.policy(task.layout, np.eye(state.counts.shape[2])[state.policy], answered)
    folder.mkdir(exist_ok=True)
    written = [path for name, figure in figures.items() for path in plots.save(figure, folder / name)]
    return [_page(run, [path for path in written if path.suffix == ".svg"]), *written]


def _finished(run: Run) -> tuple[list[Record], State]:
    records, state = run.records(), run.state()
    if not records or state is None:
        raise InputError(f"{run.path} has no finished iteration yet")
    return records, state


def _where_the_reward_is(state: State, task: Task) -> str:
    """Where the recovered reward is largest on average over steps, among states that were visited, by name."""
    assert state.recovered is not None
    assert task.layout is not None
    by_state = state.recovered.reward.mean(axis=0).max(axis=1)
    by_state = np.where(state.counts.visits.any(axis=(0, 2)), by_state, -np.inf)
    best = np.flatnonzero(by_state >= by_state.max() - 1e-9)
    names = ", ".join(task.layout.state_names[s] for s in best[:4])
    return f"The recovered reward is largest in {names}{' and others' if len(best) > 4 else ''}."


def _what_is_certain(run: Run, task: Task, state: State) -> list[str]:
    """The certificate that was asked for in full; the others, where they hold, in a line each."""
    asked = run.settings.certify
    certificates = [certify(kind, task.environment, task.expert, run.settings, state) for kind in KINDS]
    lines = [certificate.in_words() for certificate in certificates if certificate.kind == asked]
    low, high = task.reward_range or (0.0, run.settings.rmax)
    if asked == "policy" and not 0 <= low <= high <= run.settings.rmax:
        value = (high - low) / run.settings.rmax * certificates[0].value
        lines.append(
            f"The environment's own rewards lie between {low:g} and {high:g}; in those it is at most {value:.3g}."
        )
    return lines + [c.in_words() for c in certificates if c.holds and c.kind != asked]


def _page(run: Run, pictures: list[Path]) -> Path:
    from jinja2 import Environment, PackageLoader

    template = Environment(loader=PackageLoader("aceirl.experiments"), autoescape=True).get_template("run.html")
    images = {path.stem: base64.b64encode(path.read_bytes()).decode() for path in pictures}
    page = run.path / "report.html"
    page.write_text(template.render(title=str(run.path.name), words=in_words(run).split("\n"), images=images))
    return page
