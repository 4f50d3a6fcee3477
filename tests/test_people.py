"""Several people in one interview: names, folders, addresses, who agrees with whom; and who is let in."""

from __future__ import annotations

import json
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interviews import DOWN, FOUR_PATHS, GRIDWORLD, UP, answer, finish, wants_the_end_of
from replies import reply
from scipy.stats import beta, binom
from starlette.testclient import TestClient
from typer.testing import CliRunner

from aceirl.cli import app
from aceirl.errors import InputError
from aceirl.experts.tasks import Source
from aceirl.protocols import Question
from aceirl.web import people as people_module
from aceirl.web.history import Accuracy
from aceirl.web.inter_rater import agreement, interval
from aceirl.web.people import HOST, Invitation, Participant, People, Together, checked_name, slug_of
from aceirl.web.security import Reach, origin_of
from aceirl.web.server import application
from aceirl.web.view import view

PORT = 8472
JSON = {"content-type": "application/json"}


@contextmanager
def opened(folder: Path, source: Source = FOUR_PATHS) -> Iterator[People]:
    people = People.open(folder, source, Accuracy())
    try:
        yield people
    finally:
        people.close()


@contextmanager
def served(people: People, **reach: Any) -> Iterator[TestClient]:
    with TestClient(application(people, Reach(PORT, **reach)), base_url=f"http://127.0.0.1:{PORT}") as client:
        yield client


def post(client: TestClient, path: str, headers: dict[str, str] | None = None, **body: Any) -> Any:
    return client.post(path, headers=JSON | (headers or {}), content=json.dumps(body))


def link(people: People) -> str:
    """The token of the invitation that is open."""
    assert people.invitation is not None
    return people.invitation.token


def joined(people: People, name: str) -> Participant:
    """A new person, by a link of their own."""
    return people.join(name, people.invite(1))


def join(client: TestClient, people: People, name: str) -> str:
    """The address of a new person."""
    response = post(client, f"/{link(people)}/join", name=name)
    assert response.status_code == 200, response.text
    return str(response.json()["address"])


def answer_all(client: TestClient, address: str, arm: int) -> dict[str, Any]:
    """Be somebody who wants the end of one arm, to the last screen."""
    person = wants_the_end_of(arm)
    for _ in range(2000):
        shown: dict[str, Any] = client.get(f"{address}view").json()
        if shown["phase"] == "asking":
            name, body = reply(shown, person)
            assert post(client, f"{address}{name}", **body).status_code in (200, 409)
        elif shown["phase"] == "done":
            return shown
        time.sleep(0.03)
    raise AssertionError("the interview does not come to an end")


# Names and folders


@pytest.mark.parametrize("name", ["", "  ", "x" * 41, "a\x00b", "a\u202eb", "a\x7f"])
def test_what_cannot_be_a_name(name: str) -> None:
    with pytest.raises(InputError, match="name"):
        checked_name(name)


def test_what_can_be_a_name() -> None:
    assert checked_name("  Anna   Bee\n") == "Anna Bee"
    assert checked_name("x" * 40) == "x" * 40
    assert checked_name("李雷") == "李雷"
    assert checked_name("e\u0301") == "\u00e9"


@given(st.text())
def test_a_folder_has_a_plain_name_whatever_a_person_is_called(name: str) -> None:
    assert re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", slug_of(name))


def test_each_person_has_a_folder_that_is_theirs_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as people:
        anna = joined(people, "Anna")
        other = joined(people, "Ánna!")
        assert anna.interview.folder == tmp_path / "people" / "anna"
        assert other.interview.folder == tmp_path / "people" / "anna-2"
        assert len({person.token for person in people.everybody} | {link(people)}) == 4
        for folder in (tmp_path, tmp_path / "people", anna.interview.folder):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        for name in ("name", "token", "interview.json", "answers.jsonl"):
            assert stat.S_IMODE((anna.interview.folder / name).stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "people.json").stat().st_mode) == 0o600
        with pytest.raises(InputError, match="in use"):
            People.open(anna.interview.folder, FOUR_PATHS, Accuracy())


