"""Ten scripts written from habit, before any page of ours was read, as users of Gymnasium, Stable-Baselines3,
imitation, scikit-learn and Optuna would. Six run as they are. The habits of the other four have no place here, and the
error says the call to make: with that, they run.

Where a library is not installed, a stand-in with the same protocol takes its place (`tests/habits/standins`).
"""

from __future__ import annotations

import runpy
from importlib.util import find_spec
from pathlib import Path

import pytest

HABITS = Path(__file__).parent / "habits"
UNCHANGED = (
    "gymnasium_loop",
    "gymnasium_id_and_plot",
    "gymnasium_wrapper",
    "sb3_expert_and_student",
    "sb3_callback",
    "optuna_study",
)

# What is said, and the lines that follow from it.
CORRECTED = {
    "sb3_save_and_load": [(r"verbose is not a setting; .*fit\(.*, progress=True\)", [(", verbose=1", "")])],
    "imitation_trajectories": [
        ("unknown setting 'rng'; did you mean 'seed'", [("rng=np.random.default_rng(0)", "seed=0")]),
    ],
    "imitation_trainer": [
        (
            "env is not a setting; give it to fit: ActiveIRL",
            [("ActiveIRL(env=env, expert=lambda obs: shortest.get(obs, 1))", "ActiveIRL(max_samples=2000)")],
        ),
        (
            r"ActiveIRL has no train; fit returns what was learned: result = ActiveIRL\(...\).fit\(",
            [
                ("trainer.train(total_timesteps=2000)", "result = trainer.fit(env, lambda obs: shortest.get(obs, 1))"),
                ("trainer.policy", "result.policy"),
            ],
        ),
    ],
    "sklearn_estimator": [
        ("unknown setting 'random_state'; did you mean 'seed'", [("random_state=0", "seed=0")]),
        (
            "ActiveIRL has no get_params; .*settings are in .settings",
            [('get_params()["max_samples"]', "settings.max_samples")],
        ),
        (
            r"ActiveIRL has no predict; .*then result.predict\(observation\)",
            [("model.fit(", "result = model.fit("), ("model.predict([0, 4, 8])", "result.predict([0, 4, 8])")],
        ),
    ],
}  # fmt: skip


@pytest.fixture(autouse=True)
def _libraries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("stable_baselines3", "optuna", "imitation"):
        if find_spec(name) is None:
            monkeypatch.syspath_prepend(str(HABITS / "standins"))
            return


def test_there_are_ten() -> None:
    assert {path.stem for path in HABITS.glob("*.py")} == {*UNCHANGED, *CORRECTED}
    assert len({*UNCHANGED, *CORRECTED}) == 10


@pytest.mark.parametrize("name", UNCHANGED)
def test_a_script_from_habit_runs_unchanged(name: str) -> None:
    runpy.run_path(str(HABITS / f"{name}.py"))


@pytest.mark.parametrize("name", CORRECTED)
def test_where_a_habit_has_no_place_the_error_says_the_call_and_with_it_the_script_runs(
    name: str, tmp_path: Path
) -> None:
    script = tmp_path / f"{name}.py"
    text = (HABITS / script.name).read_text(encoding="utf-8")
    for message, corrections in CORRECTED[name]:
        script.write_text(text, encoding="utf-8")
        with pytest.raises((ValueError, AttributeError), match=message):
            runpy.run_path(str(script))
        for wrong, right in corrections:
            assert wrong in text
            text = text.replace(wrong, right)
    script.write_text(text, encoding="utf-8")
    runpy.run_path(str(script))
