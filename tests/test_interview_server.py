"""The interview's server: it answers its own page, and nobody else."""

from __future__ import annotations

import asyncio
import gc
import http.client
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
import uvicorn
from interviews import DOWN, FOUR_PATHS, GRIDWORLD, UP, all_closed, begin, here, wants_the_end_of
from starlette.testclient import TestClient
from typer.testing import CliRunner

from aceirl.cli import app
from aceirl.errors import InputError
from aceirl.runs import files
from aceirl.web import background, security
from aceirl.web.driver import Interview
from aceirl.web.early import listening_socket, usual_steps
from aceirl.web.history import Accuracy
from aceirl.web.people import People
from aceirl.web.security import Guard, Reach, Tokens, is_loopback, lasting_token, reachable_address
from aceirl.web.server import application
from studies.serving import Server

TOKEN, PORT = "t" * 32, 8472
JSON = {"content-type": "application/json"}


@pytest.fixture
def interview(tmp_path: Path) -> Iterator[Interview]:
    with all_closed():
        yield begin(tmp_path)


@pytest.fixture
def client(interview: Interview) -> Iterator[TestClient]:
    with TestClient(served(interview), base_url=f"http://127.0.0.1:{PORT}") as client:
        yield client


def served(interview: Interview, **reach: Any) -> Guard:
    return application(People(interview, TOKEN), Reach(PORT, **reach))


def post(client: TestClient, path: str, headers: dict[str, str] | None = None, **body: Any) -> Any:
    return client.post(f"/{TOKEN}/{path}", headers=JSON | (headers or {}), content=json.dumps(body))


def current(client: TestClient) -> dict[str, Any]:
    return client.get(f"/{TOKEN}/view").json()  # type: ignore[no-any-return]


def wait_for(client: TestClient, phases: set[str]) -> dict[str, Any]:
    for _ in range(1200):
        shown = current(client)
        if shown["phase"] in phases:
            return shown
        time.sleep(0.05)
    raise AssertionError(f"still {shown['phase']}, and not one of {phases}")


def test_the_page_brings_all_it_needs_and_allows_nothing_else(client: TestClient) -> None:
    response = client.get(f"/{TOKEN}/")
    assert response.status_code == 200
    policy = response.headers["content-security-policy"]
    nonce = re.search(r"'nonce-([\w-]+)'", policy)
    assert nonce is not None
    assert "default-src 'none'" in policy
    assert response.text.count(f'nonce="{nonce[1]}"') == 4
    assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", response.text)
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-frame-options"] == "DENY"
    assert response.headers["referrer-policy"] == "no-referrer"
    again = client.get(f"/{TOKEN}/")
    assert nonce[1] not in again.text


def test_an_answer_is_on_disk_when_the_next_question_comes(client: TestClient, interview: Interview) -> None:
    before = current(client)
    response = post(client, "answer", turn=before["turn"], action=UP)
    assert response.status_code == 200
    assert response.json()["turn"] == before["turn"] + 1
    assert response.json()["question"]["state"] != before["question"]["state"]
    log = (interview.folder / "answers.jsonl").read_text().splitlines()
    (said,) = (event for event in map(json.loads, log) if event["event"] == "answer")
    assert 0 <= said["seconds"] < 60, "since the page had the question"


def test_the_whole_way_to_the_last_screen(client: TestClient, interview: Interview) -> None:
    person = wants_the_end_of(UP)
    while (shown := wait_for(client, {"asking", "done"}))["phase"] == "asking":
        post(client, "answer", turn=shown["turn"], action=person(shown["question"]["state"]))
    assert shown["gauge"]["reached"]
    assert shown["outcome"]["certified"]
    wish = shown["outcome"]["wish"]
    assert wish["headline"] == "I cannot tell yet what you want."
    assert wish["why"].startswith("Your answers: a habit (the same action everywhere) predicts ")
    film = client.get(f"/{TOKEN}/film").json()["frames"]
    assert len(film) == 21
    assert film[-1]["y"] > 3, "it acts as the person wants"

    archive = zipfile.ZipFile(io.BytesIO(client.get(f"/{TOKEN}/everything.zip").content))
    assert sorted(archive.namelist()) == [
        "answers.jsonl", "demonstrations.jsonl", "interview.json", "records.jsonl", "result.json", "run.json",
        "state.npz",
    ]  # fmt: skip
    result = json.loads(archive.read("result.json"))
    assert result["certified"]
    assert (result["wish"]["kind"], wish["why"].removeprefix("Your answers: ") in result["wish"]["sentence"]) == (
        "open",
        True,
    )
    said = post(client, "verdict", turn=shown["turn"], verdict="nearly", what="wants", where=20)
    assert said.status_code == 200
    shown = wait_for(client, {"done"})
    assert shown["outcome"]["wish"]["verdict"] == "You said: get to the upper corridor, cell 10."