@pytest.mark.parametrize("name", ["Anna", "ANNA", " anna ", "ａnna"])
def test_names_are_distinct(tmp_path: Path, name: str) -> None:
    with opened(tmp_path) as people:
        joined(people, "Anna")
        with pytest.raises(InputError, match="is here already"):
            joined(people, name)
        with pytest.raises(InputError, match="is here already"):
            people.rename(people.owner, name)
        people.rename(people.everybody[1], "anna")
        assert [person.name for person in people.everybody] == [HOST, "anna"]


def test_there_is_an_end_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people_module, "MOST_PEOPLE", 3)
    with opened(tmp_path, GRIDWORLD) as people:
        joined(people, "Anna")
        joined(people, "Ben")
        with pytest.raises(InputError, match="no room"):
            people.join("Cem", Invitation("c" * 32))
        assert not (tmp_path / "people" / "cem").exists()


def test_everybody_is_there_again_after_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path) as people:
        people.rename(people.owner, "Olga")
        joined(people, "Zoe")
        anna = joined(people, "Anna")
        anna.interview.walk_on(10)
        anna.interview.answer(0, UP)
        people.rename(people.everybody[1], "Zoé")
        before = [(person.name, person.token) for person in people.everybody], link(people)
    with opened(tmp_path) as people:
        assert ([(person.name, person.token) for person in people.everybody], link(people)) == before
        assert [person.name for person in people.everybody] == ["Olga", "Zoé", "Anna"]
        assert people.everybody[2].interview.history.answers == 1


def test_a_person_who_could_not_be_written_down_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with opened(tmp_path) as people:
        with monkeypatch.context() as patched:
            patched.setattr(people_module, "replace", full_disk)
            with pytest.raises(InputError, match="No space left"):
                joined(people, "Anna")
        assert [person.name for person in people.everybody] == [HOST]
        assert joined(people, "Anna").interview.folder == tmp_path / "people" / "anna"


def test_other_settings_are_refused_in_words(tmp_path: Path) -> None:
    with opened(tmp_path) as people:
        anna = joined(people, "Anna")
        anna.interview.walk_on(10)
        anna.interview.answer(0, UP)
    with pytest.raises(InputError, match=r"people/anna holds an interview with other settings"):
        People.open(tmp_path, GRIDWORLD, Accuracy())
    with opened(tmp_path):
        pass  # nothing is left locked


# What goes wrong with a guest


