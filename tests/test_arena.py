"""The arena: what determines a run, methods of one's own in other processes, the yardstick, and the page."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from aceirl.bench.arena import (
    LEAST_PAIRS,
    ArenaResults,
    ArenaRun,
    Entries,
    against,
    calibration,
    entries_of,
    learnt_at,
    overall,
    ranking,
    standing,
)
from aceirl.bench.arena_page import PAGE, against_lines, diagram, missed, scaling_panels, table_of
from aceirl.bench.measure import REGRET, ArenaCell
from aceirl.bench.methods import METHODS, Method, entered_by, methods_of
from aceirl.bench.page import Gallery
from aceirl.bench.statistics import Ranking, critical_difference, holm, signed_rank
from aceirl.bench.store import Store
from aceirl.bench.sweep import Here, Processes, sweep
from aceirl.bench.tasks import SCALING, TASKS, VARIANTS, expert_policy, tasks_of
from aceirl.bench.work import Failed, perform
from aceirl.cli import app
from aceirl.envs import make
from aceirl.errors import InputError
from aceirl.irl import FeasiblePoint
from aceirl.models.tabular.dynamic_programming import optimal_values

TEMPLATE = Path(__file__).parents[1] / "docs" / "my_method.py"
LOCK = TASKS["lock"].model_copy(update={"budget": 80})


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


def small() -> Entries:
    """A method of the package, one with a generative model, and the template, in two small tasks."""
    chosen = [METHODS["guided"], METHODS["uniform"], *methods_of(str(TEMPLATE))]
    return Entries(tuple(chosen), (LOCK, LOCK.with_expert("slips")), seeds=2)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("arena"))
    *_, last = sweep(small().cells, store, Here())
    assert (last.finished, last.failed) == (12, 0)
    return store


# Runs


def test_other_processes_find_a_method_of_ones_own_and_give_the_same_bytes(undisturbed: Store, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "my_method.py"
    moved.parent.mkdir()
    moved.write_text(TEMPLATE.read_text(encoding="utf-8"), encoding="utf-8")
    chosen = [METHODS["guided"], METHODS["uniform"], *methods_of(str(moved))]
    moved.unlink()  # the text travels with the run: a machine of a cluster never had the file
    store = Store(tmp_path / "runs")
    going = sweep(replace(small(), methods=tuple(chosen)).cells, store, Here())
    for progress in going:
        if progress.finished == 3:
            going.close()
    assert len(files(store.folder)) == 3
    first, *_, last = sweep(replace(small(), methods=tuple(chosen)).cells, store, Processes(2))
    assert (first.kept, last.finished, last.failed) == (3, 9, 0)
    mine = {name for cell in small().cells if cell.code for name in [f"{cell.key}.parquet"]}
    assert len(mine) == 4
    same = files(undisturbed.folder)
    assert files(store.folder).keys() == same.keys()
    # The path is in the metadata of one's own, and nowhere else.
    assert all(content == same[name] for name, content in files(store.folder).items() if name not in mine)
    for cell in small().cells:
        before, after = undisturbed.table(cell), store.table(cell)
        assert before is not None
        assert after is not None
        assert before[0].equals(after[0])


def test_a_key_changes_with_whatever_determines_a_run() -> None:
    guided, (mine,) = METHODS["guided"], methods_of(str(TEMPLATE))
    cells = [
        ArenaCell.of(LOCK, guided, 0),
        ArenaCell.of(LOCK, guided, 1),
        ArenaCell.of(LOCK.with_expert("slips"), guided, 0),
        ArenaCell.of(TASKS["lock"], guided, 0),
        ArenaCell.of(LOCK, METHODS["probe"], 0),
        ArenaCell.of(LOCK, mine, 0),
        ArenaCell.of(LOCK, replace(mine, code=mine.code.replace("0.2", "0.3")), 0),
    ]
    assert len({cell.key for cell in cells}) == len(cells)
    assert ArenaCell.of(LOCK, replace(mine, path="/another/folder/my_method.py"), 0).key == cells[5].key


def test_a_run_ends_when_both_regrets_were_small_while_the_samples_doubled() -> None:
    cell = ArenaCell.of(TASKS["lock"], METHODS["random"], 0)
    found = [point for point, _ in cell.steps()]
    good = [max(point.policy_regret, point.transfer_regret) <= REGRET for point in found]
    samples = [point.samples for point in found]
    assert cell.settings.max_samples == cell.task.budget
    assert ArenaCell.of(TASKS["lock"], METHODS["guided"], 0).settings.max_samples == 2 * cell.task.budget
    since = len(good) - good[::-1].index(False) if False in good else 0
    assert samples[-1] >= 2 * samples[since] or samples[-1] >= cell.task.budget
    assert all(samples[k + 1] >= 1.2 * samples[k] for k in range(len(samples) - 2))
    assert all(point.claimed is None and not point.certified for point in found)


def test_the_regrets_are_those_of_the_policy_and_of_planning_with_the_reward() -> None:
    cell = ArenaCell.of(LOCK, METHODS["guided"], 3)
    task = LOCK.drawn(3)
    point, turn = list(cell.steps())[-1]
    problem = make("combination-lock", 3)
    assert point.policy_regret == pytest.approx(task.truth.regret(turn.policy))
    assert point.lost == pytest.approx(task.truth.value(problem.expert) - task.truth.value(turn.policy))
    assert set(task.targets) == {"every start", "other code"}
    for target in task.targets.values():
        np.testing.assert_array_equal(target.reward, problem.reward)
    assert point.claimed == pytest.approx(turn.certificate("policy").value)


# Experts


def test_an_expert_slips_in_one_of_ten_steps_and_a_boltzmann_expert_weighs_what_it_loses() -> None:
    problem = make("gridworld", 1)
    slips = expert_policy(problem, "slips")
    np.testing.assert_allclose((slips * problem.expert).sum(axis=2), 0.9 + 0.1 / 4)
    boltzmann = expert_policy(problem, "boltzmann")
    np.testing.assert_allclose(boltzmann.sum(axis=2), 1)
    q, _ = optimal_values(problem.mdp, problem.reward)
    np.testing.assert_allclose(
        np.log(boltzmann[0, 2, 1] / boltzmann[0, 2, 3]), 5 * (q[0, 2, 1] - q[0, 2, 3]), atol=1e-9
    )


def test_every_task_and_every_size_can_be_drawn() -> None:
    for task in tasks_of(None) + list(SCALING.values()):
        assert len(task.drawn(0).targets) >= 1
    assert len(tasks_of(None)) == len(TASKS) + len(VARIANTS)
    assert [task.key for task in tasks_of("lock,gridworld+slips")] == ["lock", "gridworld+slips"]
    assert {task.expert for task in tasks_of(None, "slips,boltzmann")} == {"slips", "boltzmann"}
    assert set(SCALING) < {task.name for task in tasks_of("scaling")}


@pytest.mark.parametrize(
    ("tasks", "experts", "says"),
    [
        ("lok", None, "unknown task 'lok'; did you mean 'lock'"),
        ("lock+slip", None, "unknown expert 'slip'"),
        ("lock", "boltzman", "unknown expert 'boltzman'"),
        ("lock", "slips", "no task is left"),
    ],
)
def test_a_wrong_task_is_named(tasks: str, experts: str | None, says: str) -> None:
    with pytest.raises(InputError, match=says):
        tasks_of(tasks, experts)


# Methods


def test_a_strategy_an_algorithm_and_settings_can_be_entered() -> None:
    code = """
