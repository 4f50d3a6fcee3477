"""What a run came to, whether it was just made, lies in a folder, or is a recording: all that people hold of it."""

from __future__ import annotations

import base64
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aceirl.certificates import Certificate
from aceirl.envs import Problem
from aceirl.errors import InputError, unknown_name
from aceirl.experts.tasks import AWAY, Source, Task, fingerprint, gym_env, open_source, open_task
from aceirl.experts.tasks.world import OfflineWorld
from aceirl.explain import Learned, figures, sentences
from aceirl.explain.goal import goal_in_words
from aceirl.explain.recordings import inferred_in_words
from aceirl.learner.comparing import Comparison, compared
from aceirl.learner.engine import Engine
from aceirl.learner.loop import answers_of, learn
from aceirl.learner.named import Unavailable
from aceirl.learner.recorded import RECORDED, Demonstrations, going_on
from aceirl.learner.transfer import KnownProcess, Transfer, named_process, process_of_env, transfer
from aceirl.learner.turns import last_measured
from aceirl.models.fields.rules import rules
from aceirl.models.tabular.mdp import MDP, FloatArray, IntArray
from aceirl.rewards import Explanation, FeatureReward
from aceirl.rewards.in_fields import FieldReward
from aceirl.runs.driving import Callback, check_arguments, check_callback, driven
from aceirl.runs.files import replace as written
from aceirl.runs.folder import ENVIRONMENT, Run, changed_settings, is_continuous_run, state_under

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from aceirl.envs.gymnasium import GymAdapter
    from aceirl.learner.outputs import GreedyPolicy, ObservedReward