def test_a_page_that_has_the_latest_is_told_so(client: TestClient) -> None:
    shown = current(client)
    assert client.get(f"/{TOKEN}/view", params={"have": shown["tag"]}).status_code == 204
    post(client, "answer", turn=shown["turn"], action=UP)
    assert client.get(f"/{TOKEN}/view", params={"have": shown["tag"]}).status_code == 200


def test_two_tabs_cannot_both_answer_one_question(client: TestClient) -> None:
    turn = current(client)["turn"]
    assert post(client, "answer", turn=turn, action=UP).status_code == 200
    late = post(client, "answer", turn=turn, action=DOWN)
    assert late.status_code == 409
    assert late.json()["turn"] == turn + 1, "the second tab is shown the question that is current"
    assert current(client)["progress"]["answers"] == 1


def test_skip_undo_and_replay(client: TestClient) -> None:
    shown = current(client)
    shown = post(client, "answer", turn=shown["turn"], action=UP).json()
    state = shown["question"]["state"]
    frames = client.get(f"/{TOKEN}/replay", params={"episode": shown["question"]["episode"]}).json()["frames"]
    assert len(frames) == len(shown["question"]["path"])
    shown = post(client, "skip", turn=shown["turn"]).json()
    assert shown["progress"]["skipped"] == 1
    shown = post(client, "undo", turn=shown["turn"]).json()
    assert shown["progress"]["skipped"] == 0
    assert shown["question"]["state"] == state


@pytest.mark.parametrize(
    "path", ["/", "/view", f"/{'x' * 32}/", f"/{TOKEN[:-1]}/", f"/{TOKEN}x/view", "/everything.zip"]
)
def test_a_wrong_token_is_refused(client: TestClient, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 403
    assert TOKEN not in response.text


@pytest.mark.parametrize(
    "host", ["evil.example:8472", "evil.example", "127.0.0.1:80", "127.0.0.1", "192.168.1.5:8472", ""]
)
def test_a_wrong_host_is_refused(client: TestClient, host: str) -> None:
    assert client.get(f"/{TOKEN}/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8472", "localhost:8472", "[::1]:8472"])
def test_the_names_of_this_machine_are_accepted(client: TestClient, host: str) -> None:
    assert client.get(f"/{TOKEN}/", headers={"host": host}).status_code == 200


def test_an_open_server_accepts_addresses_but_no_foreign_names(interview: Interview) -> None:
    app = served(interview, public=True)
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}") as client:
        assert client.get(f"/{TOKEN}/view", headers={"host": "192.168.1.5:8472"}).status_code == 200
        assert client.get(f"/{TOKEN}/view", headers={"host": "evil.example:8472"}).status_code == 421
        assert client.get("/wrong/view", headers={"host": "192.168.1.5:8472"}).status_code == 403


@pytest.mark.parametrize("name", ["answer", "skip", "undo", "correct"])
def test_reading_changes_nothing(client: TestClient, name: str) -> None:
    before = current(client)["turn"]
    assert client.get(f"/{TOKEN}/{name}", params={"turn": before, "action": 0}).status_code == 405
    assert current(client)["turn"] == before


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_changes_from_other_pages_are_refused(client: TestClient, headers: dict[str, str]) -> None:
    turn = current(client)["turn"]
    assert post(client, "answer", headers, turn=turn, action=UP).status_code == 403
    assert current(client)["turn"] == turn


def test_changes_from_the_own_page_are_accepted(client: TestClient) -> None:
    own = {"origin": f"http://127.0.0.1:{PORT}", "sec-fetch-site": "same-origin"}
    assert post(client, "answer", own, turn=current(client)["turn"], action=UP).status_code == 200


