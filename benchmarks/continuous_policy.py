"""Continuous observations without bins: answers to a good policy, and how little a gate asks that is certified.

    python benchmarks/continuous_policy.py [--seeds N] [--first SEED] [--only CartPole ...] [--keep FOLDER]

The experts are controllers (`studies/controllers.py`). *Answers to 95 %* is how many answers the committee had when the
policy alone, without its gate, first earned 95 % of the expert's return on 40 fresh episodes; tried after each of a row
of numbers, and beside it the same for DAgger (Ross et al. 2011) with the same committee, whose every step is an answer.
*Asks at most* is the certified share of steps after so many answers, for a loss of at most a tenth of what two episodes
can differ by, at δ = 0.1, with 1,000 demonstrations that nothing is learned from; *asks* and *loses* are what the same
gate does on 300 further demonstrations. *From recordings alone* nobody is asked: half of the recorded episodes are
learned from and the others calibrate the gate. Constants were chosen on seeds 0 to 4, by what a gate goes on 100 to
104 too; the seeds here begin with 100, in the docs those of promises with 110.
LunarLander needs Box2D (`pip install swig box2d-py`), and is left out without it. With --keep, finished runs are kept
in a folder and not made again; with --finished the tables are of these alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _frame as frame
import numpy as np
from joblib import Parallel, delayed

from aceirl import ActiveIRL, ContinuousResult
from aceirl.certificates.gated import Demonstrated, GatedCertificate, certify
from aceirl.errors import InputError
from aceirl.experts.tasks.continuous import ContinuousTask
from aceirl.irl.belief import Target
from aceirl.learner.continuous import collect
from aceirl.learner.continuous.collect import Answered, ExpertEpisodes, demonstrated, last_fit, rounds
from aceirl.models.vectors.choices import ActionChoices
from aceirl.models.vectors.committee import NetworkCommittee, Schedule, fitted
from studies.controllers import TASKS, earned, expert_of, policy_of

FIRST_SEED, EPISODES, DEMONSTRATIONS, FURTHER = 100, 40, 1_000, 300
MARKS = (20, 30, 40, 50, 60, 80, 100, 150, 200, 250, 300, 400, 500)
FEW_MARKS, DEAR = (100, 200, 300, 400, 500, 700, 1_000), 500
"""The numbers of answers after which a policy is tried; fewer of them where so many answers are wanted."""

SHARE, DELTA = 0.1, 0.1

RECORDED = (200, 1_000)
"""So many recorded episodes of CartPole make a promise by themselves."""


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


def kept(keep: Path | None, make: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
    """What is made of what is given, and the seconds it took; read from the folder if it is there."""
    path = place_of(keep, make, *given)
    if path is not None and path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    began = time.process_time()
    found = make(*given)
    found["seconds"] = time.process_time() - began
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found))
    return found


def place_of(keep: Path | None, make: Callable[..., dict[str, Any]], *given: Any) -> Path | None:
    """The file of a finished run, if runs are kept."""
    return None if keep is None else keep / f"{'-'.join(map(str, (make.__name__, *given)))}.json"


def answers(name: str, kind: str, seed: int) -> dict[str, Any]:
    """After how many answers the policy alone earns 95 % of the expert's return, asked as we do or by DAgger."""
    spec = TASKS[name]
    task = spec.open()
    expert = earned(spec, expert_of(task), EPISODES)
    state: Answered | None = None
    for mark in (mark for mark in (FEW_MARKS if spec.few >= DEAR else MARKS) if mark <= 2 * spec.few):
        state = (asked if kind == "ours" else dagger)(task, seed, mark, state)
        found = earned(spec, policy_of(*last_fit(state, task.encoding, seed), task), EPISODES)
        if found >= expert - 0.05 * abs(expert):
            return {"expert": expert, "mark": mark}
    return {"expert": expert, "mark": None}


def promise(name: str, seed: int) -> dict[str, Any]:
    """What is certified after `many` answers, and what the gate does on further demonstrations."""
    spec = TASKS[name]
    task = spec.open()
    state = asked(task, seed, spec.many)
    committee, choices = last_fit(state, task.encoding, seed)
    shown = demonstrated(task, choices, seed, 0, DEMONSTRATIONS + FURTHER)
    all_of_it = scored(committee, choices, shown)
    promised = certify(all_of_it.part(0, DEMONSTRATIONS), target_of(name), spec.horizon, DELTA)
    returned = earned(spec, policy_of(committee, choices, task), EPISODES)
    further = all_of_it.part(DEMONSTRATIONS, len(all_of_it))
    return promise_kept(name, promised, further) | {"returned": returned, "samples": state.samples}


def target_of(name: str) -> Target:
    """A loss of at most a tenth of what two episodes can differ by."""
    return Target(SHARE * TASKS[name].horizon, DELTA, 1.0)


def scored(committee: NetworkCommittee, choices: ActionChoices, shown: ExpertEpisodes) -> Demonstrated:
    """What the committee makes of demonstrations."""
    chosen, scores = committee.agree(shown.observations)
    return Demonstrated(scores, chosen == choices.numbers(shown.actions), shown.lengths)


def promise_kept(name: str, promise: GatedCertificate, further: Demonstrated) -> dict[str, Any]:
    """What is promised, and what the gate does on further demonstrations."""
    losses = target_of(name).losses(TASKS[name].horizon)
    return {
        "promised": promise.asks,
        "asks": float(further.asked(promise.threshold).mean()),
        "loses": float(further.losses(promise.threshold, losses).mean()),
    }