@pytest.mark.parametrize(
    "line",
    [
        b"not an event\n",
        b'{"event": "prefer", "pair": [5, 6], "better": 0}\n',
        b'{"event": "adjust", "epsilon": 0.1, "delta": 0.1, "horizon": 1000000000}\n',
    ],
)
def test_a_log_of_a_guest_that_cannot_be_read_stops_nobody_else(
    tmp_path: Path, line: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(tmp_path) as people:
        joined(people, "Anna")
        joined(people, "Ben")
    log = tmp_path / "people" / "anna" / "answers.jsonl"
    log.write_bytes(line)
    with opened(tmp_path) as people, served(people) as client:
        assert [person.name for person in people.everybody] == [HOST, "Ben"]
        assert list(people.broken) == ["Anna"]
        assert "the interview of Anna cannot be opened" in capsys.readouterr().err
        assert client.get(f"/{people.owner.token}/people.json").json()["host"]["broken"] == people.broken
        assert client.get(f"/{people.everybody[1].token}/view").status_code == 200
        with pytest.raises(InputError, match="is here already"):
            joined(people, "Anna")
    assert log.read_bytes() == line, "nothing is lost that could be mended"


# Invitations, removal, and what the host decides


def test_an_invitation_fills_its_seats_and_no_more(tmp_path: Path) -> None:
    with opened(tmp_path) as people, served(people) as client:
        mine, first = f"/{people.owner.token}/", link(people)
        assert post(client, f"/{first}/join", name="Anna").status_code == 200
        refused = post(client, f"/{first}/join", name="Ben")
        assert (refused.status_code, refused.json()["error"].split(";")[0]) == (422, "this invitation has been used")
        assert "This invitation has been used" in client.get(f"/{first}/").text, "Anna can go on by it"
        assert link(people) != first, "the host finds the next one ready"
        shown = post(client, f"{mine}invite", seats=2).json()
        made = shown["host"]["links"][-1]
        assert (made["seats"], made["taken"]) == (2, 0)
        codes = [post(client, f"/{made['token']}/join", name=name).status_code for name in ("Ben", "Cem", "Dan")]
        assert codes == [200, 200, 422]
        assert [person.name for person in people.everybody] == [HOST, "Anna", "Ben", "Cem"]
        for seats in (0, 17, "two", None):
            assert post(client, f"{mine}invite", seats=seats).status_code == 422
    with opened(tmp_path) as people, pytest.raises(InputError, match="has been used"):
        people.join("Eve", next(one for one in people.decided.invitations if one.token == first))


def test_a_name_that_is_refused_takes_no_seat(tmp_path: Path) -> None:
    with opened(tmp_path) as people, served(people) as client:
        first = link(people)
        assert post(client, f"/{first}/join", name="host").status_code == 422
        assert post(client, f"/{first}/join", name="Anna").status_code == 200


def test_a_revoked_invitation_opens_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as people, served(people) as client:
        mine, first = f"/{people.owner.token}/", link(people)
        assert post(client, f"{mine}revoke", token=first).json()["host"]["links"] == []
        assert client.get(f"/{first}/").status_code == 403
        assert post(client, f"{mine}revoke", token=first).status_code == 422
    with opened(tmp_path) as people:
        assert people.invitation is None


def test_a_guest_who_is_removed_is_out_and_their_answers_are_kept_aside(tmp_path: Path) -> None:
    with opened(tmp_path) as people, served(people) as client:
        mine, hers = f"/{people.owner.token}/", join(client, people, "Anna")
        while (shown := client.get(f"{hers}view").json())["phase"] == "walking":
            time.sleep(0.05)
        assert post(client, f"{hers}answer", turn=shown["turn"], action=UP).status_code == 200
        log = (tmp_path / "people" / "anna" / "answers.jsonl").read_bytes()
        shown = post(client, f"{mine}remove", name="Anna").json()
        assert [person["name"] for person in shown["people"]] == [HOST]
        assert client.get(f"{hers}view").status_code == 403
        assert (tmp_path / "removed" / "anna" / "answers.jsonl").read_bytes().startswith(log)
        assert post(client, f"{mine}remove", name=HOST).status_code == 422
        again = join(client, people, "Anna")
        assert again != hers
        assert client.get(f"{again}view").json()["progress"]["answers"] == 0
        post(client, f"{mine}remove", name="Anna")
        assert (tmp_path / "removed" / "anna-2").exists()
    with opened(tmp_path) as people:
        assert [person.name for person in people.everybody] == [HOST]


def test_a_guest_decides_nothing_for_all(tmp_path: Path) -> None:
    with opened(tmp_path) as people, served(people) as client:
        hers = join(client, people, "Anna")
        for name, body in (
            ("invite", {"seats": 1}),
            ("revoke", {"token": link(people)}),
            ("remove", {"name": "Anna"}),
            ("minimum", {"answers": 3}),
            ("settle", {"situation": "c", "action": 0}),
        ):
            assert post(client, f"{hers}{name}", **body).status_code == 404
        roles = [person["role"] for person in client.get(f"{hers}people.json").json()["people"]]
        assert roles == ["host", "guest"]


def test_the_host_settles_a_disagreement_and_says_how_many_answers_are_enough(tmp_path: Path) -> None:
    with opened(tmp_path) as people, served(people) as client:
        mine, hers = f"/{people.owner.token}/", join(client, people, "Anna")
        for address, action in ((mine, UP), (hers, DOWN)):
            while (shown := client.get(f"{address}view").json())["phase"] == "walking":
                time.sleep(0.05)
            assert post(client, f"{address}answer", turn=shown["turn"], action=action).status_code == 200
        found = client.get(f"{hers}people.json").json()["agreement"]
        (differ,) = found["disagreements"]
        assert (differ["situation"], differ["settled"]) == ("the middle", None)
        assert found["few"] == "Each of 1 situation has the answers of 2 people or more."
        settled = post(client, f"{mine}settle", situation=differ["key"], action=UP).json()["agreement"]
        assert settled["disagreements"][0]["settled"] == UP
        assert post(client, f"{mine}settle", situation=differ["key"], action=9).status_code == 422
        few = post(client, f"{mine}minimum", answers=3).json()["agreement"]["few"]
        assert few == "1 of 1 situation need more answers: the middle."
        assert people.everybody[1].interview.history.known() == {0: DOWN}, "nobody's own answers change"
        (panel,) = client.get(f"{mine}panels").json()["panels"]
        assert len(panel["places"]) == 41
    with opened(tmp_path) as people:
        assert (people.decided.minimum, people.decided.settled) == (3, {differ["key"]: UP})


def test_situations_that_need_more_answers_are_asked_of_others(tmp_path: Path) -> None:
    with opened(tmp_path) as people:
        together, host = Together(people, {}, Reach(PORT)), people.owner.interview
        anna = joined(people, "Anna").interview
        anna.needs = partial(together.needed, people.everybody[1])
        host.walk_on(10)
        finish(host, wants_the_end_of(UP))
        up = set(host.history.known())
        anna.walk_on(10)
        assert anna.dialogue.needed is None, "the first question is one's own"
        why = "Others have answered this one, and you are asked too. The agent goes on from where it is."
        needed: list[int] = []
        while anna.phase == "asking":
            if anna.dialogue.needed is not None:
                question = view(anna)["question"]
                assert (question["why"], question["state"]) == (why, anna.dialogue.needed)
                needed.append(question["state"])
                assert 2 * len(needed) <= anna.history.answers + 2, "every second question at most"
            answer(anna, wants_the_end_of(DOWN))
        assert anna.certified
        assert needed
        assert set(needed) <= up
        assert len(needed) == len(set(needed))
        assert up - anna.history.known().keys() == set() or 2 * len(needed) >= anna.history.answers
        known = anna.history.known()
    with opened(tmp_path) as people:
        again = people.everybody[1].interview
        assert again.history.known() == known
        assert again.history.needed == len(needed)
        assert again.certified


def test_who_does_not_know_what_others_do_is_not_asked_again_and_nobody_is_if_one_answer_is_enough(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as people:
        together = Together(people, {}, Reach(PORT))
        people.owner.interview.walk_on(10)
        finish(people.owner.interview, wants_the_end_of(UP))
        anna = joined(people, "Anna")
        people.ask_for(1)
        assert together.needed(anna) == []
        people.ask_for(2)
        anna.interview.needs = partial(together.needed, anna)
        anna.interview.walk_on(10)
        while anna.interview.dialogue.needed is None:
            answer(anna.interview, wants_the_end_of(DOWN))
        skipped, answers = anna.interview.dialogue.needed, anna.interview.history.answers
        assert skipped is not None
        anna.interview.skip(anna.interview.turn)
        assert anna.interview.history.answers == answers
        assert skipped not in together.needed(anna)
        anna.interview.undo(anna.interview.turn)
        assert isinstance(anna.interview.asked, Question)
        assert anna.interview.asked.state == skipped
        answer(anna.interview, wants_the_end_of(DOWN))
        assert anna.interview.history.standing(skipped) is not None


# Agreement

ANSWERS = {
    "Olga": {"a": 0, "b": 1, "c": 2},
    "Anna": {"c": 2, "b": 3, "d": 0},
    "Ben": {"b": 1},
    "Cem": {},
}


def test_people_are_compared_over_what_both_have_answered() -> None:
    found = agreement(ANSWERS)
    counted = {pair.people: (pair.equal, pair.common) for pair in found.pairs}
    assert counted == {
        ("Olga", "Anna"): (1, 2),
        ("Olga", "Ben"): (1, 1),
        ("Olga", "Cem"): (0, 0),
        ("Anna", "Ben"): (0, 1),
        ("Anna", "Cem"): (0, 0),
        ("Ben", "Cem"): (0, 0),
    }
    assert found.common == 2, "b and c"
    assert found.disagreements == {"b": {"Olga": 1, "Anna": 3, "Ben": 1}}


@pytest.mark.parametrize(("equal", "common"), [(0, 1), (1, 1), (3, 7), (7, 7), (0, 40), (39, 40), (100, 365)])
def test_the_interval_is_clopper_and_pearsons(equal: int, common: int) -> None:
    low, high = interval(equal, common)
    assert low == pytest.approx(beta.ppf(0.05, equal, common - equal + 1) if equal else 0, abs=1e-6)
    assert high == pytest.approx(beta.ppf(0.95, equal + 1, common - equal) if equal < common else 1, abs=1e-6)
    # Its own meaning: at either end what was seen, or more extreme, has a probability of 5 %.
    if equal:
        assert binom.sf(equal - 1, common, low) == pytest.approx(0.05, abs=1e-5)
    if equal < common:
        assert binom.cdf(equal, common, high) == pytest.approx(0.05, abs=1e-5)


def test_of_nothing_nothing_is_known() -> None:
    assert interval(0, 0) == (0.0, 1.0)


# The server


def test_two_people_answer_for_themselves_and_see_where_they_differ(tmp_path: Path) -> None:
    with opened(tmp_path) as people, served(people) as client:
        mine = f"/{people.owner.token}/"
        alone = client.get(f"{mine}people.json").json()
        assert [one["token"] for one in alone["host"]["links"]] == [link(people)]
        assert alone["agreement"]["words"] == "You are the only one here so far."

        hers = join(client, people, "Anna")
        answer_all(client, mine, UP)
        ending = answer_all(client, hers, DOWN)
        assert ending["outcome"]["wish"]["why"].startswith("Your answers: a habit ")

        shown = wait_for_goals(client, hers)
        assert shown["me"] == "Anna"
        assert shown["host"] is None, "only the owner invites"
        assert link(people) not in client.get(f"{hers}people").text
        assert people.owner.token not in client.get(f"{hers}people").text
        assert [person["name"] for person in shown["people"]] == [HOST, "Anna"]
        goals = [person["goal"] for person in shown["people"]]
        assert goals[0] == "The answers do not tell what Host wants."
        assert goals[1] == "The answers do not tell what Anna wants."
        (pair,) = shown["agreement"]["pairs"]
        both = [person.interview.history.known() for person in people.everybody]
        common = both[0].keys() & both[1].keys()
        assert pair["common"] == len(common) > 0
        assert pair["equal"] == sum(both[0][state] == both[1][state] for state in common)
        middle = next(one for one in shown["agreement"]["disagreements"] if one["situation"] == "the middle")
        assert middle["answers"] == [{"name": HOST, "action": "up"}, {"name": "Anna", "action": "down"}]
        assert shown["states"][middle["key"]] == 0, "to be shown on the map"

    # Each folder is a run of its own, whose reward is of its person.
    for folder, corridor in ((tmp_path, "upper"), (tmp_path / "people" / "anna", "down")):
        told = CliRunner().invoke(app, ["show", str(folder)])
        assert told.stdout.startswith("The answers do not tell what the expert wants: "), told.output
        moved = CliRunner().invoke(app, ["transfer", str(folder), "--start", "uniform"])
        assert moved.exit_code == 0, moved.output
        assert re.search(rf"\b{corridor[0]}(9|10)\b", moved.stdout), "the end of the corridor"


def wait_for_goals(client: TestClient, address: str) -> dict[str, Any]:
    for _ in range(200):
        shown: dict[str, Any] = client.get(f"{address}people.json").json()
        if all(person["goal"] for person in shown["people"]):
            return shown
        time.sleep(0.05)
    raise AssertionError(f"no goals: {shown['people']}")


def test_what_one_person_wants_is_known_again_after_a_restart_though_they_are_not_there(tmp_path: Path) -> None:
    with opened(tmp_path) as people, served(people) as client:
        answer_all(client, join(client, people, "Anna"), DOWN)
    with opened(tmp_path) as people, served(people) as client:
        for _ in range(200):
            found = client.get(f"/{people.owner.token}/people.json").json()["people"][1]
            if found["goal"]:
                break
            time.sleep(0.05)
        assert found["goal"] == "The answers do not tell what Anna wants."


def test_nothing_is_computed_for_who_has_not_come(tmp_path: Path) -> None:
    with opened(tmp_path) as people:
        anna = joined(people, "Anna")
        with served(people) as client:
            time.sleep(0.3)
            assert anna.interview.history.samples == 0
            assert anna.interview.history.trajectory is None
            client.get(f"/{anna.token}/view")
            assert anna.interview.history.trajectory is not None


def test_people_do_not_see_each_others_interviews(tmp_path: Path) -> None:
    with opened(tmp_path) as people, served(people) as client:
        address = join(client, people, "Anna")
        while (shown := client.get(f"{address}view").json())["phase"] == "walking":
            time.sleep(0.05)
        assert post(client, f"{address}answer", turn=shown["turn"], action=UP).status_code == 200
        assert people.owner.interview.history.answers == 0
        assert people.everybody[1].interview.history.answers == 1
        for path in ("view", "people", "answer", "everything.zip"):
            assert client.get(f"/{link(people)}/{path}").status_code == 404
        assert client.get(f"/{link(people)}").url.path == f"/{link(people)}/"


@pytest.mark.parametrize("name", ["", "x" * 41, "a\x00b", "host"])
def test_a_wrong_name_is_refused_in_words(tmp_path: Path, name: str) -> None:
    with opened(tmp_path) as people, served(people) as client:
        response = post(client, f"/{link(people)}/join", name=name)
        assert response.status_code == 422
        assert "name" in response.json()["error"]
        assert len(people.everybody) == 1


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"name": 3}', b'{"name": null}', b"[" * 4000, b'{"name": "\\ud800"}']
)
def test_what_is_no_name_is_refused_in_words(tmp_path: Path, body: bytes) -> None:
    with opened(tmp_path) as people, served(people) as client:
        for path in (f"/{link(people)}/join", f"/{people.owner.token}/name"):
            response = client.post(path, headers=JSON, content=body)
            assert response.status_code == 422
            assert "name must be sent" in response.json()["error"]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"host": f"evil.example:{PORT}"}, 421),
    ],
)
def test_nobody_can_be_made_to_join_by_another_page(tmp_path: Path, headers: dict[str, str], code: int) -> None:
    with opened(tmp_path) as people, served(people) as client:
        assert post(client, f"/{link(people)}/join", headers, name="Anna").status_code == code
        assert client.post(f"/{link(people)}/join", headers=JSON, content=b"x" * 5000).status_code == 413
        assert client.get(f"/{link(people)}/join").status_code == 405
        assert len(people.everybody) == 1