def test_large_bodies_are_refused_whatever_they_say_of_their_size(client: TestClient) -> None:
    body = b'{"turn": 0, "action": 0, "more": "' + b"x" * 10_000 + b'"}'
    assert client.post(f"/{TOKEN}/answer", headers=JSON, content=body).status_code == 413

    def in_pieces() -> Iterator[bytes]:
        for start in range(0, len(body), 1000):
            yield body[start : start + 1000]

    assert client.post(f"/{TOKEN}/answer", headers=JSON, content=in_pieces()).status_code == 413
    assert current(client)["turn"] == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b'{"turn": 0}',
        b'{"turn": "0", "action": 0}',
        b'{"turn": true, "action": 0}',
        b"\xff",
        b"[" * 4000,
    ],
)
def test_what_is_no_answer_is_refused_in_words(client: TestClient, body: bytes) -> None:
    response = client.post(f"/{TOKEN}/answer", headers=JSON, content=body)
    assert response.status_code == 422
    assert "turn" in response.json()["error"]


def test_an_action_that_does_not_exist_is_refused_in_words(client: TestClient) -> None:
    response = post(client, "answer", turn=current(client)["turn"], action=9)
    assert response.status_code == 422
    assert response.json()["error"] == "action 9 is not one of 0 to 3"


def test_forms_of_other_pages_cannot_be_mistaken_for_json(client: TestClient) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        response = client.post(f"/{TOKEN}/answer", headers={"content-type": kind}, content=b'{"turn": 0, "action": 0}')
        assert response.status_code == 415


@pytest.mark.parametrize(
    "path", ["token", "../token", "%2e%2e/token", "interview.json", "templates/page.js", "answers.jsonl"]
)
def test_no_file_is_served(client: TestClient, path: str) -> None:
    assert client.get(f"/{TOKEN}/{path}").status_code in (403, 404)


def test_too_many_requests_are_refused_and_forgiven(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(security, "PENANCE", 0.01)
    monkeypatch.setattr(security, "monotonic", lambda: now[0])
    codes = [client.get(f"/{TOKEN}/view").status_code for _ in range(int(security.BURST) + 20)]
    assert codes[0] == 200
    assert codes[-1] == 429
    now[0] += 2
    assert client.get(f"/{TOKEN}/view").status_code == 200


def test_requests_without_the_token_do_not_use_up_those_of_the_person(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(security, "monotonic", lambda: 1000.0)
    codes = {client.get("/wrong/view").status_code for _ in range(2 * int(security.BURST))}
    assert codes == {403}
    assert client.get(f"/{TOKEN}/view").status_code == 200


def test_one_person_does_not_use_up_the_requests_of_another(interview: Interview) -> None:
    allowance = served(interview, public=True).allowance
    while allowance.take("stranger"):
        pass
    assert allowance.take("person")
    for number in range(2 * security.MAX_CLIENTS):
        allowance.take(str(number))
    assert len(allowance.left) == security.MAX_CLIENTS


def test_what_computes_everything_again_cannot_be_asked_for_all_the_time(
    client: TestClient, interview: Interview, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_for(client, {"asking"})
    now = [time.monotonic() + 100]
    monkeypatch.setattr(security, "monotonic", lambda: now[0])
    modes = ["play", "ask"] * 6
    codes = [post(client, "mode", turn=interview.turn, mode=mode).status_code for mode in modes]
    assert codes == [200] * 8 + [429] * 4
    now[0] += 1
    assert post(client, "mode", turn=interview.turn, mode="ask").status_code == 200


def test_the_token_is_kept_private_and_lasts(tmp_path: Path) -> None:
    token = lasting_token(tmp_path)
    assert len(token) == 32
    assert lasting_token(tmp_path) == token
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    (tmp_path / "other").mkdir()
    assert lasting_token(tmp_path / "other") != token


def test_what_is_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "10.0.0.1", "localhost.evil.example", "example.org", "")))


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    first = listening_socket("127.0.0.1", 0, 0)
    taken = first.getsockname()[1]
    try:
        with pytest.raises(InputError, match=f"port {taken}"):
            listening_socket("127.0.0.1", taken, 0)
        elsewhere = listening_socket("127.0.0.1", None, taken)
        assert elsewhere.getsockname()[1] != taken
        elsewhere.close()
    finally:
        first.close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("FrozenLake-v0",), "is out of date and cannot be made any more; use FrozenLake-v1"),
        (("FrozenLake-v9",), "doesn't exist"),
        (("FrozenLak-v1",), "did you mean 'FrozenLake-v1'?"),
        (("FrozenLake-v1", "--epsilon", "1e-320"), "0.001"),
        (("FrozenLake-v1", "--port", "PORT"), "port PORT: Address already in use"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_loaded(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    with closing(listening_socket("127.0.0.1", 0, 0)) as taken:
        port = str(taken.getsockname()[1])
        program = "import sys; sys.modules['numba'] = None; from aceirl.cli import main; main()"
        given = [port if one == "PORT" else one for one in arguments]
        command = [sys.executable, "-c", program, "interview", *given, "--out", str(tmp_path / "out")]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert said.replace("PORT", port) in " ".join(ended.stderr.replace("│", "").split())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["CliffWalking-v1", "Blackjack-v1"])
def test_gymnasiums_own_environments_need_no_horizon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("aceirl.web.server.serve", lambda app, listening: listening.close())
    result = CliRunner().invoke(app, ["interview", name, "--out", str(tmp_path), "--port", "0"])
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "interview.json").read_text())["source"]["horizon"] == usual_steps(name)
    assert result.stdout.startswith("Starting; the address comes in a few seconds.")


