"""The interview's server: it answers its own page, and nobody else."""

from __future__ import annotations

import io
import json
import re
import socket
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from interviews import DOWN, UP, all_closed, begin, here, wants_the_end_of
from starlette.testclient import TestClient
from typer.testing import CliRunner

from aceirl.cli import app
from aceirl.errors import InputError
from aceirl.web import security
from aceirl.web.security import Guard, is_loopback, lasting_token
from aceirl.web.server import application, listening_socket
from aceirl.web.session import Interview

TOKEN, PORT = "t" * 32, 8472
JSON = {"content-type": "application/json"}


@pytest.fixture
def interview(tmp_path: Path) -> Iterator[Interview]:
    with all_closed():
        yield begin(tmp_path)


@pytest.fixture
def client(interview: Interview) -> Iterator[TestClient]:
    with TestClient(application(interview, TOKEN, PORT), base_url=f"http://127.0.0.1:{PORT}") as client:
        yield client


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
    assert '"event":"answer"' in (interview.folder / "answers.jsonl").read_text()


def test_the_whole_way_to_the_last_screen(client: TestClient, interview: Interview) -> None:
    person = wants_the_end_of(UP)
    while (shown := wait_for(client, {"asking", "done"}))["phase"] == "asking":
        post(client, "answer", turn=shown["turn"], action=person(shown["question"]["state"]))
    assert shown["gauge"]["reached"]
    assert shown["outcome"]["certified"]
    assert any(
        line.startswith("The expert wants to be in the upper corridor, cell 10 (") for line in shown["outcome"]["lines"]
    )
    film = client.get(f"/{TOKEN}/film").json()["frames"]
    assert len(film) == 21
    assert film[-1]["y"] > 3, "it acts as the person wants"

    archive = zipfile.ZipFile(io.BytesIO(client.get(f"/{TOKEN}/everything.zip").content))
    assert sorted(archive.namelist()) == ["answers.jsonl", "interview.json", "result.json", "reward.npz"]
    assert json.loads(archive.read("result.json"))["certified"]


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
    frames = client.get(f"/{TOKEN}/replay").json()["frames"]
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
    app = application(interview, TOKEN, PORT, public=True)
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
    [b"", b"{", b"[]", b"3", b'{"turn": 0}', b'{"turn": "0", "action": 0}', b'{"turn": true, "action": 0}', b"\xff"],
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
    monkeypatch.setattr(security, "monotonic", lambda: now[0])
    codes = [client.get(f"/{TOKEN}/view").status_code for _ in range(int(security.BURST) + 20)]
    assert codes[0] == 200
    assert codes[-1] == 429
    now[0] += 2
    assert client.get(f"/{TOKEN}/view").status_code == 200


def test_strangers_do_not_use_up_the_requests_of_the_person(interview: Interview) -> None:
    guard = Guard(application(interview, TOKEN, PORT), TOKEN, PORT, public=True)
    while guard._may_ask("stranger"):
        pass
    assert guard._may_ask("person")
    for number in range(2 * security.MAX_CLIENTS):
        guard._may_ask(str(number))
    assert len(guard._allowances) == security.MAX_CLIENTS


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
    assert re.search(rf"http://{re.escape(host)}:\d+/{token}/", result.stdout)
    assert ("can be reached from the network" in result.stderr) == warned


def test_the_command_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["interview", "four-pathz", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "did you mean 'four-paths'?" in result.stderr


def test_a_full_disk_is_said_and_nothing_is_lost(
    client: TestClient, interview: Interview, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(events: object, *, wait: bool = True) -> None:
        raise InputError("cannot write to answers.jsonl: No space left on device")

    state = here(interview)
    with monkeypatch.context() as patched:
        patched.setattr(interview.log, "append", full)
        response = post(client, "answer", turn=interview.turn, action=UP)
        assert response.status_code == 422
        assert "No space left" in response.json()["error"]
    assert here(interview) == state
    assert post(client, "answer", turn=interview.turn, action=UP).status_code == 200
