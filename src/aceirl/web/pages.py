"""Pages that bring all they need and allow nothing else."""

from __future__ import annotations

import secrets
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from starlette.responses import HTMLResponse


def page(name: str, **values: Any) -> HTMLResponse:
    """The page of a template, with its style and its script; `values` are what the template speaks of."""
    nonce = secrets.token_urlsafe(16)
    style, script = _text("page.css"), _text(f"{name}.js")
    if name != "page":
        style, script = style + _text("more.css"), _text("more.js") + script
    content = _template(f"{name}.html").render(nonce=nonce, style=style, script=script, **values)
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return HTMLResponse(content, headers={"content-security-policy": policy})


@cache
def _text(name: str) -> str:
    return (files("aceirl.web") / "templates" / name).read_text(encoding="utf-8")


@cache
def _template(name: str) -> jinja2.Template:
    # tojson escapes <, > and & so that no name of an environment or a person can end the script it stands in.
    return jinja2.Environment(autoescape=True).from_string(_text(name))
