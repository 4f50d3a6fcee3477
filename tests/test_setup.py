"""The set-up page: what to interview about, chosen without a command line."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from interviews import FOUR_PATHS, UP
from starlette.testclient import TestClient
from typer.testing import CliRunner

from aceirl.cli import app
from aceirl.envs import ENVIRONMENTS
from aceirl.experts.tasks import offered, read_parameters
from aceirl.web.history import Accuracy
from aceirl.web.people import People
from aceirl.web.security import Reach
from aceirl.web.server import application
from aceirl.web.setup import SetUp

PORT, TOKEN = 8472, "s" * 32
JSON = {"content-type": "application/json"}
FIRST = {"epsilon": "0.1", "delta": "0.1", "seed": "0"}
GIVEN = {"environment": "four-paths", "horizon": "", "parameters": "", "name": "", "folder": ""} | FIRST


@pytest.fixture
def form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SetUp]:
    monkeypatch.chdir(tmp_path)
    with closing(SetUp(TOKEN, None, FIRST, lambda people: None)) as form:
        yield form


@pytest.fixture
def client(form: SetUp) -> Iterator[TestClient]:
    with TestClient(application(form, Reach(PORT)), base_url=f"http://127.0.0.1:{PORT}") as client:
        yield client


def start(client: TestClient, **values: str) -> Any:
    return client.post(f"/{TOKEN}/start", headers=JSON, content=json.dumps(GIVEN | values))


def test_every_environment_that_is_offered_is_told_in_one_line() -> None:
    found = {one.name: one for one in offered()}
    assert set(ENVIRONMENTS) <= set(found)
    assert {"FrozenLake-v1", "Taxi-v4", "Blackjack-v1", "CliffWalking-v1"} <= set(found)
    assert all(one.summary and "\n" not in one.summary for one in found.values())
    assert (found["FrozenLake-v1"].steps, found["Blackjack-v1"].steps, found["four-paths"].steps) == (100, None, 20)


def test_parameters_are_read_as_on_the_command_line() -> None:
    assert read_parameters(["a=1", "b = true", 'c="x"', "d=x", "e=False", "f=None"]) == {
        "a": 1,
        "b": True,
        "c": "x",
        "d": "x",
        "e": False,
        "f": None,
    }


def test_the_page_has_all_there_is_to_choose(client: TestClient) -> None:
    response = client.get(f"/{TOKEN}/")
    assert response.status_code == 200
    assert "'nonce-" in response.headers["content-security-policy"]
    for name in ("FrozenLake-v1", "gridworld", "A game of Blackjack."):
        assert name in response.text


def test_start_shows_the_interview_at_the_same_address(client: TestClient, form: SetUp) -> None:
    response = start(client, name="Olga", epsilon="20 %", seed="3", parameters="arm_length=5\n\nhorizon=12\n")
    assert response.status_code == 200, response.text
    assert response.json() == {"address": f"/{TOKEN}/"}
    assert "What would" in client.get(f"/{TOKEN}/").text
    for _ in range(500):  # until the agent has walked to its first question
        phase = client.get(f"/{TOKEN}/view").json()["phase"]
        if phase == "asking":
            break
        time.sleep(0.02)
    assert phase == "asking"
    assert form.people is not None
    owner = form.people.owner
    assert (owner.name, owner.interview.folder) == ("Olga", Path("runs/interview-four-paths"))
    assert (owner.interview.source.seed, owner.interview.source.parameters) == (
        3,
        {"arm_length": 5, "horizon": 12},
    )
    assert owner.interview.accuracy == Accuracy(0.2, 0.1)
    assert form.people.invitation is not None
    assert client.get(f"/{form.people.invitation.token}/").status_code == 200
    assert start(client).status_code in (404, 405), "there is nothing to set up any more"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("environment", "", "choose an environment"),
        ("environment", "four-pathz", "did you mean 'four-paths'?"),
        ("environment", "FrozenLake-v9", "cannot be made"),
        ("environment", "Taxi-v3", "out of date and cannot be made any more; use Taxi-v4"),
        ("environment", "os:system", "only ids of Gymnasium"),
        ("environment", "CartPole-v1", "its observations are continuous; it has a page of its own"),
        ("epsilon", "much", "not a number"),
        ("epsilon", "1.5", "between 0.001 and 0.99"),
        ("epsilon", "nan", "between 0.001 and 0.99"),
        ("delta", "0", "between 0.001 and 0.99"),
        ("seed", "-1", "whole number"),
        ("horizon", "0", "whole number of at least 1"),
        ("horizon", "5", "horizon=5 under parameters"),
        ("parameters", "slippery", "name=value"),
        ("parameters", "slippery=1", "slippery"),
        ("parameters", "arm_length=0", "arm_length"),
        ("name", "x" * 41, "at most 40"),
        ("folder", "../elsewhere", "a folder's name"),
        ("folder", ".hidden", "a folder's name"),
    ],
)
def test_what_is_wrong_is_said_of_its_field(
    client: TestClient, tmp_path: Path, field: str, value: str, words: str
) -> None:
    response = start(client, **{field: value})
    assert response.status_code == 422
    assert response.json()["field"] == field
    assert words in response.json()["error"]
    assert not list(tmp_path.iterdir()), "nothing is begun"
    assert start(client).status_code == 200, "and it can be put right"


@pytest.mark.parametrize(("given", "steps"), [("", 12), ("8", 8)])
def test_where_the_environment_has_no_horizon_there_is_a_usual_one(
    client: TestClient, form: SetUp, given: str, steps: int
) -> None:
    found = client.get(f"/{TOKEN}/environment", params={"name": "Blackjack-v1"}).json()
    assert found["steps"] == 12
    assert start(client, environment="Blackjack-v1", horizon=given).status_code == 200
    assert form.people is not None
    assert form.people.owner.interview.environment.horizon == steps


def test_a_horizon_is_asked_for_where_nobody_knows_one(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aceirl.web.early.USUAL_STEPS", {})
    response = start(client, environment="Blackjack-v1")
    assert (response.status_code, response.json()["field"]) == (422, "horizon")
    assert "does not say how long" in response.json()["error"]


@pytest.mark.parametrize("name", ["", "Nowhere-v0", "os:system", "CartPole-v1", "x" * 300])
def test_an_environment_that_cannot_be_asked_about_is_refused_in_words(client: TestClient, name: str) -> None:
    response = client.get(f"/{TOKEN}/environment", params={"name": name})
    assert response.status_code == 422
    assert response.json()["error"]


def test_an_interview_that_is_there_goes_on_and_one_with_other_settings_is_left_alone(
    client: TestClient, form: SetUp, tmp_path: Path
) -> None:
    folder = tmp_path / "runs" / "interview-four-paths"
    people = People.open(folder, FOUR_PATHS, Accuracy())
    people.owner.interview.walk_on(10)
    people.owner.interview.answer(0, UP)
    token = people.owner.token
    refused = start(client)
    assert (refused.json()["field"], "in use" in refused.json()["error"]) == ("folder", True)
    people.close()

    refused = start(client, seed="1")
    assert refused.json()["field"] == "folder"
    assert "other settings" in refused.json()["error"]
    assert start(client).json() == {"address": f"/{token}/"}
    assert client.get(f"/{token}/view").json()["progress"]["answers"] == 1
    assert client.get(f"/{TOKEN}/").url.path == f"/{token}/", "the printed address leads there"


def test_another_folder_can_be_named(client: TestClient, form: SetUp) -> None:
    assert start(client, folder="second try").status_code == 200
    assert form.people is not None
    assert form.people.folder == Path("runs/second try")


def test_the_fields_begin_with_what_is_in_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    source = type(FOUR_PATHS)("four-paths", {"arm_length": 5}, seed=4, stationary_expert=True)
    People.open(folder, source, Accuracy(0.3, 0.2)).close()
    shown = SetUp(TOKEN, folder, FIRST, lambda people: None).shown()
    kept = {"environment": "four-paths", "parameters": "arm_length=5", "seed": "4", "epsilon": "0.3", "delta": "0.2"}
    assert shown["values"] | kept == shown["values"]


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"environment": 3}', b"[" * 4000])
def test_what_is_no_form_is_refused_in_words(client: TestClient, body: bytes) -> None:
    response = client.post(f"/{TOKEN}/start", headers=JSON, content=body)
    assert response.status_code == 422
    assert "must be sent" in response.json()["error"]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"content-type": "text/plain"}, 415),
    ],
)
def test_no_other_page_can_start_an_interview(
    client: TestClient, tmp_path: Path, headers: dict[str, str], code: int
) -> None:
    response = client.post(f"/{TOKEN}/start", headers=JSON | headers, content=json.dumps(GIVEN))
    assert response.status_code == code
    assert not list(tmp_path.iterdir())


def test_the_command_without_an_environment_prints_where_to_choose_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)

    def serve(guard: Any, listening: Any) -> None:
        port = listening.getsockname()[1]
        listening.close()
        with TestClient(guard, base_url=f"http://127.0.0.1:{port}") as client:
            path = re.search(r"http://127.0.0.1:\d+(/[\w-]{32}/)", Path(opened[0].removeprefix("file://")).read_text())
            assert path is not None
            values = json.dumps(GIVEN | {"seed": "5"})
            assert client.post(f"{path[1]}start", headers=JSON, content=values).json() == {"address": path[1]}

    monkeypatch.setattr("aceirl.web.server.serve", serve)
    result = CliRunner().invoke(app, ["interview", "--port", "0", "--open", "--seed", "7"])
    assert result.exit_code == 0, result.output
    assert "Choose what the interview is about at" in result.stdout
    assert "aceirl interview four-paths --seed 5 --out runs/interview-four-paths" in result.stdout
    token = (tmp_path / "runs" / "interview-four-paths" / "token").read_text()
    assert token not in opened[0]
    assert f"/{token}/" in result.stdout