from dataclasses import dataclass
from aceirl.bench import method
from aceirl.explore.random import Random
from aceirl.irl import FeasiblePoint

@method("mine", source="a", epsilon=0.3)
class Mine(Random):
    "How it works."
    summary = ""

@method("my-algorithm", source="b")
class Algorithm(FeasiblePoint):
    pass

@method("my-settings", source="c", access="recording")
def settings():
    return {"strategy": "advice", "reward": "state"}
"""
    found = entered_by(code, "three.py")
    assert list(found) == ["mine", "my-algorithm", "my-settings"]
    assert found["mine"].summary == "How it works."
    assert found["mine"].access == "episodes"
    settings = found["mine"].settings(seed=4, epsilon=0.1)
    assert (type(settings.strategy).__name__, settings.epsilon, settings.seed) == ("Mine", 0.3, 4)
    assert isinstance(found["my-algorithm"].settings().irl, FeasiblePoint)
    assert found["my-settings"].settings().named("strategy") == "advice"
    assert found["my-settings"].access == "recording"
    assert "mine" not in METHODS


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("x = 1", "enters no method"),
        ("import nothing_of_that_name", "cannot be executed: ModuleNotFoundError"),
        (
            "from aceirl.bench import method\n@method('a', source='b')\ndef f(): return 3",
            "must return settings, got 3",
        ),
        (
            "from aceirl.bench import method\n@method('a', source='b', speed=3)\ndef f(): return {}",
            "setting 'speed'",
        ),
        (
            "from aceirl.bench import method\n@method('a', source='b', access='x')\ndef f(): return {}",
            "access .* 'x'",
        ),
        (
            "from aceirl.bench import method\n@method('a', source='b', claims='x')\ndef f(): return {}",
            "certificate 'x'",
        ),
        (
            "from aceirl.bench import method\n@method('a', source='b', certify='set')\ndef f(): return {}",
            "with claims",
        ),
        (
            "from aceirl.bench import method\n@method('a', source='b')\nclass A: pass",
            r"class A of method 'a' has neither plan \(a strategy\) nor __call__ \(an algorithm\)",
        ),
        (
            "from aceirl.bench import method\n@method('ace', source='b')\ndef f(): return {}",
            "of the package; rename it",
        ),
        ("x = 1\ny = 1 / 0\nz = 3", r"ZeroDivisionError: division by zero \(wrong.py, line 2\)"),
        ("x = 1\ny = (", r"SyntaxError: .* \(wrong.py, line 2\)"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(code: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(code)
    with pytest.raises(InputError, match=says) as error:
        methods_of(str(path))
    assert str(path) in str(error.value)


def test_unknown_and_repeated_methods_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown method 'guide'; did you mean 'guided'"):
        methods_of("random,guide")
    with pytest.raises(InputError, match="two methods are called 'random'"):
        methods_of("random,random")
    with pytest.raises(InputError, match="cannot read"):
        methods_of(str(tmp_path / "missing.py"))


def test_every_method_of_the_package_has_settings_and_a_source() -> None:
    for name, entry in METHODS.items():
        assert entry.name == name
        assert entry.source
        assert entry.summary
        settings = entry.settings()
        assert settings.certify is None
        assert (
            getattr(settings.strategy, "access", entry.access).startswith(entry.access) or entry.access == "recording"
        )


def test_the_methods_of_the_page_learn() -> None:
    page = (TEMPLATE.parent / "your-method.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    found = entered_by("\n".join(blocks), "page.py")
    assert list(found) == ["my-method", "my-settings", "my-algorithm"]
    for entry in found.values():
        last, turn = list(ArenaCell.of(LOCK, entry, 0).steps())[-1]
        assert last.transfer_regret <= REGRET
        assert turn.belief.recovered.infeasibility < 1


WRONG_PLANS = {
    "policy=np.full(belief.shape, np.nan)": r"policy of Mine is nan at \[0, 0, 0\]; it must be from 0 to 1",
    "policy=np.ones(belief.shape)": r"the sum over actions of policy of Mine is 3 at \[0, 0\]; it must be 1",
    "policy=uniform[0]": r"policy of Mine must have shape \[7, 7, 3\], got \[7, 3\]",
    "policy='left'": r"policy of Mine must be numbers of shape \[7, 7, 3\], got 'left'",
    "policy=uniform, follow=np.full((h, s), 1.8)": r"follow of Mine is 1.8 at \[0, 0\]; it must be from 0 to 1",
    "policy=uniform, follow=np.ones((s, h + 1))": r"follow of Mine must have shape \[7, 7\], got \[7, 8\]",
    "policy=uniform, follow_new=-1": "follow_new of Mine is -1; it must be from 0 to 1",
    "policy=uniform, first_action=3": "first_action of Mine is 3; actions are 0 to 2",
    "allocation=np.full(belief.shape, -1)": r"allocation of Mine is -1 at \[0, 0, 0\]; .* not negative",
    "allocation=np.full(belief.shape, 0.5)": "allocation of Mine is 0.5 .* whole number of samples",
    "follow=np.ones((h, s))": r"Mine has neither a policy nor an allocation, of shape \[7, 7, 3\]",
}


@pytest.mark.parametrize("fields", WRONG_PLANS)
def test_a_wrong_plan_is_a_failed_run_that_says_what_would_be_right(fields: str) -> None:
    code = f"""