def recorded(episodes: int, seed: int) -> dict[str, Any]:
    """What is certified of CartPole from so many recorded episodes alone."""
    spec = TASKS["CartPole"]
    task = spec.open()
    assert task.encoding.choices is not None
    shown = demonstrated(task, task.encoding.choices, seed, 0, episodes + FURTHER)
    known, further = (shown.chosen(np.arange(*ends)) for ends in ((0, episodes), (episodes, episodes + FURTHER)))
    last = np.isin(np.arange(known.lengths.sum()), np.cumsum(known.lengths) - 1)
    terminals = last & np.repeat(known.ended, known.lengths)
    actions = known.actions[:, 0].astype(int)
    log = {
        "observations": known.observations,
        "actions": actions,
        "terminals": terminals,
        "timeouts": last & ~terminals,
    }
    found = ActiveIRL(seed=seed).fit(spec.environment, demonstrations=log, horizon=spec.horizon)
    assert isinstance(found, ContinuousResult)
    assert found.certificate is not None
    assert found.certificate.share == SHARE
    return promise_kept("CartPole", found.certificate, scored(found.policy.committee, found.policy.choices, further))


def measure(options: argparse.Namespace, report: frame.Report) -> None:
    """A row for each task in both tables."""
    names = [name for name in options.only if is_there(name)]
    seeds, beside, certified = (
        range(options.first, options.first + many) for many in (options.seeds, options.beside, options.certified)
    )

    def runs(make: Callable[..., dict[str, Any]], seeds: range, *given: Any) -> list[dict[str, Any]]:
        places = [(place_of(options.keep, make, *given, seed), seed) for seed in seeds]
        wanted = [seed for path, seed in places if not options.finished or (path is not None and path.exists())]
        found: list[dict[str, Any]] = Parallel(options.jobs)(
            delayed(kept)(options.keep, make, *given, seed) for seed in wanted
        )
        return found

    few = report.table(
        "continuous-answers",
        frame.Column("task"),
        frame.number("expert's return", "{:.4g}"),
        frame.number("answers to 95 %, median"),
        frame.number("most", "{}"),
        frame.number("wanted"),
        frame.number("reached in", "{}"),
        frame.number("runs of DAgger"),
        frame.number("DAgger, median", "{}"),
        frame.number("most of DAgger", "{}"),
        page="continuous.md",
    )
    for name in names:
        rows, others = runs(answers, seeds, name, "ours"), runs(answers, beside, name, "dagger")
        if not rows:
            continue
        ours, theirs = ([row["mark"] for row in kind] for kind in (rows, others))
        within = sum(mark is not None and mark <= TASKS[name].few for mark in ours)
        shown = [_median(ours), _most(ours, name), TASKS[name].few, f"{within} of {len(ours)}"]
        few.add(name, rows[0]["expert"], *shown, len(theirs), _median(theirs), _most(theirs, name))
    promises = report.table(
        "continuous-promises",
        frame.Column("task"),
        frame.number("answers"),
        *_promise_columns(),
        frame.number("wanted", _percent),
        frame.number("return without the gate", "{:.4g}"),
        frame.number("steps", "{:,.0f}"),
        page="continuous.md",
    )
    for name in names:
        rows = runs(promise, certified, name)
        if not rows:
            continue
        returned, steps = (statistics.mean(row[what] for row in rows) for what in ("returned", "samples"))
        promises.add(name, TASKS[name].many, *_promised(rows), TASKS[name].asks, returned, steps)
    if "CartPole" not in names:
        return
    recordings = report.table(
        "continuous-recordings", frame.number("recorded episodes"), *_promise_columns(), page="continuous.md"
    )
    for episodes in RECORDED:
        if rows := runs(recorded, certified, episodes):
            recordings.add(episodes, *_promised(rows))


def _promise_columns() -> list[frame.Column]:
    return [
        frame.number("runs"),
        frame.number("asks at most, median", _percent),
        frame.number("most", _percent),
        frame.number("asks", _percent),
        frame.number("loses", "{:.3f}"),
        frame.number("loses more than 0.1", "{}"),
    ]


def _promised(rows: list[dict[str, Any]]) -> list[Any]:
    """The cells of `_promise_columns`."""
    promised, asks, loses = ([row[what] for row in rows] for what in ("promised", "asks", "loses"))
    broken = sum(loss > SHARE for loss in loses)
    means = statistics.mean(asks), statistics.mean(loses)
    return [len(rows), statistics.median(promised), max(promised), *means, broken]


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
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def _most(marks: list[int | None], name: str) -> str:
    reached = [mark for mark in marks if mark is not None]
    if len(reached) < len(marks):
        return f"> {2 * TASKS[name].few}"
    return f"{max(reached)}" if marks else ""


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    frame.start(
        measure,
        __doc__,
        frame.argument("--seeds", type=int, default=10),
        frame.argument("--first", type=int, default=FIRST_SEED, help="the first of them"),
        frame.argument("--beside", type=int, default=10, help="with so many of the seeds DAgger is run too"),
        frame.argument("--certified", type=int, default=10, help="of so many seeds the promise is made too"),
        frame.argument("--only", nargs="+", part=True, default=list(TASKS), choices=list(TASKS)),
        frame.argument("--jobs", type=int, default=1, help="processes"),
        frame.argument("--finished", action="store_true", help="make no run, and show those that are kept"),
        frame.argument("--keep", type=Path, metavar="FOLDER", help="finished runs, which are not made again"),
    )
