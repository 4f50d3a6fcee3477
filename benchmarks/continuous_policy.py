"""Continuous observations without bins: answers to a good policy, and how little a gate asks that is certified.

    python benchmarks/continuous_policy.py [--seeds N] [--only CartPole ...] [--keep FOLDER]

The experts are controllers (`studies/controllers.py`). *Answers to 95 %* is how many answers the committee had when the
policy alone, without its gate, first earned 95 % of the expert's return on 40 fresh episodes; tried after each of a row
of numbers, and beside it the same for DAgger (Ross et al. 2011) with the same committee, whose every step is an answer.
*Asks at most* is the certified share of steps after so many answers, for a loss of at most a tenth of what two episodes
can differ by, at δ = 0.1, with 1,000 demonstrations that nothing is learned from; *asks* and *loses* are what the same
gate does on 300 further demonstrations. Constants were chosen on seeds 0 to 4, and the seeds here begin with 100.
LunarLander needs Box2D (`pip install swig box2d-py`), and is left out without it. With --keep, finished runs are kept
in a folder and not made again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import _frame as frame
import numpy as np
from joblib import Parallel, delayed

from aceirl.certificates.gated import Demonstrated, certify
from aceirl.errors import InputError
from aceirl.experts.tasks.continuous import ContinuousTask
from aceirl.irl.belief import Target
from aceirl.learner.continuous import collect
from aceirl.learner.continuous.collect import Answered, demonstrated, last_fit, rounds
from aceirl.models.vectors.choices import ActionChoices
from aceirl.models.vectors.committee import NetworkCommittee, Schedule, fitted
from studies.controllers import TASKS, earned

FIRST_SEED, EPISODES, DEMONSTRATIONS, FURTHER = 100, 40, 1_000, 300
MARKS = (20, 30, 40, 50, 60, 80, 100, 125, 150, 200, 250, 300, 400, 500, 700, 1_000, 1_500, 2_000, 3_000, 4_000)
SHARE, DELTA = 0.1, 0.1


def policy_of(task: ContinuousTask, answers: Answered, seed: int) -> tuple[NetworkCommittee, ActionChoices, Any]:
    """The committee, its choices, and what it does."""
    committee, choices = last_fit(answers, task.encoding, seed)

    def act(observation: Any, step: int) -> Any:
        return choices.values[committee.decide(task.encoding.vector(observation)[None])[0][0]]

    return committee, choices, act


def asked(task: ContinuousTask, seed: int, wanted: int, state: Answered | None = None) -> Answered:
    """So many answers, asked where the committee is unsure."""
    found = [*([] if state is None else [state]), *rounds(task, seed, wanted, 10**7, state)]
    return found[-1]


def dagger(task: ContinuousTask, seed: int, wanted: int, state: Answered | None) -> Answered:
    """DAgger: the committee acts, and every step it takes is answered; fits grow as ours do."""
    state = state or collect.first_answers(task, seed, min(collect.FIRST, wanted))
    seen, said = list(state.observations), list(state.actions)
    episodes, committee, fitted_at, choices = state.episodes, None, 0, state.choices(task.encoding)
    while len(seen) < wanted:
        observation = task.reset(collect.episode_seed(seed, collect.LEARNING, episodes))
        episodes += 1
        for step in range(task.horizon):
            if committee is None or len(seen) >= fitted_at + max(collect.LEAST_NEW, fitted_at // collect.GROWTH):
                now = Answered(np.array(seen), np.array(said))
                choices, fitted_at = now.choices(task.encoding), len(seen)
                schedule = Schedule(collect.SHORT, collect.COOL, collect.FEW_AT_ONCE)
                numbers = choices.numbers(now.actions)
                known = max(2, len(choices))
                committee = fitted(now.observations, numbers, known, schedule, seed=(seed, fitted_at), start=committee)
            vector = task.encoding.vector(observation)
            seen.append(vector)
            said.append(task.answer(observation, step))
            observation, terminated, truncated = task.step(choices.values[committee.decide(vector[None])[0][0]])
            if terminated or truncated or len(seen) >= wanted:
                break
    return Answered(np.array(seen), np.array(said), episodes=episodes, samples=len(seen))


def one(name: str, seed: int, keep: Path | None, certified: bool) -> dict[str, Any]:
    """A run of one task, with both questions; read from the folder if it is there."""
    path = None if keep is None else keep / f"{name}-{seed}-{certified}.json"
    if path is not None and path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    spec, began = TASKS[name], time.process_time()
    task = spec.open()
    expert = earned(task, task.answer, EPISODES)
    enough = expert - 0.05 * abs(expert)
    row: dict[str, Any] = {"expert": expert, "ours": None, "dagger": None, "returned": None}
    for kind in ("ours", "dagger"):
        state: Answered | None = None
        for mark in (mark for mark in MARKS if mark <= 2 * spec.few):
            if kind == "ours":
                state = asked(task, seed, mark, state)
            else:
                state = dagger(task, seed, mark, state)
            if earned(task, policy_of(task, state, seed)[2], EPISODES) >= enough:
                row[kind] = mark
                break
    row |= certificate(task, name, seed) if certified else {}
    row["seconds"] = time.process_time() - began
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(row))
    return row


def certificate(task: ContinuousTask, name: str, seed: int) -> dict[str, Any]:
    """What is certified after `many` answers, and what the gate does on further demonstrations."""
    spec = TASKS[name]
    state = asked(task, seed, spec.many)
    committee, choices, act = policy_of(task, state, seed)
    shown = demonstrated(task, choices, seed, 0, DEMONSTRATIONS + FURTHER)
    chosen, scores = committee.decide(shown.observations)
    all_of_it = Demonstrated(scores, chosen == choices.numbers(shown.actions), shown.lengths)
    target = Target(SHARE * spec.horizon, DELTA, 1.0)
    promise = certify(all_of_it.part(0, DEMONSTRATIONS), target, spec.horizon, DELTA)
    further = all_of_it.part(DEMONSTRATIONS, len(all_of_it))
    return {
        "promised": promise.asks,
        "asks": float(further.asked(promise.threshold).mean()),
        "loses": float(further.losses(promise.threshold, target.losses(spec.horizon)).mean()),
        "returned": earned(task, act, EPISODES),
        "samples": state.samples,
    }


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """A row for each task in both tables."""
    answers = report.table(
        "continuous-answers",
        frame.Column("task"),
        frame.number("expert's return", "{:.4g}"),
        frame.number("answers to 95 %, median"),
        frame.number("most", "{}"),
        frame.number("wanted"),
        frame.number("reached in", "{}"),
        frame.number("DAgger, median", "{}"),
        frame.number("most of DAgger", "{}"),
        page="continuous.md",
    )
    seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
    rows = {}
    names = [name for name in options.only if is_there(name)]
    for name in names:
        jobs = (delayed(one)(name, seed, options.keep, seed < FIRST_SEED + options.certified) for seed in seeds)
        rows[name] = found = Parallel(options.jobs)(jobs)
        ours = [row["ours"] for row in found]
        within = sum(mark is not None and mark <= TASKS[name].few for mark in ours)
        answers.add(
            name,
            statistics.mean(row["expert"] for row in found),
            _median(ours),
            _most(ours, name),
            TASKS[name].few,
            f"{within} of {len(ours)}",
            _median([row["dagger"] for row in found]),
            _most([row["dagger"] for row in found], name),
        )
    promises = report.table(
        "continuous-promises",
        frame.Column("task"),
        frame.number("answers"),
        frame.number("runs"),
        frame.number("asks at most, median", _percent),
        frame.number("most", _percent),
        frame.number("wanted", _percent),
        frame.number("asks", _percent),
        frame.number("loses", "{:.3f}"),
        frame.number("loses more than 0.1", "{}"),
        frame.number("return without the gate", "{:.4g}"),
        frame.number("steps", "{:,.0f}"),
        page="continuous.md",
    )
    for name in names:
        known = [row for row in rows[name] if "promised" in row]
        if not known:
            continue
        promised = [row["promised"] for row in known]
        promises.add(
            name,
            TASKS[name].many,
            len(known),
            statistics.median(promised),
            max(promised),
            TASKS[name].asks,
            statistics.mean(row["asks"] for row in known),
            statistics.mean(row["loses"] for row in known),
            sum(row["loses"] > SHARE for row in known),
            statistics.mean(row["returned"] for row in known),
            statistics.mean(row["samples"] for row in known),
        )


def is_there(name: str) -> bool:
    """Whether the task's environment can be made here; a line says so if it cannot."""
    try:
        TASKS[name].open().close()
    except InputError as error:
        print(f"{name} is left out: {error}", file=sys.stderr)
        return False
    return True


def _median(marks: list[int | None]) -> int | None:
    """The median, where those that were never reached count as more than any; None if it is one of those."""
    ordered = sorted(marks, key=lambda mark: mark or 10**9)
    return ordered[(len(ordered) - 1) // 2]


def _most(marks: list[int | None], name: str) -> str:
    reached = [mark for mark in marks if mark is not None]
    return f"{max(reached)}" if len(reached) == len(marks) else f"> {2 * TASKS[name].few}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--seeds", type=int, default=10),
        frame.argument("--certified", type=int, default=10, help="of so many seeds the promise is made too"),
        frame.argument("--only", nargs="+", part=True, default=list(TASKS), choices=list(TASKS)),
        frame.argument("--jobs", type=int, default=1, help="processes"),
        frame.argument("--keep", type=Path, metavar="FOLDER", help="finished runs, which are not made again"),
    )