import numpy as np
from aceirl.bench import method
from aceirl.explore import Plan

@method("mine", source="a")
class Mine:
    def plan(self, belief, rng):
        h, s, a = belief.shape
        uniform = np.full(belief.shape, 1 / a)
        return Plan({fields})
"""
    (mine,) = entered_by(code, "mine.py").values()
    outcome = perform(ArenaCell.of(LOCK, mine, 0))
    assert isinstance(outcome, Failed)
    assert re.match(f"InputError: .*{WRONG_PLANS[fields]}", outcome.error)


def test_a_failed_run_says_in_which_line_of_the_file(tmp_path: Path) -> None:
    code = """
import numpy as np
from aceirl.bench import method

@method("mine", source="a")
class Mine:
    def plan(self, belief, rng):
        return np.linalg.inv(np.zeros((2, 2)))
"""
    path = tmp_path / "mine.py"
    path.write_text(code)
    (mine,) = methods_of(str(path))
    outcome = perform(ArenaCell.of(LOCK, mine, 0))
    assert isinstance(outcome, Failed)
    assert outcome.error == "LinAlgError: Singular matrix (mine.py, line 8)"


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        ("estimate", "the IRL algorithm Mine must return aceirl.rewards.Recovered, got Estimate"),
        (
            "Recovered(np.zeros(3), 0.0, 0.0)",
            r"the IRL algorithm Mine returned a reward of shape \[3\]; .* \[7, 7, 3\]",
        ),
        ("Recovered(np.full(shape, np.inf), 0.0, 0.0)", r"reward of the IRL algorithm Mine is inf at \[0, 0, 0\]"),
        ("Recovered(np.zeros(shape), np.nan, 0.0)", "unknown_step_reward of the IRL algorithm Mine is nan"),
    ],
)
def test_a_wrong_reward_is_a_failed_run_that_says_what_would_be_right(returned: str, says: str) -> None:
    code = f"""
