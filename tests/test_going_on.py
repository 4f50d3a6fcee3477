"""Going on with a run: more budget, another accuracy, certificate, space or algorithm, without paying twice; and
callbacks, the log and lines of progress."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from typer.testing import CliRunner

import aceirl
from aceirl import ActiveIRL, InputError, Result, Run, Turn
from aceirl.certificates.e_process import BatchOutcome, EProcess, Wager, shows
from aceirl.cli import app


def short(**settings: Any) -> ActiveIRL:
    return ActiveIRL(**{"max_samples": 100, "seed": 2, **settings})


@pytest.fixture(params=["kept in a folder", "not kept"])
def begun(request: pytest.FixtureRequest, tmp_path: Path) -> Result:
    """A run of 100 samples, which certify nothing."""
    out = tmp_path / "run" if request.param == "kept in a folder" else None
    result = short().fit("gridworld", out=out)
    assert (result.stopped, result.certificate is not None and result.certificate.holds) == ("budget", False)
    return result


def test_more_budget_goes_on_from_what_was_paid_for(begun: Result) -> None:
    more = begun.resume(max_samples=2000)
    assert more.stopped == "certificate"
    assert [r.samples for r in more.records[: len(begun.records)]] == [r.samples for r in begun.records]
    assert [r.iteration for r in more.records] == list(range(1, len(more.records) + 1))
    assert (more.turn.counts.visits >= begun.turn.counts.visits).all()
    assert [r.stopped for r in more.records[:-1]] == [None] * (len(more.records) - 1)
    assert begun.records[-1].stopped == "budget", "the earlier result is as it was"


def test_another_space_or_algorithm_infers_anew_from_the_same_answers(begun: Result) -> None:
    other = begun.resume(irl="max-causal-entropy", reward="any")
    assert (other.samples, other.answers, other.stopped) == (begun.samples, begun.answers, "budget")
    fresh = short(irl="max-causal-entropy", reward="any")
    assert other.turn.settings.model_dump() == {
        **begun.turn.settings.model_dump(), "irl": "max-causal-entropy", "reward": "any"
    }  # fmt: skip
    algorithm = fresh.settings.irl
    assert algorithm is not None
    expected = algorithm(begun.turn.belief.estimate, 1.0, {}, fresh.settings.reward)  # type: ignore[arg-type]
    np.testing.assert_allclose(other.reward_table, expected.reward)
    assert np.abs(other.reward_table - begun.reward_table).max() > 0.1


def test_a_smaller_epsilon_continues_the_evidence_and_a_much_smaller_one_starts_it_anew(begun: Result) -> None:
    certified = begun.resume(max_samples=20_000)
    levels = certified.turn.belief.evidence["policy"]["levels"]
    closer = certified.resume(epsilon=0.5)
    np.testing.assert_array_equal(closer.turn.belief.evidence["policy"]["levels"], levels)
    assert closer.certificate is not None
    assert closer.certificate.holds
    assert closer.certificate.value <= 0.5 < certified.turn.belief.target.epsilon
    assert closer.certificate.value / 10 in levels, "what is promised is one of the levels chosen at the start"
    tiny = closer.resume(epsilon=0.01, max_samples=closer.samples + 1)
    assert tiny.turn.belief.evidence["policy"]["levels"][0] < 0.001 < levels[0]
    assert tiny.certificate is not None
    assert not tiny.certificate.holds


def test_what_rests_on_a_choice_before_the_data_cannot_be_changed(begun: Result) -> None:
    with pytest.raises(
        InputError, match=r"delta 0.1, not 0.5, and that cannot be changed: how often a certificate may be"
    ):
        begun.resume(delta=0.5)
    with pytest.raises(InputError, match=r"confidence 'adaptive', not 'hoeffding'.*chosen before any data"):
        begun.resume(confidence="hoeffding")
    with pytest.raises(InputError, match="did you mean 'epsilon'"):
        begun.resume(epsilom=1)


def test_a_change_is_written_down_with_the_moment_it_was_made(tmp_path: Path) -> None:
    short().fit("gridworld", out=tmp_path / "run")
    again = short(max_samples=200, certify="criterion").fit("gridworld", out=tmp_path / "run")
    (change,) = Run.open(tmp_path / "run").changes
    assert change["changed"] == {"certify": ["policy", "criterion"], "max_samples": [100, 200]}
    assert (change["stopped"], change["iteration"], again.samples >= 200) == ("budget", 10, True)
    assert again.certificate is not None
    assert again.certificate.kind == "criterion"
    untouched = ActiveIRL().fit("gridworld", out=tmp_path / "run")
    assert untouched.turn.settings.model_dump() == again.turn.settings.model_dump(), "what is not said stays"
    assert len(untouched.records) == len(again.records)


def test_the_command_line_goes_on_with_other_settings(tmp_path: Path) -> None:
    short().fit("gridworld", out=tmp_path / "run")
    options = ["--max-samples", "20000", "--epsilon", "1.5", "--reward", "state", "--json"]
    ran = CliRunner().invoke(app, ["resume", str(tmp_path / "run"), *options])
    assert ran.exit_code == 0, ran.output
    said = json.loads(ran.stdout.splitlines()[-1])
    assert (said["stopped"], said["space"]) == ("certificate", "state")
    assert said["certificates"]["policy"] <= 1.5
    assert aceirl.load(tmp_path / "run").turn.settings.epsilon == 1.5
    refused = CliRunner().invoke(app, ["resume", str(tmp_path / "run"), "--irl", "magic"])
    assert refused.exit_code == 2
    assert "unknown IRL algorithm 'magic'" in refused.output


TRUTH, DELTA, EPISODES, RUNS = 0.05, 0.1, 100, 300


def test_continued_evidence_is_wrong_as_rarely_as_was_said_and_moved_evidence_is_not() -> None:
    """Episodes lose everything with probability 5 %. After the first promise, at 20 %, one is asked for just below the
    truth, with the boldest stakes; and in a second reading the old evidence is taken for evidence at the new levels."""
    rng, losses = np.random.default_rng(15), np.array([1.0, 0.0])
    kept_wrong = moved_wrong = 0
    for _ in range(RUNS):
        process, moved = EProcess.started(0.2), None
        for lost in rng.random(EPISODES) < TRUTH:
            seen = BatchOutcome(np.array([int(lost), int(not lost)]), losses)
            stake = 0.5 if moved is None else 0.96
            process = process.after(Wager(stake), seen)
            moved = moved and moved.after(Wager(stake), seen)
            if moved is None and process.certified(DELTA) <= 0.2:
                memory = {"levels": process.levels, "now": process.now, "peak": process.peak}
                assert shows(memory, 0.045)
                moved = EProcess(process.levels * (0.045 / 0.2), process.now, process.peak)
        kept_wrong += process.certified(DELTA) < TRUTH
        moved_wrong += moved is not None and moved.certified(DELTA) < TRUTH
    allowed = binom.ppf(1 - 1e-7, RUNS, DELTA)
    assert kept_wrong <= allowed < moved_wrong


def test_evidence_shows_what_lies_above_its_lowest_level() -> None:
    process = EProcess.started(0.2)
    memory = {"0.levels": process.levels, "0.now": process.now, "0.peak": process.peak}
    assert shows(memory, process.levels[0])
    assert not shows(memory, process.levels[0] / 1.01)
    assert shows({}, 0.1), "there is nothing to be given up"


def test_what_is_missing_is_counted_at_a_level_that_suffices() -> None:
    """A level just above what is asked may be reached long before one that is as low."""
    process = EProcess.started(0.2)
    asked = float(process.levels[10]) * 1.08
    assert process.levels[11] / asked < asked / process.levels[10], "the level above is the nearer one"
    now = np.where(np.arange(len(process.levels)) > 10, 9.0, 0.0)
    ahead = EProcess(process.levels, now, now)
    assert ahead.missing(asked, 0.1) == pytest.approx(np.log(10))


# Callbacks, the log, progress.


def test_a_callback_stops_a_run_and_it_can_go_on(tmp_path: Path) -> None:
    seen: list[int] = []

    def third(turn: Turn) -> bool:
        seen.append(turn.samples)
        return len(seen) == 3

    result = short().fit("gridworld", out=tmp_path / "run", callback=third)
    assert (result.stopped, len(result.records), len(seen)) == ("callback", 3, 3)
    whole = short().fit("gridworld", out=tmp_path / "run")
    alone = short().fit("gridworld")
    np.testing.assert_array_equal(whole.reward_table, alone.reward_table)
    assert (whole.stopped, len(whole.records)) == ("budget", len(alone.records))


def test_the_log_tells_start_and_end_and_is_quiet_unless_asked(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    short().fit("gridworld")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("aceirl.learner.loop.LOG_EVERY", 0.0)
    with caplog.at_level(logging.INFO, logger="aceirl"):
        result = short().fit("gridworld")
    messages = [record.getMessage() for record in caplog.records if record.name == "aceirl"]
    assert messages[0].startswith("strategy Guided, seed 2, 10 steps an episode, 4 actions")
    assert len(messages) == 2 + len(result.records)
    assert messages[-1].endswith("stopped by budget")


def test_progress_without_a_terminal_is_a_whole_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = short().fit("gridworld", progress=True)
    assert capsys.readouterr().err == "", "a short run needs none"
    monkeypatch.setattr("aceirl.runs.driving.LINE_EVERY", 0.0)
    short().fit("gridworld", progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(result.records)
    assert lines[-1].startswith("100 samples · ")
    assert lines[-1].endswith(f"regret {result.regret:.3f}")