def test_a_person_may_change_their_name(tmp_path: Path) -> None:
    with opened(tmp_path) as people, served(people) as client:
        address = join(client, people, "Anna")
        assert post(client, f"{address}name", name="Hannah").json()["me"] == "Hannah"
        assert post(client, f"{address}name", name="HOST").status_code == 422
        assert [person.name for person in people.everybody] == [HOST, "Hannah"]


@pytest.mark.parametrize("path", ["people", ""])
def test_a_name_cannot_end_the_script_it_stands_in(tmp_path: Path, path: str) -> None:
    with opened(tmp_path) as people, served(people) as client:
        address = join(client, people, "</script><b>")
        page = client.get(f"{address}{path}")
        assert "</script><b>" not in page.text
        nonce = re.search(r"'nonce-([\w-]+)'", page.headers["content-security-policy"])
        assert nonce is not None
        assert page.text.count("<script") == page.text.count(f'nonce="{nonce[1]}">') - 1, "the style has one too"


def test_through_a_tunnel_people_share_an_address_but_not_their_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aceirl.web.security.monotonic", lambda: 1000.0)
    with opened(tmp_path) as people, served(people) as client:
        address = join(client, people, "Anna")
        codes = [client.get(f"{address}people.json").status_code for _ in range(130)]
        assert (codes[0], codes[-1]) == (200, 429)
        assert client.get(f"/{people.owner.token}/people.json").status_code == 200