import numpy as np
from aceirl.bench import method
from aceirl.rewards import Recovered

@method("mine", source="a")
class Mine:
    def __call__(self, estimate, rmax, warm, space):
        shape = estimate.mdp.shape
        return {returned}
"""
    (mine,) = entered_by(code, "mine.py").values()
    outcome = perform(ArenaCell.of(LOCK, mine, 0))
    assert isinstance(outcome, Failed)
    assert re.match(f"InputError: {says}", outcome.error)


# The yardstick


def test_a_regret_that_rises_again_does_not_count() -> None:
    samples = np.array([10, 12, 15, 18, 22, 27, 33])
    low, high = 0.05, 0.06

    def brute(regret: np.ndarray[Any, Any]) -> int | None:
        for k in range(len(samples)):
            if all(r <= REGRET for n, r in zip(samples, regret, strict=True) if samples[k] <= n <= 2 * samples[k]):
                return k
        return None

    for pattern in product((low, high), repeat=len(samples)):
        regret = np.array(pattern)
        assert learnt_at(samples, regret) == brute(regret)
    assert learnt_at(samples, np.array([low, low, low, high, low, low, low])) == 4


def run(task: str, name: str, seed: int, samples: int | None, **changed: Any) -> ArenaRun:
    access = changed.pop("access", "episodes")
    return ArenaRun(
        task=task, family=task, expert="optimal", method=name, source="s", access=access, seed=seed,
        states=5, actions=2, horizon=3,
        samples=100, answers=changed.pop("answers", 40), all_samples=200, all_answers=60,
        transfer_samples=samples, transfer_answers=changed.pop("took_answers", samples and samples // 2),
        policy_samples=samples, policy_answers=samples, certificate_samples=None, certificate_answers=None,
        claims=changed.pop("claims", False), broken=changed.pop("broken", None), seconds=1.0, **changed,
    )  # fmt: skip


def series(task: str, name: str, samples: Sequence[int | None], **changed: Any) -> list[ArenaRun]:
    return [run(task, name, seed, one, **dict(changed)) for seed, one in enumerate(samples)]


def test_a_run_that_did_not_get_there_counts_with_the_most_that_any_run_spent() -> None:
    quiet = series("a", "quiet", [None, None], answers=3)
    loud = series("a", "loud", [20, 30])
    results = ArenaResults((*quiet, *loud))
    by_answers = results.summary("a", "quiet", "transfer", "answers")
    assert by_answers is not None
    assert (by_answers.mean, by_answers.censored, by_answers.median) == (40.0, 2, None)
    assert str(by_answers) == "≥ 40 ± 0"
    found = standing(results, "a", "quiet", "transfer", "answers")
    assert found is not None
    assert (found.first, found.holds) == ("loud", False)
    assert results.summary("a", "loud", "certificate", "samples") is None


def test_the_mean_its_error_and_the_intervals() -> None:
    amounts: list[int | None] = [10, 20, 60, 30, 40]
    found = ArenaResults(tuple(series("a", "x", amounts))).summary("a", "x", "transfer", "samples")
    assert found is not None
    values = np.array(amounts, dtype=float)
    assert found.mean == pytest.approx(values.mean())
    assert found.error == pytest.approx(values.std(ddof=1) / np.sqrt(5))
    assert found.median == 30
    for statistic, interval in (
        (np.mean, found.interval),
        (np.median, found.median_interval),
    ):
        every = [statistic(draw) for draw in product(values, repeat=5)]
        np.testing.assert_allclose(interval, np.quantile(every, [0.025, 0.975]), atol=2.1)


def test_first_is_who_is_within_one_standard_error_without_a_generative_model() -> None:
    runs = [
        *series("a", "best", [10, 12, 14, 16]),
        *series("a", "near", [11, 13, 15, 16]),
        *series("a", "far", [18, 18, 19, 19]),
        *series("a", "model", [1, 1, 1, 1], access="generative model"),
    ]
    results = ArenaResults(tuple(runs))
    holds = {}
    for name in ("best", "near", "far"):
        found = standing(results, "a", name, "transfer", "samples")
        assert found is not None
        assert found.first == "best"
        holds[name] = found.holds
    assert holds == {"best": True, "near": True, "far": False}


def test_ranks_are_those_of_the_means_and_the_critical_difference_is_demsars() -> None:
    means = {"a": (1, 2, 3, 9), "b": (2, 1, 3, 9), "c": (5, 5, 1, 9)}
    runs = [
        one
        for task, row in means.items()
        for name, mean in zip("wxyz", row, strict=True)
        for one in series(task, name, [10 * mean - 1, 10 * mean + 1])
    ]
    found = ranking(ArenaResults(tuple(runs)), "transfer", "samples")
    assert found is not None
    assert found.methods == ("w", "x", "y", "z")
    np.testing.assert_allclose(found.ranks, np.array([[1, 2, 3, 4], [2, 1, 3, 4], [2.5, 2.5, 1, 4]]))
    np.testing.assert_allclose(found.mean, [5.5 / 3, 5.5 / 3, 7 / 3, 4])
    # Friedman's statistic by hand, without correction for the one tie.
    k, n = 4, 3
    statistic = 12 * n / (k * (k + 1)) * ((found.mean - (k + 1) / 2) ** 2).sum()
    ties = 1 - (2**3 - 2) / (n * (k**3 - k))
    assert found.p_value == pytest.approx(stats.chi2.sf(statistic / ties, k - 1))
    # Demšar (2006), section 3.2.2 and table 5: four algorithms on fourteen data sets, q = 2.569.
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)
    assert critical_difference(10, 20) == pytest.approx(3.164 * np.sqrt(110 / 120), abs=0.005)


def test_methods_that_are_not_told_apart_share_a_bar() -> None:
    found = Ranking(tuple("abcd"), ("t",), np.zeros((1, 4)), np.array([1.0, 1.8, 2.5, 4.0]), 1.0, 0.01)
    assert found.groups == [(0, 1), (1, 2)]
    svg = diagram(found, "samples")
    assert svg.count('class="bar"') == 2
    assert all(f"{name} (" in svg for name in "abcd")


def test_signed_ranks_agree_with_trying_all_signs_and_holm_with_its_definition() -> None:
    rng = np.random.default_rng(3)
    signs = np.array(list(product((-1, 1), repeat=14)))
    for shift in (0.2, 0.6, 1.0):
        differences = rng.normal(shift, 1, size=14)
        ranks = stats.rankdata(np.abs(differences))
        observed = abs(ranks @ np.sign(differences))
        exact = (np.abs(signs @ ranks) >= observed - 1e-9).mean()
        assert signed_rank(differences) == pytest.approx(exact, abs=0.02)
    assert signed_rank(np.zeros(5)) == 1.0
    p_values = [0.01, 0.04, 0.03, 0.005, 0.9]
    assert holm(p_values) == pytest.approx([0.04, 0.09, 0.09, 0.025, 0.9])
    assert holm([]) == []


def test_a_method_is_compared_with_the_reference_and_with_itself_before() -> None:
    slow = [40 + seed for seed in range(20)]
    fast = [20 + seed // 2 for seed in range(20)]
    results = ArenaResults((*series("a", "guided", fast), *series("a", "slow", slow)))
    (found,) = against(results, "transfer", "samples")
    assert found.method == "slow"
    assert found.ratio == pytest.approx(np.exp(np.mean(np.log(slow) - np.log(fast))))
    assert found.differs
    before = ArenaResults((*series("a", "guided", slow[:10]), *series("b", "guided", [1, 2])))
    (changed,) = against(results, "transfer", "samples", before)
    assert (changed.method, changed.pairs) == ("guided", 10)
    assert changed.ratio < 1
    assert against(results, "transfer", "samples", results)[0].p_value == 1.0


def test_with_fewer_than_six_pairs_no_difference_is_told_however_large() -> None:
    signs = {n: np.array(list(product((-1, 1), repeat=n))) for n in (LEAST_PAIRS - 1, LEAST_PAIRS)}
    least = {n: (np.abs(every.sum(axis=1)) == n).mean() for n, every in signs.items()}
    assert least[LEAST_PAIRS] < 0.05 < least[LEAST_PAIRS - 1]
    for n, differs in ((5, False), (6, True)):
        results = ArenaResults((*series("a", "guided", [10] * n), *series("a", "slow", [90] * n)))
        (found,) = against(results, "transfer", "samples")
        assert (found.pairs, found.too_few, found.differs) == (n, not differs, differs)


def test_who_never_learnt_is_not_among_first() -> None:
    late = [*series("a", "guided", [60, None]), *series("a", "never", [None, None])]
    results = ArenaResults(tuple(late))
    assert {one.method: one.among_first for one in overall(results)} == {"guided": (1, 1), "never": (0, 0)}
    (table,) = table_of(results, "transfer", "samples")
    assert {entry.name: entry.best for entry in table[1]} == {"guided": True, "never": False}
    nobody = ArenaResults((*series("a", "guided", [None, None]), *series("a", "never", [None, None])))
    assert {one.among_first for one in overall(nobody)} == {(0, 0)}
    assert missed(nobody) == []


def test_two_methods_have_no_friedman_test() -> None:
    runs = [one for task in "ab" for name in "xy" for one in series(task, name, [5, 6])]
    found = ranking(ArenaResults(tuple(runs)), "transfer", "samples")
    assert found is not None
    assert found.p_value is None


def test_pairs_with_another_store_are_counted_and_names_that_differ_said() -> None:
    results = ArenaResults((*series("a", "x", [10] * 7), *series("b", "x", [10] * 3)))
    before = ArenaResults((*series("a", "x", [30] * 6), *series("b", "x", [30] * 9)))
    said = against_lines(results, before)
    assert said[0] == "Compared with the other arena: 9 pairs of runs with the same method, task and seed."
    assert "x in a: 0.33 times the samples of before" in said
    assert "Too few seeds to tell by samples (at least 6 are needed): x in b" in said
    assert not any(line.startswith("No method") for line in said)
    assert against_lines(results, ArenaResults(tuple(series("a", "y", [3, 4])))) == [
        "Nothing is compared: no method has the name of one in the other arena, which has y."
    ]
    assert against_lines(results, ArenaResults(tuple(series("a", "x", [3])))) == [
        "Nothing is compared: no method has the same task and two seeds in both arenas."
    ]


def test_claims_and_broken_claims_are_counted() -> None:
    made = [run("a", "x", seed, 5, claims=True, broken=seed == 0) for seed in range(4)]
    results = ArenaResults((*made, run("a", "x", 4, 5, claims=True), run("a", "y", 0, 5)))
    (found,) = calibration(results)
    assert (found.method, found.able, found.claimed, found.broken, found.share) == ("x", 5, 4, 1, 0.25)
    assert {one.method: one.calibration for one in overall(results)} == {"x": found, "y": None}


# The page


class Parsed(HTMLParser):
    """Tags that open and close in order, what the page links to, and its tables' headings."""

    VOID = ("meta", "link", "br", "path", "line", "use", "image", "rect")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.outside: list[str] = []
        self.heads = self.buttons = self.captions = self.sortable = 0
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.outside += [str(given[name]) for name in ("src", "href") if given.get(name, "#")[:1] not in "#"]  # type: ignore[index]
        self.heads += tag == "th" and given.get("scope") == "col"
        self.buttons += tag == "button"
        self.captions += tag == "caption"
        self.sortable += tag == "table" and "data-sortable" in given
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The template beside two methods in one task with two seeds, by the command."""
    out = tmp_path_factory.mktemp("page")
    words = ["arena", "--methods", f"guided,random,{TEMPLATE}", "--tasks", "lock,gridworld+slips", "--seeds", "2"]
    ran = CliRunner().invoke(app, [*words, "--jobs", "1", "--out", str(out)])
    assert ran.exit_code == 0, ran.output
    return out, ran.stdout


def test_a_method_of_ones_own_is_a_row_of_the_table(arena: tuple[Path, str]) -> None:
    out, said = arena
    assert re.search(r"^my-method +\d", said, re.MULTILINE)
    assert str(out / PAGE) in said
    page = (out / PAGE).read_text(encoding="utf-8")
    assert "Do what the expert does, and now and then anything." in page
    assert re.search(r'<th scope="row">my-method</th><td class="words">you, 2026</td>', page)


def test_the_page_needs_nothing_else_and_its_tables_can_be_sorted_by_keyboard(arena: tuple[Path, str]) -> None:
    page = (arena[0] / PAGE).read_text(encoding="utf-8")
    parsed = Parsed(page)
    assert parsed.outside == ["data:,"]
    assert parsed.buttons == parsed.heads > 30
    assert parsed.captions == parsed.sortable > 5
    assert "aria-sort" in page
    assert "prefers-color-scheme: dark" in page
    assert page.count('class="ranks"') == 2
    assert all(f'aria-label="Mean transfer regret over samples, {task}' in page for task in ("lock", "gridworld+slips"))


def test_the_page_says_what_is_left_out_and_what_is_censored(arena: tuple[Path, str]) -> None:
    page = (arena[0] / PAGE).read_text(encoding="utf-8")
    results = ArenaResults.of_store(arena[0])
    late = sum(one.transfer_samples is None for one in results.runs)
    assert f"{late:,} of 12 runs did not reach" in page
    assert "methods: probe, advice" in page
    assert "garnet-S40" in page
    assert "rooms with the expert boltzmann" in page


def test_a_method_that_always_fails_stays_in_the_table(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from aceirl.bench import method\n"
        "@method('mine', source='me', access='generative model')\n"
        "class Mine:\n"
        "    def plan(self, belief, rng):\n"
        "        return belief.speed\n"
    )
    words = [f"--methods=random,{path}", "--tasks=lock", "--seeds=2", "--jobs=1", f"--out={tmp_path}"]
    ran = CliRunner().invoke(app, ["arena", *words])
    assert ran.exit_code == 1
    assert re.search(
        r"^mine +– +– +0, 0 of 1 +– +–  \(generative model\)  \(2 runs failed\)$", ran.stdout, re.MULTILINE
    )
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    Parsed(page)
    assert re.search(r'<th scope="row">mine</th><td class="words">me</td>', page)
    assert page.count("AttributeError: &#39;Belief&#39; object has no attribute &#39;speed&#39; (mine.py, line 5)") == 2
    words[0] = f"--methods={path}"
    ran = CliRunner().invoke(app, ["arena", *words])
    assert ran.exit_code == 1
    assert "(2 runs failed)" in ran.stdout


def test_a_store_is_compared_with_another(arena: tuple[Path, str], tmp_path: Path) -> None:
    before, _ = arena
    out = tmp_path / "again"
    shutil.copytree(before, out)
    again = CliRunner().invoke(
        app,
        [
            "arena",
            "--methods=guided,random",
            "--tasks=lock",
            "--seeds=2",
            "--jobs=1",
            f"--out={out}",
            f"--against={before}",
        ],
    )
    assert again.exit_code == 0, again.output
    assert "4 kept from before" in again.stdout
    assert "4 pairs of runs with the same method, task and seed" in again.stdout
    assert "Too few seeds to tell by samples" in again.stdout
    assert "No method needs" not in again.stdout
    page = (out / PAGE).read_text(encoding="utf-8")
    assert "Against the other store" in page
    assert "4 pairs of runs" in page
    assert "too few seeds to tell" in page
    assert "p = nan" not in page


@pytest.mark.parametrize(
    ("against", "says"),
    [
        ("nowhere", "nowhere has no result of an arena, nowhere/results.parquet; give the --out of"),
        ("nonsense.txt", "nonsense.txt cannot be read as the result of an arena: "),
        ("mine", "--against is mine, the folder of --out itself"),
        ("mine/results.parquet", "--against is mine/results.parquet, the folder of --out itself"),
    ],
)
def test_a_wrong_folder_to_compare_with_is_named(
    against: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nonsense.txt").write_text("nonsense")
    wrong = CliRunner().invoke(app, ["arena", "--against", against, "--out", "mine"])
    assert wrong.exit_code == 2
    assert says in " ".join(wrong.stderr.split()).replace("\\", "/")


def test_samples_are_drawn_over_a_size_where_three_tasks_differ_in_it_alone(tmp_path: Path) -> None:
    sizes = {"a": (5, 2, 3), "b": (10, 2, 3), "c": (20, 2, 3), "d": (20, 4, 3), "e": (20, 6, 3)}
    runs = [
        replace(one, family="garnet", states=states, actions=actions, horizon=horizon)
        for task, (states, actions, horizon) in sizes.items()
        for one in series(task, "guided", [4 * states, 5 * states])
    ]
    results = ArenaResults(tuple(runs))
    panels = scaling_panels(results, overall(results), Gallery(tmp_path))
    assert [re.findall(r'aria-label="([^"]*)"', panel)[0] for panel in panels] == [
        "Samples to transfer regret 0.05 over states S, garnet",
        "Samples to transfer regret 0.05 over actions A, garnet",
    ]
    assert {path.name for path in tmp_path.glob("*.svg")} == {"scaling-garnet-S.svg", "scaling-garnet-A.svg"}


def test_what_does_not_compete_is_listed_and_the_default_is_everything() -> None:
    everything = entries_of(None, None, None, 50)
    assert [one.name for one in everything.methods] == list(METHODS)
    assert len(everything.cells) == 50 * len(METHODS) * (len(TASKS) + len(VARIANTS))
    assert not any(line.startswith(("methods", "tasks")) for line in everything.left_out)


def test_a_method_without_a_name_of_its_own_is_data() -> None:
    assert Method("x", "y", {"strategy": "aceirl.explore.random.Random"}).settings().named("strategy") == "random"
