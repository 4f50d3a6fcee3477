"""Every sentence that a user can read, in one place: `python tests/messages.py` prints them by room, with their lines.

From Python: every text of two words or more that is not a docstring (errors, warnings, output, sentences and their
parts), and the docstrings of commands, which are their help. What is filled in is shown as {name}. From templates: the
text between tags and in the attributes that are shown or read aloud. From scripts: every text of two words or more.
"""

from __future__ import annotations

import ast
import html
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).parents[1] / "src" / "aceirl"
SHOWN_ATTRIBUTES = {"title", "aria-label", "alt", "placeholder", "data-words"}
WORDS = re.compile(r"[A-Za-z]{2,}[,;:.]? +\W{0,2}[A-Za-z{]|[A-Za-z}]\W{0,2} +[A-Za-z]{2,}")
BLOCK_OF_STYLE = re.compile(r"\{% block style %\}.*?\{% endblock %\}", re.DOTALL)
STATEMENT = re.compile(r"\{[%#].*?[%#]\}", re.DOTALL)
EXPRESSION = re.compile(r"\{\{.*?\}\}", re.DOTALL)
SCRIPT_TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`')
SCRIPT_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)


class Message(NamedTuple):
    """A text, and where it is."""

    path: str
    line: int
    text: str

    @property
    def room(self) -> str:
        return self.path.split("/")[0].removesuffix(".py")


def messages() -> list[Message]:
    """All of them, by file and line."""
    readers = {".py": in_python, ".html": in_template, ".js": in_script}
    return [
        Message(file.relative_to(SOURCES).as_posix(), line, " ".join(text.split()))
        for file in sorted(SOURCES.rglob("*"))
        if file.suffix in readers
        for line, text in readers[file.suffix](file.read_text(encoding="utf-8"))
        if WORDS.search(text)
    ]


def in_python(source: str) -> Iterator[tuple[int, str]]:
    """The line and text of every string that is no docstring, and of the docstrings of commands."""
    return _texts(ast.parse(source))


def _texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"))):
            return
        case ast.Constant(value=str(text)):
            yield node.lineno, text
            return
        case ast.JoinedStr():
            yield node.lineno, "".join(_filled(part) for part in node.values)
        case ast.FunctionDef(decorator_list=[first, *_]) if "command" in ast.unparse(first):
            yield node.lineno, ast.get_docstring(node) or ""
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.JoinedStr) and isinstance(child, ast.Constant):
            continue
        yield from _texts(child)


def _filled(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    assert isinstance(part, ast.FormattedValue)
    return f"{{{ast.unparse(part.value)}}}"


class _Template(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[int, str]] = []
        self.hidden = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hidden = tag in ("script", "style")
        self.found += [(self.getpos()[0], value or "") for name, value in attrs if name in SHOWN_ATTRIBUTES]

    def handle_endtag(self, tag: str) -> None:
        self.hidden = False

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.found.append((self.getpos()[0], data))


def in_template(source: str) -> Iterator[tuple[int, str]]:
    """The line and text of all that a template shows or that is read aloud; what it fills in stays {{ name }}."""
    for unseen in (BLOCK_OF_STYLE, STATEMENT):
        source = unseen.sub(lambda found: " " + "\n" * found.group().count("\n"), source)
    parser = _Template()
    parser.feed(EXPRESSION.sub(lambda found: html.escape(found.group()), source))
    parser.close()
    return iter(parser.found)


def in_script(source: str) -> Iterator[tuple[int, str]]:
    """The line and text of every string of a script, its comments left out."""
    source = SCRIPT_COMMENT.sub("", source)
    for found in SCRIPT_TEXT.finditer(source):
        yield source.count("\n", 0, found.start()) + 1, found.group()[1:-1]


if __name__ == "__main__":
    room = path = ""
    for message in messages():
        if message.room != room:
            room = message.room
            print(f"\n# {room}")
        if message.path != path:
            path = message.path
            print(f"\n{path}")
        print(f"{message.line:5}  {message.text}")