# The address by which people come


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Name.Example", "https://name.example"),
        ("https://name.example/", "https://name.example"),
        ("https://name.example:443", "https://name.example"),
        ("http://name.example:80/", "http://name.example"),
        ("http://localhost:9000", "http://localhost:9000"),
        ("http://[::1]:9000", "http://[::1]:9000"),
    ],
)
def test_an_address_is_brought_into_the_form_that_browsers_use(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    "url",
    [
        "name.example", "ftp://name.example", "https://", "https://name.example/path", "https://name.example?x=1",
        "https://name.example/#x", "https://me@name.example", "http://name:port", "https://na me", "", "//name",
    ],
)  # fmt: skip
def test_what_is_no_address_of_a_server_is_refused_in_words(url: str) -> None:
    with pytest.raises(InputError, match="--url"):
        origin_of(url)


@pytest.mark.parametrize("host", ["tunnel.example", "TUNNEL.example", "tunnel.example:443"])
def test_a_tunnel_is_let_through_with_its_own_origin_only(tmp_path: Path, host: str) -> None:
    with opened(tmp_path) as people, served(people, url="https://tunnel.example") as client:
        path = f"/{people.owner.token}/name"
        assert client.get(f"/{people.owner.token}/view", headers={"host": host}).status_code == 200

        def code(origin: str, host: str = host) -> int:
            return int(post(client, path, {"host": host, "origin": origin}, name="Olga").status_code)

        assert code("https://tunnel.example") == 200
        assert code(f"http://{host}") == 403, "the page without encryption is another one"
        assert code("https://evil.example") == 403
        assert code("https://tunnel.example:8443") == 403
        assert code("https://tunnel.example", host=f"127.0.0.1:{PORT}") == 200, "a tunnel that changes the host"
        assert code(f"http://127.0.0.1:{PORT}", host=f"127.0.0.1:{PORT}") == 200