@dataclass(frozen=True, eq=False, repr=False)
class Result(Learned):
    """What a run ended with: a reward, a `policy [H, S]`, and the road there.

    `turn` is the last one, with all that was believed then, `task` what the run was about, and `folder` where it is
    kept, if it is. Of what was inferred from a recording, `demonstrations` are what was recorded.
    """

    folder: Path | None = None
    demonstrations: Demonstrations | None = None

    @property
    def policy(self) -> IntArray:
        """`[H, S]`: what the expert is known to do, and elsewhere what is best under the reward."""
        return self.turn.policy

    @cached_property
    def certificate(self) -> Certificate | None:
        """The one that was asked for, whether it holds or not."""
        asked = self.turn.settings.certify
        return None if asked is None else self.turn.certificate(asked.name)

    def rules(self) -> list[str]:
        """The expert's answers as rules over fields, those of most answers first: "stick if your hand is at least 17".

        They repeat what was said, and are a guess about what was not; none if nothing is known of the fields.
        """
        table, said = self.turn.belief.table.fields, self.turn.counts.given.pooled
        if table is None:
            return []
        states = np.flatnonzero(said.any(axis=1))
        found = rules(table, states, said[states].argmax(axis=1))
        return [
            f"{rule.words(table, self.actions)} ({rule.answers:,} of {rule.answers + rule.against:,} answers)"
            for rule in found
        ]

    @property
    def field_reward(self) -> FieldReward | None:
        """What the likeliest wish pays in the terms of fields: a function of observations, for any that has these
        fields. None if the wish is not one of fields alone."""
        return self.turn.field_reward

    @property
    def stopped(self) -> str:
        """Why the run ended: `certificate`, `regret`, `budget`, `callback`, or `questions` of an interview."""
        return self.records[-1].stopped or "interrupted"

    @property
    def samples(self) -> int:
        """How many steps were taken in the environment."""
        return self.records[-1].samples

    @property
    def answers(self) -> int:
        """How many answers the expert gave."""
        return self.records[-1].answers

    @property
    def regret(self) -> float | None:
        """What the policy loses by the truth, as a share of the range of returns; None if no truth is known.

        Of a run that was interrupted it is the last that was measured: see `Record`.
        """
        measured = last_measured(self.records)
        return None if measured is None else measured.regret

    @property
    def explanation(self) -> Explanation | None:
        """What the reward says of the expert; None if the IRL algorithm does not say."""
        return self.turn.explanation

    @property
    def reward_table(self) -> FloatArray:
        """`[H, S, A]`: the reward in numbered states, in `[0, rmax]`."""
        return self.turn.belief.recovered.reward

    def in_words(self, names: Sequence[str] = ()) -> str:
        """What the expert wants, and what is not determined; `names [S]` if states have other names for you.

        Of a recording, also what was recorded, what that leaves open, and what to record next.
        """
        if self.demonstrations is not None:
            return "\n".join(inferred_in_words(self, self.demonstrations, names or self.names))
        return "\n".join(goal_in_words(self.turn, names or self.names, self.actions))

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """What the expert wants, what it took, and what acting on it is worth, a line each: what `aceirl show` says."""
        return sentences(self)

    def show(self) -> None:
        """Print what `aceirl show` says; of a recording what `aceirl infer` does, and the certificate asked for."""
        if self.demonstrations is None:
            print("\n".join(self.sentences))
            return
        print(self.in_words())
        if self.certificate is not None:
            print(self.certificate.in_words(self.names, self.actions))

    def to_json(self) -> dict[str, Any]:
        """The result as plain values, for one line of JSON."""
        last, told = self.records[-1], self.turn.belief.recovered.explanation
        goals = [] if told is None else told.goals
        return {
            "samples": last.samples,
            "iterations": last.iteration,
            "answers": last.answers,
            "regret": self.regret,
            "stopped": last.stopped,
            "bound": last.bound,
            "certificates": last.certificates,
            "space": None if told is None else told.space,
            "goal": self.names[goals[0]].removeprefix("state ") if goals else None,
            "explains": None if told is None else told.share,
            "wish": self.wish.to_json(),
            "seconds": sum(record.seconds for record in self.records),
            "directory": None if self.folder is None else str(self.folder),
        }

    def __repr__(self) -> str:
        last = self.records[-1]
        return (
            f"<Result: {last.samples:,} steps, {last.answers:,} answers, stopped by {self.stopped}"
            f"{'' if self.regret is None else f', regret {self.regret:.3f}'}>"
        )

    @property
    def _adapter(self) -> GymAdapter:
        from aceirl.envs.gymnasium import GymAdapter

        if isinstance(self.task.environment, GymAdapter):
            return self.task.environment
        if self.turn.names:
            raise InputError(
                "the observations of this run cannot be read here: their space, or the function that puts them into "
                "bins, cannot be imported; load the run where it can"
            )
        raise InputError("this run's states have no observations; use reward_table [H, S, A] and policy [H, S]")

    @cached_property
    def _reward(self) -> ObservedReward:
        from aceirl.learner.outputs import ObservedReward

        return ObservedReward.of(self.turn, self._adapter)

    @cached_property
    def _policy(self) -> GreedyPolicy:
        from aceirl.learner.outputs import GreedyPolicy

        return GreedyPolicy.of(self.turn, self._adapter)

    def reward(
        self, observation: Any, action: Any, next_observation: Any, *, terminated: bool = False, step: int = 0
    ) -> float:
        """What the reward pays for an action, and for the observation it led to if the episode is over then.

        In a Gymnasium environment, by its own observations and actions. Most rewards do not depend on the `step`.
        """
        if self._reward.features is None:  # features have a reward beyond the space too
            self._reward.check(observation)
            if terminated:
                self._reward.check(next_observation)
        return self._reward(observation, action, next_observation, terminated=terminated, step=step)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, Any]:
        """The policy's action for an observation or a batch of them, and the step as a state: as Stable-Baselines3."""
        self._policy.check(observation)
        return self._policy.predict(observation, state, episode_start, deterministic)

    def wrapper(self, env: Any, elsewhere: float | None = None) -> Any:
        """The environment, or another with the same observations, paying the recovered reward: train any agent on it.

        `env` is a Gymnasium environment or its id, and `elsewhere` what an action pays where the run never was; -1
        keeps an agent to what is known. To end an episode where the expert does not head for, and of which the reward
        says nothing, saves none of a step cost: else any end nearby would do.
        """
        from aceirl.learner.outputs import RecoveredReward
        from aceirl.learner.outputs.observed import unsought_ends

        if isinstance(env, str):
            env = gym_env(Source(env, {}, self.turn.settings.seed))
        return RecoveredReward(env, replace(self._reward, unsought=unsought_ends(self.turn)), elsewhere)

    def plot(self, picture: str | None = None) -> Figure:
        """A picture of the run, as `aceirl show` draws it: a figure of Matplotlib.

        By default the reward. `picture` names another: visits, policy, why-here, bound or learning. They are maps or,
        where states have no place on paper, lists of the states that matter most.
        """
        drawn = figures(self)
        if picture == "learning" and picture not in drawn:
            raise InputError("there is no picture of learning: without the true reward the regret is not known")
        if picture == "why-here" and picture not in drawn:
            raise InputError("there is no picture 'why-here': by this reward, every guess is as good as an answer")
        if picture is not None and picture not in drawn:
            raise unknown_name("picture of this run", picture, drawn)
        return drawn[picture or next(iter(drawn))]

    def save(self, folder: str | Path) -> Path:
        """Keep the run in a new folder, complete in itself: for `load`, and for the command line."""
        path = Path(folder)
        if self.folder is not None:
            Run.open(self.folder).copied(path)
        else:
            Run.saved(path, self.turn, self.records, self.task, fingerprint(self.task))
        return path

    def resume(self, *, callback: Callback | None = None, progress: bool = False, **settings: Any) -> Result:
        """Go on, asking something else of the run; what was seen and answered stays.

        `settings` are those that change: `max_samples` and `max_answers` in all, `epsilon`, `certify`, `reward`,
        `irl`, `strategy` or `until_regret`. A run that is kept in a folder goes on there.
        """
        check_callback(callback)
        if self.stopped == RECORDED:
            raise InputError(going_on(self.task.source))
        task = self.task
        if isinstance(task.world, OfflineWorld):
            if task.source is None:
                raise InputError(AWAY)
            task = open_task(task.source)
        before, regret = self.turn.settings, self.turn.measure or task.regret
        if self.folder is not None:
            run = Run.open(self.folder)
            run.change(settings)
            wanted, begun, last = run.settings, run.records(), self.turn
            turns = run.resume(task.environment, task.expert, task=task, regret=regret)
        else:
            wanted, begun, last = changed_settings(before, settings, "this result"), self.records, None
            state = state_under(self.turn.state, before, wanted)
            turns = learn(task.environment, task.expert, wanted, regret=regret, state=state, reconsider=True)
        records, turn = driven(turns, wanted, task.environment.horizon, begun, callback, progress, last)
        return Result(records, turn, task, self.folder)

    def transfer(
        self,
        target: KnownProcess | Problem | MDP | str | Any,
        *,
        start: Any = None,
        discount: float | None = None,
        names: Sequence[str] = (),
        progress: bool = False,
        **unknown: Any,
    ) -> Transfer:
        """Plan with the reward in another process: what to do there, what it loses, and what that depends on.

        `target` is a process, a problem, a Gymnasium environment (without a limit of its own, its episodes are as long
        as the run's), the name of an environment (with the run's seed), or a model file. Where an environment has no
        exact model, one is estimated by sampling; with `progress` lines say how far it is. Episodes start there as they
        do, with `start` in that state (its name or observation), or with "uniform" anywhere. Returns are
        discounted there as the run's are, or by another `discount`. `names` are those of the run's own states, where
        its environment neither has names for them nor numbers them as it meets them; without names, states of the same
        number are the same.
        """
        check_arguments(self.transfer, unknown)
        say = partial(print, file=sys.stderr, flush=True) if progress else logging.getLogger("aceirl").info
        if isinstance(target, type):
            raise InputError(f"target is the class {target.__name__}; give an instance, {target.__name__}(...)")
        if isinstance(target, str):
            target = named_process(target, self.turn.settings.seed, say)
        elif isinstance(target, Problem):
            target = KnownProcess.of(target)
        elif isinstance(target, MDP):
            target = KnownProcess(target)
        elif hasattr(target, "action_space"):
            spec = getattr(target, "spec", None)
            steps = (spec and spec.max_episode_steps) or self.policy.shape[0]
            cut = self._adapter.states.discretise if self.turn.names else None
            target = process_of_env(target, steps, cut, say)
        layout = self.task.world.layout
        own = layout.state_names if layout is not None and not self.turn.names else ()
        factor = self.turn.settings.discount if discount is None else discount
        return transfer(self.turn, target.starting(start).discounted(factor), names or own, say)

    def score(self) -> Comparison:
        """How well the reward predicts answers that it was not shown, beside copying and a habit.

        That a reward "explains N of N answers" says less: it was found by them.
        """
        return compared(self.turn, briefly=True)

    def compare(self) -> Comparison:
        """The score beside maximum causal entropy and chance as well: `print(result.compare())`."""
        return compared(self.turn)

    def to_frame(self, of: str = "reward") -> Any:
        """The run as a data frame of pandas: of the "reward" a row for each action in each state that was met, of the
        "records" a row for each iteration.

        Beside the `reward`, which is the mean over steps, there is how often the action was tried (`visits`), how often
        it was the expert's answer (`answers`), and in which share of steps the `policy` takes it.
        """
        try:
            import pandas  # type: ignore[import-untyped]
        except ImportError:
            raise InputError("to_frame needs pandas: pip install pandas") from None
        if of == "records":
            rows = [record.to_json() for record in self.records]
            flat = [row | {f"certified {kind}": v for kind, v in row.pop("certificates").items()} for row in rows]
            return pandas.DataFrame(flat)
        if of != "reward":
            raise unknown_name("data frame", of, ("reward", "records"))
        counts, n_actions = self.turn.counts, self.turn.counts.shape[2]
        met = np.flatnonzero(self.visits.any(axis=(0, 2)))
        actions = self.actions or tuple(f"action {a}" for a in range(n_actions))
        return pandas.DataFrame(
            {
                "state": [self.names[s] for s in met for _ in range(n_actions)],
                "action": list(actions) * len(met),
                "reward": self.reward_table.mean(axis=0)[met].ravel(),
                "visits": counts.visited.pooled[met].ravel(),
                "answers": counts.given.pooled[met].ravel(),
                "policy": np.eye(n_actions)[self.policy].mean(axis=0)[met].ravel(),
            }
        )

    def export(self, table: Path, demonstrations: Path | None = None) -> None:
        """Write the reward as a table (CSV) and the expert's answers as demonstrations (lines of JSON)."""
        from aceirl.envs.gymnasium import GymAdapter
        from aceirl.learner import outputs

        if isinstance(self.task.environment, GymAdapter):
            outputs.save_table(table, self._reward, self._policy)
            if demonstrations is not None:
                outputs.save_demonstrations(demonstrations, self._policy)
            return
        layout = self.task.world.layout
        names, actions = (self.names, self.actions) if layout is None else (layout.state_names, layout.action_names)
        actions = actions or tuple(f"action {a}" for a in range(self.turn.counts.shape[2]))
        outputs.save_named_table(table, self.turn, names, actions)
        if demonstrations is not None:
            outputs.save_named_demonstrations(demonstrations, self.turn, names, actions)

    def draw(self) -> list[Path]:
        """The pictures of a run and a page that holds them all, in the run's own folder."""
        from jinja2 import Environment, PackageLoader

        from aceirl.explain import plots

        assert self.folder is not None
        folder = self.folder / "pictures"
        folder.mkdir(exist_ok=True)
        drawn = figures(self).items()
        paths = [path for name, figure in drawn for path in plots.save(figure, folder / name)]
        images = {p.stem: base64.b64encode(p.read_bytes()).decode() for p in paths if p.suffix == ".svg"}
        template = Environment(loader=PackageLoader("aceirl.explain"), autoescape=True).get_template("run.html")
        content = template.render(title=self.folder.name, words=self.sentences, images=images)
        written(self.folder / "report.html", content.encode())
        return [self.folder / "report.html", *paths]


