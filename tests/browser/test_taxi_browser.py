"""Taxi answered in a real browser by somebody who knows the way: with sameness, approvals, and an end of their own."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path
from typing import Any

import gymnasium
from playwright.sync_api import Browser, Page, expect

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from browsing import (
    Person,
    assert_accessible_and_fits,
    changed,
    inferred,
    keys,
    next_question,
    press,
    reply,
    visited,
)

from aceirl.envs.truth import exact_model
from aceirl.experts.tasks import Source, gym_env
from studies.serving import Server

TAXI = "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"
COLOURS = ("red", "green", "yellow", "blue")
# So many answers at most, and after how many of them they wait until the agent has thought about it.
MOST, LOOK_UP = 60, 10


def driver(names: list[str]) -> Person:
    """Somebody who knows the way."""
    env = gym_env(Source(TAXI, {}, seed=0))
    model = exact_model(env, 200, 6)
    best = model.stationary_expert()

    def does(name: str) -> str:
        row, column = (int(number) - 1 for number in re.findall(r"\d+", name))
        stands = [COLOURS.index(colour) for colour in re.findall(r"the (\w+) stand", name)]
        passenger, destination = stands if len(stands) == 2 else (4, stands[0])
        observation = env.unwrapped.encode(row, column, passenger, destination)  # type: ignore[attr-defined]
        return names[int(best[model.states.find(observation)])]

    return does


def say(page: Page, shown: dict[str, Any], person: Person) -> dict[str, Any]:
    """The way does not depend on who sits in the taxi, only on where it has to go next."""
    question = shown["question"]
    if question["kind"] != "situation" or not question["features"]:
        return reply(page, shown, person)
    does = person(question["where"])
    if does != "drop off":
        page.locator("#same summary").click()
        for feature in ("destination", "next stand") if does == "pick up" else ("passenger", "destination"):
            page.locator(f"#features [data-feature={feature!r}]").select_option("anything")
        expect(page.locator("#same-words")).to_contain_text("in all like it that are met later")
        page.locator("#question").focus()
    return press(page, keys(page)[does])


def test_a_driver_is_understood_after_a_few_answers_for_many_situations(chrome: Browser, tmp_path: Path) -> None:
    server = Server(TAXI, tmp_path, "--horizon", "30")
    try:
        with visited(chrome, server.url) as page:
            shown = next_question(page)
            person, delivered, reviewed = driver(list(keys(page))), set[str](), 0
            while shown["phase"] == "asking" and shown["progress"]["answers"] < MOST:
                if reviewed and len(delivered) == 4:
                    break
                if shown["progress"]["answers"] % LOOK_UP == 0:
                    shown = inferred(page)
                question = shown["question"]
                reviewed += question["kind"] == "episode"
                if question["kind"] == "situation" and person(question["where"]) == "drop off":
                    delivered.add(question["where"].split("bound for ")[1])
                shown = say(page, shown, person)
            assert reviewed, "it has shown what it would do"
            progress = shown["progress"]
            assert progress["situations"] > 2 * progress["answers"]
            changed(page, page.locator("#finish").click, patience=180)
            check_the_ending(page, progress["answers"])
    finally:
        server.stop(signal.SIGKILL)


def check_the_ending(page: Page, answers: int) -> None:
    expect(page.locator("#wish")).to_contain_text("You seem to want to lose no time")
    expect(page.locator("#lines")).to_contain_text(f"You gave {answers} answers, for ")
    expect(page.locator("#panels")).to_be_visible()
    panels = page.locator("#panel option")
    assert panels.count() > 4, "a map for each errand"
    brightest = set()
    for number in range(panels.count()):
        page.locator("#panel").select_option(str(number))
        brightest |= set(page.locator("#final-belief rect.w8 title").all_text_contents())
    assert brightest
    assert all(name.startswith("the passenger delivered at") for name in brightest)
    assert_accessible_and_fits(page)