@pytest.mark.parametrize("host", ["tunnel.example:80", f"tunnel.example:{PORT}", "evil.example", "xtunnel.example", ""])
def test_other_hosts_are_still_refused(tmp_path: Path, host: str) -> None:
    with opened(tmp_path) as people, served(people, url="https://tunnel.example") as client:
        response = client.get(f"/{people.owner.token}/view", headers={"host": host})
        assert response.status_code == 421
        assert "--url" in response.json()["error"]


def test_the_owner_is_told_whether_others_can_come(tmp_path: Path) -> None:
    with opened(tmp_path) as people:
        for reach, base, told in (
            ({}, None, True),
            ({"public": True}, None, False),
            ({"url": "https://tunnel.example"}, "https://tunnel.example", False),
        ):
            with served(people, **reach) as client:
                own = client.get(f"/{people.owner.token}/people.json").json()["host"]
            assert own["base"] == base
            assert (own["note"] is not None) == told


@pytest.mark.parametrize(
    ("option", "refused"), [("https://tunnel.example", ""), ("https://t.example/x", "--url must have")]
)
def test_the_command_prints_the_address_by_which_people_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, refused: str
) -> None:
    monkeypatch.setattr("aceirl.web.server.serve", lambda app, listening: listening.close())
    arguments = ["interview", "gridworld", "--out", str(tmp_path), "--port", "0", "--url", option, "--name", "Olga"]
    result = CliRunner().invoke(app, arguments)
    if refused:
        assert result.exit_code == 2
        assert refused in result.stderr
        return
    assert result.exit_code == 0, result.output
    decided = json.loads((tmp_path / "people.json").read_text())
    for secret in ((tmp_path / "token").read_text(), decided["invitations"][0]["token"]):
        assert f"  {option}/{secret}/\n" in result.stdout
    assert (tmp_path / "name").read_text() == "Olga"
    assert "listens on 127.0.0.1" in result.stdout