def load(folder: str | Path) -> Result | Any:
    """A run or a finished interview from its folder, made in Python or on the command line, with all that it can do.

    A `Result` or, of a run with continuous observations, a `ContinuousResult`. The environment is not needed: the
    folder keeps what tells observations apart.
    """
    if is_continuous_run(folder):
        from aceirl.runs.continuous import ContinuousRun

        return ContinuousRun.open(Path(folder)).result()
    return opened(Run.open(folder))


def opened(run: Run, task: Task | None = None) -> Result:
    """The run as its folder keeps it; a `task` that is open already is taken instead.

    While a run goes on its folder has no map yet: then the environment is opened for as long as it takes.
    """
    kept = None if task else run.kept()
    if kept is not None and (kept.complete or run.source is None):
        return _opened(run, kept.task, kept.features)
    if task is not None:
        return _opened(run, task)
    if run.source is None:
        raise InputError(f"{run.path} is incomplete: {ENVIRONMENT}, which describes its environment, is missing")
    with open_source(replace(run.source, num_envs=1)) as task:
        found = _opened(run, task)
        world = task.world
        known = world.rmax, world.max_return, world.stationary_dynamics, found.layout
        offline = OfflineWorld(world.environment, *known, states=found.names, actions=found.actions)
        return replace(found, task=replace(found.task, world=offline))


def _opened(run: Run, task: Task, features: FloatArray | None = None) -> Result:
    records, state, settings = run.records(), run.state(), run.settings
    if not records or state is None:
        raise InputError(f"{run.path} has no finished iteration yet")
    if features is not None and isinstance(settings.reward, Unavailable):
        settings = settings.model_copy(update={"reward": FeatureReward(features)})
    turn = Engine(task.environment, answers_of(task.expert, settings), settings, state=state).last_turn
    return Result(records, turn, replace(task, source=run.source), run.path, told=run.told)
