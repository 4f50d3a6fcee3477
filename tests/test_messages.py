"""What the software prints, gathered by `messages`: no words that are not to be used, and no endless sentences."""

from __future__ import annotations

import re

import pytest
from messages import Message, in_python, in_script, in_template, messages

LONGEST = 35
"""The most words of a sentence, or of a part of one between colons and semicolons."""

INSTEAD = {
    r"\bhurry": "a step cost; to lose no time",
    r"\blikel(ier|iest)\b": "more probable; the MAP estimate",
    r"\bwish(es)?\b": "a goal; a simple reward",
    r"\b(pull|lag)s?\b": "feature expectation gap; standardised gap",
    r"\b(presumed|presumption)": "imputed actions",
    r"\bshunned\b": "avoided terminals",
    r"\bconduct(s|or)?\b": "episode mode; background",
    r"\bponders?\b": "needs inference",
    r"\b(nobody|alike|anew|shall)\b": "no one, the same, again, will: a sentence with a plain subject",
    r"\bstands? for\b|\bcom(es?|ing) to\b|\bled astray\b|\bat hand\b|\bto go by\b": "no images",
    r"(?<!there )\b(is|are|was|were) no (?!longer\b|more\b)": "is not a …; there is no …",
    r"\b(on|near|along) the (expert's )?way\b": "the path",
    r"that one episode can pay more than another": "where the best and the worst episode differ by at most …",
    r"pays more than .* more than another": "rewards of two steps differ by at most …",
    r"times likelier than chance": "predicts new answers better than the best habit, with the figure",
    r"wants to be in the observation": "prefers …",
    r"certificates that fire": "certificates reached in practice",
    r"cannot be said yet|rehearsal": "after … trial episodes it is too early to estimate the rest",
    r"\bone of ours\b|\bour (own )?environments\b": "a built-in environment",
}
"""Patterns that no message may have, and what to say instead."""


@pytest.fixture(scope="module")
def said() -> list[Message]:
    return messages()


def read(text: str) -> str:
    """A message as it is read: without what is filled in."""
    while (shorter := re.sub(r"\{[^{}]*\}", "…", text)) != text:
        text = shorter
    return text


def faults(text: str) -> list[str]:
    """What is wrong with a message, a line each."""
    words = read(text)
    found = [
        f"“{hit.group()}”: say {instead}"
        for wrong, instead in INSTEAD.items()
        if (hit := re.search(wrong, words, re.I))
    ]
    longest = max(len(part.split()) for part in re.split(r"[.;:?!]\s", words))
    return [*found, *([f"{longest} words without a stop; at most {LONGEST}"] if longest > LONGEST else [])]


def test_no_message_has_words_that_are_not_to_be_used(said: list[Message]) -> None:
    wrong = [f"{one.path}:{one.line}: {one.text}\n    {fault}" for one in said for fault in faults(one.text)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "the expert is in a hurry",
        "{path} is no recording",
        "Nobody has answered anything",
        "at most 2 of the 20 that one episode can pay more than another",
        "No step pays more than 1 more than another",
        "probe near the expert's way",
        " ".join(["word"] * (LONGEST + 1)),
    ],
)
def test_what_is_not_to_be_said_is_found(text: str) -> None:
    assert faults(text)


@pytest.mark.parametrize(
    "text",
    [
        "there is no file {path}",
        "There is no simple reward",
        "{'nobody' if alone else 'you'} answered",
        "it is no longer",
    ],
)
def test_what_may_be_said_is_not(text: str) -> None:
    assert not faults(text)


def test_messages_of_every_room_are_gathered_with_their_lines(said: list[Message]) -> None:
    rooms = {one.room for one in said}
    assert rooms >= {
        "bench",
        "certificates",
        "cli",
        "data",
        "envs",
        "experts",
        "explain",
        "irl",
        "learner",
        "runs",
        "web",
    }
    assert len(said) > 1_500
    for words in (
        "Four corridors leave a room",
        "What would",
        "The server does not answer",
        "is not a setting; {instead}",
    ):
        assert any(words in one.text for one in said), words
    assert Message("web/view.py", 3, "two words").room == "web"


def test_strings_help_and_what_is_filled_in_are_read_from_python() -> None:
    source = '''"""Of the module."""
@app.command
def run(name):
    """Run it now."""
    raise InputError(f"{name!r} cannot be " "found here")

def other():
    """Not for users."""
    return re.compile("not for users")
'''
    assert list(in_python(source)) == [(3, "Run it now."), (5, "{name} cannot be found here")]


def test_what_a_template_shows_is_read_and_what_a_script_says() -> None:
    page = '<p title="Read {{ "a" if n < 1 }}">\n{% if x %}Seen {{ n }}{% endif %}</p><script>const hidden = 1</script>'
    found = [(line, " ".join(text.split())) for line, text in in_template(page) if text.strip()]
    assert found == [(1, 'Read {{ "a" if n < 1 }}'), (1, "Seen {{ n }}")]
    script = 'const a = 1;\n// "not said"\nsay("It is said", `to ${name}`);\n'
    assert list(in_script(script)) == [(3, "It is said"), (3, "to ${name}")]