@pytest.mark.parametrize(("host", "warned"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_the_command_prints_the_address_and_warns_of_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, warned: bool
) -> None:
    served: list[socket.socket] = []
    monkeypatch.setattr("aceirl.web.server.serve", lambda app, listening: served.append(listening))
    arguments = ["interview", "gridworld", "--out", str(tmp_path), "--host", host, "--port", "0"]
    result = CliRunner().invoke(app, arguments)
    served[0].close()
    assert result.exit_code == 0, result.output
    token = (tmp_path / "token").read_text()
    (printed,) = re.findall(rf"http://(.+):\d+/{token}/", result.stdout)
    assert printed == reachable_address(host)
    assert printed != "0.0.0.0", "nobody can open that"
    invitation = json.loads((tmp_path / "people.json").read_text())["invitations"][0]["token"]
    assert re.search(rf"http://{re.escape(printed)}:\d+/{invitation}/", result.stdout)
    assert ("can be reached from the network" in result.stderr) == warned


def test_the_address_that_is_printed_for_the_network_can_be_opened(tmp_path: Path) -> None:
    running = Server("gridworld", tmp_path, "--host", "0.0.0.0")
    host, path = running.url.removeprefix("http://").split("/", 1)
    try:
        with closing(http.client.HTTPConnection(host, timeout=10)) as person:
            person.request("GET", f"/{path}view")
            assert person.getresponse().status == 200
    finally:
        running.stop(signal.SIGKILL)


def test_the_command_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["interview", "four-pathz", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "did you mean 'four-paths'?" in result.stderr


def test_things_can_be_tried_out_and_nothing_of_it_counts(client: TestClient) -> None:
    before = current(client)["turn"], current(client)["progress"]
    frames = client.get(f"/{TOKEN}/try", params={"actions": "1.1.1"}).json()["frames"]
    assert [frame["step"] for frame in frames] == [0, 1, 2, 3]
    assert frames == client.get(f"/{TOKEN}/try", params={"actions": "1.1.1"}).json()["frames"], "by the same chance"
    assert len(client.get(f"/{TOKEN}/try").json()["frames"]) == 1
    for wrong in ("1.9", "x", "1..2", "-1", ".".join(["1"] * 31)):
        assert client.get(f"/{TOKEN}/try", params={"actions": wrong}).status_code == 422
    assert (current(client)["turn"], current(client)["progress"]) == before


@pytest.mark.parametrize("number", ["²", "٣", "-1", "1.5", "", "1234567"])
def test_a_film_has_a_whole_number(client: TestClient, number: str) -> None:
    response = client.get(f"/{TOKEN}/film", params={"number": number})
    assert response.status_code == 422
    assert "whole number" in response.json()["error"]


def test_the_address_without_its_last_slash_leads_to_the_page(client: TestClient) -> None:
    response = client.get(f"/{TOKEN}", follow_redirects=False)
    assert response.status_code == 308
    assert response.headers["location"] == f"/{TOKEN}/"
    assert "What would" in client.get(f"/{TOKEN}").text


def test_only_not_knowing_comes_to_an_end(tmp_path: Path) -> None:
    with all_closed():
        interview = begin(tmp_path, GRIDWORLD)
        with TestClient(served(interview), base_url=f"http://127.0.0.1:{PORT}") as client:
            while (shown := wait_for(client, {"asking", "done"}))["phase"] == "asking":
                post(client, "skip", turn=shown["turn"])
                time.sleep(1 / security.REQUESTS_PER_SECOND)
            lines = shown["outcome"]["lines"]
            assert shown["outcome"]["wish"]["headline"].startswith("You have answered nothing, so there is nothing")
            assert any(line.startswith("You gave 0 answers;") for line in lines)
            assert shown["gauge"]["words"] == "Nothing can be promised."
            assert json.loads((tmp_path / "result.json").read_text())["answers"] == 0


def test_after_an_undo_the_download_has_no_result_that_held_before(client: TestClient, interview: Interview) -> None:
    person = wants_the_end_of(UP)
    while (shown := wait_for(client, {"asking", "done"}))["phase"] == "asking":
        post(client, "answer", turn=shown["turn"], action=person(shown["question"]["state"]))

    def downloaded() -> zipfile.ZipFile:
        return zipfile.ZipFile(io.BytesIO(client.get(f"/{TOKEN}/everything.zip").content))

    answers = json.loads(downloaded().read("result.json"))["answers"]
    shown = post(client, "undo", turn=shown["turn"]).json()
    assert sorted(downloaded().namelist()) == ["answers.jsonl", "interview.json"]
    assert b'"undo"' in downloaded().read("answers.jsonl")
    post(client, "answer", turn=shown["turn"], action=person(shown["question"]["state"]))
    wait_for(client, {"done"})
    assert json.loads(downloaded().read("result.json"))["answers"] == answers


def test_opening_a_browser_does_not_show_the_token_to_other_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("aceirl.web.server.serve", lambda app, listening: listening.close())
    result = CliRunner().invoke(app, ["interview", "gridworld", "--out", str(tmp_path), "--port", "0", "--open"])
    assert result.exit_code == 0, result.output
    token = (tmp_path / "token").read_text()
    assert opened == [(tmp_path / "open.html").as_uri()]
    assert token not in opened[0]
    assert f"/{token}/" in (tmp_path / "open.html").read_text()
    assert (tmp_path / "open.html").stat().st_mode & 0o777 == 0o600


def full_disk(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_an_answer_that_was_stored_is_not_refused_when_the_agent_cannot_go_on(
    client: TestClient, interview: Interview, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "RETRY", 0.05)
    turn, log = interview.turn, interview.log
    with monkeypatch.context() as patched:

        def only_answers(file: Any, content: bytes) -> None:
            if b'"answer"' not in content:
                full_disk()
            file.write(content)

        patched.setattr(files, "_write_all", only_answers)
        response = post(client, "answer", turn=turn, action=UP)
        assert response.status_code == 200
        assert response.json()["turn"] == turn + 1
        time.sleep(0.2)
        shown = current(client)
        assert shown["phase"] == "walking"
        assert "No space left" in shown["trouble"]
        assert [event["event"] for event in log].count("answer") == 1
    shown = wait_for(client, {"asking"})
    assert shown["trouble"] is None


def test_a_full_disk_is_shown_at_the_end_until_the_result_is_written(
    client: TestClient, interview: Interview, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "RETRY", 0.05)
    person = wants_the_end_of(UP)
    with monkeypatch.context() as patched:
        patched.setattr("os.replace", full_disk)
        while (shown := wait_for(client, {"asking", "thinking"}))["phase"] == "asking":
            post(client, "answer", turn=shown["turn"], action=person(shown["question"]["state"]))
        for _ in range(200):
            if (shown := current(client))["trouble"]:
                break
            time.sleep(0.05)
        assert "No space left" in shown["trouble"]
        assert shown["phase"] == "thinking"
        assert not (interview.folder / "result.json").exists()
    shown = wait_for(client, {"done"})
    assert shown["trouble"] is None
    assert (interview.folder / "result.json").exists()


def test_an_environment_that_cannot_be_played_again_is_said_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with all_closed():
        begin(tmp_path).close()
        walk = {"event": "walk", "episode": 0, "step": 0, "path": [7], "stakes": {}}
        (tmp_path / "answers.jsonl").write_text(json.dumps(walk) + "\n")
        interview = Interview.open(tmp_path, FOUR_PATHS, Accuracy())
        with TestClient(served(interview), base_url=f"http://127.0.0.1:{PORT}") as client:
            assert "went differently" in current(client)["trouble"]
        interview.close()
    assert "went differently" in capsys.readouterr().err


def test_a_failure_of_the_software_is_shown(
    client: TestClient, interview: Interview, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(turn: object) -> None:
        raise ArithmeticError("no reward to be found")

    monkeypatch.setattr(background, "work_out", broken)
    post(client, "answer", turn=interview.turn, action=UP)
    for _ in range(100):
        if (shown := current(client))["trouble"]:
            break
        time.sleep(0.05)
    assert shown["trouble"] == "The interview cannot go on: ArithmeticError: no reward to be found"
    assert "ArithmeticError" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="the time a process has used is read from /proc")
@pytest.mark.parametrize(("descriptors", "room"), [(500, 180), (120, 1)])
def test_a_crowd_of_idle_connections_does_not_lock_the_person_out(tmp_path: Path, descriptors: int, room: int) -> None:
    """More connections than the server gives room to, and even more than it may have open files."""
    running = Server("gridworld", tmp_path, descriptors=descriptors)
    path = running.url.split(str(running.port))[1] + "view"
    crowd: list[socket.socket] = []
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)) as person:
            for _ in range(500):
                crowd.append(silent_connection(running.port))  # noqa: PERF401 - all are closed if one fails
            before = cpu_seconds(running.process.pid)
            for _ in range(10):
                person.request("GET", path)
                response = person.getresponse()
                assert response.status == 200
                response.read()
                time.sleep(0.1)
            assert still_open(crowd) <= room
            assert cpu_seconds(running.process.pid) - before < 0.8, "the server does not spin"
            own = person.sock
            person.request("GET", path)
            assert person.getresponse().status == 200
            assert person.sock is own, "a connection that has shown the token stays"
    finally:
        for connection in crowd:
            connection.close()
        running.stop(signal.SIGKILL)


@pytest.mark.parametrize("sent", [b"GET /wrong/view HTTP/1.1\r\n", b"x" * 300, b"\r\n", b"GET / HTTP/1.0\r\n\r\n"])
def test_what_does_not_begin_with_the_token_is_refused_at_the_door(sent: bytes) -> None:
    door, transport = at_the_door(sent)
    head, _, body = transport.sent.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 403 ")
    assert b"content-length: %d\r\n" % len(body) in head + b"\r\n"
    assert "token" in json.loads(body)["error"]
    assert transport.closed
    assert transport.inside is None
    assert not door.strangers


def test_who_opens_a_wrong_address_in_a_browser_reads_what_to_do() -> None:
    _, transport = at_the_door(b"GET /wrong/ HTTP/1.1\r\nAccept: text/html,*/*\r\n\r\n")
    head, _, body = transport.sent.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 403 ")
    assert b"content-type: text/html" in head
    assert b"content-length: %d\r\n" % len(body) in head + b"\r\n"
    assert b"ask whoever sent you the link for another one" in body
    assert transport.closed


def test_who_was_removed_reads_it_on_a_connection_that_was_open(client: TestClient) -> None:
    response = client.get("/wrong/", headers={"accept": "text/html,*/*"})
    assert (response.status_code, response.headers["content-type"]) == (403, "text/html; charset=utf-8")
    assert "This address does not work" in response.text


def test_the_token_may_come_in_pieces() -> None:
    shown = f"GET /{TOKEN}".encode()
    door, transport = at_the_door(*(bytes([byte]) for byte in shown[:-1]))
    assert (transport.inside, transport.sent, list(door.strangers)) == (None, b"", [door])
    door, transport = at_the_door(*(bytes([byte]) for byte in shown))
    assert transport.inside is not None
    assert (transport.closed, transport.sent, list(door.strangers)) == (False, b"", [])


def test_what_strangers_leave_behind_is_collected_a_little_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[int] = []
    door, _ = at_the_door(b"GET /")
    monkeypatch.setattr(gc, "collect", lambda: collected.append(door.gone))
    for _ in range(2 * security.COLLECTED):
        door.connection_lost(None)
    assert collected == [security.COLLECTED, 2 * security.COLLECTED]
    assert not door.strangers
    assert security.Door.gone == 0, "another server counts its own"


def test_a_token_opens_its_own_page_from_when_it_is_added() -> None:
    async def one(scope: object, receive: object, send: object) -> None: ...

    async def other(scope: object, receive: object, send: object) -> None: ...

    tokens = Tokens()
    tokens.add("a" * 32, one)
    assert tokens.opened(b"b" * 32) is None
    tokens.add("b" * 32, other)
    assert tokens.opened(b"a" * 32) is one
    assert tokens.opened(b"b" * 32) is other
    for wrong in (b"", b"a", b"a" * 31, b"a" * 33, "ä".encode() * 16):
        assert tokens.opened(wrong) is None
    with pytest.raises(ValueError, match="32 characters"):
        tokens.add("short", one)


class Transport(asyncio.Transport):
    """What becomes of a connection."""

    def __init__(self) -> None:
        super().__init__()
        self.sent, self.closed, self.inside = b"", False, None  # type: bytes, bool, asyncio.BaseProtocol | None
        self.unread = 0

    def write(self, data: Any) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed, self.unread = True, 0

    abort = close

    def get_write_buffer_size(self) -> int:
        return self.unread

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def protocol(self, door: security.Door) -> asyncio.Protocol:
        return door if self.inside is None else cast(asyncio.Protocol, self.inside)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.inside = protocol


def at_the_door(*pieces: bytes) -> tuple[security.Door, Transport]:
    """A stranger who has come and said something."""
    return asyncio.run(come(*pieces))


async def unasked(scope: object, receive: object, send: object) -> None:
    raise AssertionError("nobody has asked for anything yet")


async def come(*pieces: bytes, kind: type[security.Door] | None = None) -> tuple[security.Door, Transport]:
    """The same on a loop that goes on; at the door of a server of its own, or of this `kind`."""
    config = uvicorn.Config(unasked)
    server_state = uvicorn.Server(config).server_state
    if kind is None:
        tokens = Tokens()
        tokens.add("o" * 32, unasked)
        tokens.add(TOKEN, unasked)
        kind = security.door(tokens)
    door, transport = kind(config=config, server_state=server_state, app_state={}), Transport()
    door.connection_made(transport)
    for piece in pieces:
        transport.protocol(door).data_received(piece)
    return door, transport


def silent_connection(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def still_open(crowd: list[socket.socket]) -> int:
    """How many the server has not closed."""
    count = 0
    for connection in crowd:
        connection.setblocking(False)
        try:
            connection.recv(1)
        except BlockingIOError:
            count += 1
        except ConnectionError:
            pass
    return count


def cpu_seconds(process: int) -> float:
    ticks = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")


def test_a_folder_that_is_deleted_is_said_and_what_was_answered_can_still_be_saved(
    client: TestClient, interview: Interview
) -> None:
    shown = wait_for(client, {"asking"})
    shown = post(client, "answer", turn=shown["turn"], action=UP).json()
    shutil.rmtree(interview.folder)
    for name in ("undo", "finish"):
        response = post(client, name, turn=shown["turn"])
        assert (response.status_code, "was deleted or moved" in response.json()["error"]) == (422, True)
    shown = current(client)
    assert (shown["progress"]["answers"], "was deleted or moved" in shown["trouble"]) == (1, True)
    response = client.get(f"/{TOKEN}/everything.zip")
    assert response.status_code == 200
    saved = zipfile.ZipFile(io.BytesIO(response.content))
    assert saved.namelist() == ["answers.jsonl"]
    assert saved.read("answers.jsonl").count(b'"event":"answer"') == 1


def test_a_folder_that_is_put_back_goes_on(client: TestClient, interview: Interview) -> None:
    turn = wait_for(client, {"asking"})["turn"]
    aside = interview.folder.with_name("aside")
    interview.folder.rename(aside)
    assert post(client, "answer", turn=turn, action=UP).status_code == 422
    aside.rename(interview.folder)
    assert post(client, "answer", turn=turn, action=UP).status_code == 200


@pytest.mark.parametrize(
    "sent",
    [b"GET %b/view HTTP/1.1\r\nHost: x\r\n", b"POST %b/answer HTTP/1.1\r\nHost: x\r\ncontent-length: 9\r\n\r\n1"],
)
def test_a_request_with_the_token_that_is_never_finished_is_given_up(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(security, "PATIENCE", 0.1)

    async def waited() -> tuple[bool, bool]:
        _, transport = await come(sent.replace(b"%b", f"/{TOKEN}".encode()))
        before = transport.closed
        await asyncio.sleep(0.3)
        return before, transport.closed

    assert asyncio.run(waited()) == (False, True)


def test_connections_of_one_token_do_not_crowd_out_those_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "OWN_ROOM", 3)

    async def crowded() -> list[bool]:
        first = await come(f"GET /{'o' * 32}/view".encode())
        crowd = [await come(f"GET /{TOKEN}/view".encode(), kind=type(first[0])) for _ in range(5)]
        return [transport.closed for _, transport in (first, *crowd)]

    assert asyncio.run(crowded()) == [False, True, True, False, False, False]


VIEW = f"GET /{TOKEN}/view HTTP/1.1\r\nHost: x\r\n\r\n".encode()
ANSWER = f"POST /{TOKEN}/answer HTTP/1.1\r\nHost: x\r\n".encode()


@pytest.mark.parametrize(
    "pieces",
    [
        (2 * VIEW,),
        (VIEW, VIEW),
        (ANSWER + b"Transfer-Encoding: chunked\r\n\r\n1\r\n \r\n",),
        (ANSWER + b"transfer-ENC", b"oding: chunked\r\n\r\n"),
        (ANSWER + b"X: " + 40_000 * b"x",),
        (ANSWER + b"Content-Length: 99999\r\n\r\n", *(10_000 * b"1" for _ in range(4))),
        (ANSWER + b"Content-Length: 2\r\n\r\n1", b"1" + VIEW),
    ],
    ids=["two at once", "before the answer", "chunks", "chunks in pieces", "long head", "long body", "one too many"],
)
def test_what_no_browser_sends_ends_the_connection(pieces: tuple[bytes, ...]) -> None:
    async def ended(*pieces: bytes) -> bool:
        return (await come(*pieces))[1].closed

    assert not asyncio.run(ended(*pieces[:-1]))
    assert asyncio.run(ended(*pieces))
    assert not asyncio.run(ended(VIEW))
    assert not asyncio.run(ended(ANSWER + b"Content-Length: 2\r\n\r\n1", b"1"))


def test_what_is_not_read_is_bounded_and_no_more_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "MOST_UNREAD", 25)

    async def unread() -> list[bool]:
        first = await come(f"GET /{'o' * 32}/view".encode())
        crowd = [await come(f"GET /{TOKEN}/view".encode(), kind=type(first[0])) for _ in range(4)]
        for _, transport in (first, *crowd[:3]):
            transport.unread = 10
            cast(security.Inside, transport.inside).pause_writing()
        crowd[1][1].inside.data_received(b" HTTP/1.1\r\n")  # type: ignore[union-attr]
        return [transport.closed for _, transport in (first, *crowd)]

    assert asyncio.run(unread()) == [False, True, True, False, False]


def test_who_comes_again_and_again_has_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(security, "monotonic", lambda: now[0])

    async def crowded() -> tuple[int, bool, bool]:
        first, _ = await come(VIEW)
        came = [(await come(VIEW, kind=type(first)))[1].inside is not None for _ in range(100)]
        other = f"GET /{'o' * 32}/view".encode()
        others = (await come(other, kind=type(first)))[1].inside is not None
        now[0] += 1
        return sum(came), others, (await come(VIEW, kind=type(first)))[1].inside is not None

    assert asyncio.run(crowded()) == (63, True, True)


def test_a_full_disk_is_said_and_nothing_is_lost(
    client: TestClient, interview: Interview, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = here(interview)
    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full_disk)
        response = post(client, "answer", turn=interview.turn, action=UP)
        assert response.status_code == 422
        assert "No space left" in response.json()["error"]
    assert here(interview) == state
    assert "No space left" in current(client)["trouble"], "the page goes on saying so"
    response = post(client, "answer", turn=interview.turn, action=UP)
    assert response.status_code == 200
    assert response.json()["trouble"] is None
