"""Experiments that users write down themselves, in TOML; what is wrong is said with its line and key."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path
from typing import Any

from aceirl.bench.paper import REWARD_FREE_CLAIMS
from aceirl.bench.specs import Scenario, Spec
from aceirl.envs import ENVIRONMENTS, make
from aceirl.errors import InputError, unknown_name
from aceirl.experts.tasks import Source, open_task
from aceirl.explore import STRATEGIES
from aceirl.learner.named import Unavailable
from aceirl.learner.settings import Settings

TOP = ("title", "description", "strategies", "seeds", "threshold", "settings", "scenario")
GYMNASIUM = ("expert", "horizon", "discretise", "wrap", "stochastic_expert")
OWN = ("name", "environment", "parameters", "reward_free", *GYMNASIUM)
SYMBOLS = {"episodes_per_iteration": "N_E"}
CHOICES = tuple(name for name in Settings.model_fields if name not in ("strategy", "seed"))


def read_spec(path: Path) -> Spec:
    """The experiment in a TOML file.

    `strategies` and at least one `[[scenario]]` with an `environment` are required; `title` and `description` are
    for the report. Fields of `Settings` may stand in `[settings]`, for all, or in a `[[scenario]]`; there a list of
    values stands for one scenario each.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    return _Reader(path, text).spec(document)


class _Reader:
    """Reads a document and knows where its keys stand."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.lines = path, _key_lines(text)

    def spec(self, document: dict[str, Any]) -> Spec:
        self._known_keys((), document, TOP, "key")
        strategies = self._strategies(document)
        common = self._table(("settings",), document.get("settings", {}))
        self._known_keys(("settings",), common, CHOICES, "setting")
        entries = document.get("scenario", [])
        if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
            raise self._wrong(("scenario",), "needs at least one [[scenario]] with an environment")
        scenarios = [
            scenario for i, entry in enumerate(entries) for scenario in self._scenarios(("scenario", i), entry, common)
        ]
        names = [scenario.name for scenario in scenarios]
        for i, name in enumerate(names):
            if name in names[:i]:
                raise self._wrong(("scenario",), f"two scenarios are called {name!r}; give each [[scenario]] a name")
        return Spec(
            name=self.path.stem,
            title=self._text("title", document) or _readable(self.path.stem),
            summary=self._text("description", document) or f"A sweep from {self.path.name}.",
            scenarios=tuple(scenarios),
            strategies=strategies,
            seeds=self._seeds(document.get("seeds", 10)),
            threshold=self._threshold(document.get("threshold", 0.4)),
            claims=REWARD_FREE_CLAIMS,
        )

    def _text(self, key: str, document: dict[str, Any]) -> str:
        value = document.get(key, "")
        if not isinstance(value, str):
            raise self._wrong((key,), f"must be text, got {value!r}")
        return value.strip()

    def _strategies(self, document: dict[str, Any]) -> tuple[str, ...]:
        names = document.get("strategies")
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise self._wrong(("strategies",), f"must be a list of names such as {list(STRATEGIES)[:2]}, got {names!r}")
        return tuple(dict.fromkeys(self._strategy(name) for name in names))

    def _strategy(self, text: str) -> str:
        """A strategy's name and parameters, written the one way that its runs have them."""
        try:
            settings = Settings(strategy=text)
        except InputError as error:
            raise self._wrong(("strategies",), str(error)) from None
        if isinstance(settings.strategy, Unavailable):
            raise self._wrong(("strategies",), f"{text} cannot be found: {settings.strategy.reason}")
        return str(settings.named("strategy"))

    def _seeds(self, value: Any) -> tuple[int, ...]:
        numbers = list(range(value)) if _whole(value) else value
        if not isinstance(numbers, list) or not numbers or not all(_whole(n) and n >= 0 for n in numbers):
            raise self._wrong(("seeds",), f"must be a number of seeds of at least 1, or a list of them, got {value!r}")
        return tuple(dict.fromkeys(numbers))

    def _threshold(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            raise self._wrong(("threshold",), f"must be a regret between 0 and 1, got {value!r}")
        return float(value)

    def _scenarios(self, where: tuple[Any, ...], entry: dict[str, Any], common: dict[str, Any]) -> list[Scenario]:
        """The scenarios of one `[[scenario]]`: one for each combination of listed values."""
        self._known_keys(where, entry, OWN + CHOICES, "key")
        environment = entry.get("environment")
        if not isinstance(environment, str):
            raise self._wrong((*where, "environment"), "is missing; `aceirl envs` lists them")
        parameters = self._table((*where, "parameters"), entry.get("parameters", {}))
        source = {key: entry[key] for key in GYMNASIUM if key in entry}
        self._check_environment(where, environment, parameters, source)
        if entry.get("reward_free") and environment not in ENVIRONMENTS:
            raise self._wrong((*where, "reward_free"), "is for built-in environments")
        if not isinstance(entry.get("reward_free", False), bool):
            raise self._wrong((*where, "reward_free"), f"must be true or false, got {entry['reward_free']!r}")
        choices = {**common, **{key: value for key, value in entry.items() if key in CHOICES}}
        for key, value in choices.items():
            self._check_choice((*where, key) if key in entry else ("settings", key), key, value)
        name = str(entry.get("name", environment))
        return [
            Scenario(
                name="-".join([name, *(str(value) for value in varied.values())]),
                title=", ".join([name, *(f"{SYMBOLS.get(key, key)} = {value}" for key, value in varied.items())]),
                environment=environment,
                parameters=parameters,
                choices={**choices, **varied},
                reward_free=entry.get("reward_free", False),
                source=source,
            )
            for varied in _combinations(choices)
        ]

    def _check_environment(
        self, where: tuple[Any, ...], name: str, parameters: dict[str, Any], source: dict[str, Any]
    ) -> None:
        """One of ours, a Gymnasium id, or `package.module:function`, with an expert: by default the best policy."""
        if name in ENVIRONMENTS:
            for key in source:
                raise self._wrong((*where, key), f"is for Gymnasium environments; {name} has its own")
            try:
                make(name, 0, **parameters)
            except InputError as error:
                raise self._wrong((*where, "parameters"), str(error)) from None
            return
        try:
            open_task(Source(name, parameters, 0, **{"expert": "optimal", **source})).close()
        except (InputError, TypeError) as error:
            raise self._wrong((*where, "environment"), str(error)) from None

    def _check_choice(self, where: tuple[Any, ...], key: str, value: Any) -> None:
        for single in value if isinstance(value, list) else [value]:
            try:
                Settings(**{key: single})
            except InputError as error:
                raise self._wrong(where, str(error).removeprefix(f"{key}: ")) from None
        if value == []:
            raise self._wrong(where, "is an empty list")

    def _table(self, where: tuple[Any, ...], value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong(where, f"must be a table, got {value!r}")
        return value

    def _known_keys(self, where: tuple[Any, ...], table: dict[str, Any], known: tuple[str, ...], kind: str) -> None:
        for key in table:
            if key not in known:
                raise self._wrong((*where, key), str(unknown_name(kind, key, known)))

    def _wrong(self, where: tuple[Any, ...], words: str) -> InputError:
        """The error at a key, with the line it stands on, or that of the nearest table around it."""
        line = next((self.lines[where[:n]] for n in range(len(where), 0, -1) if where[:n] in self.lines), 1)
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).removeprefix(".")
        return InputError(f"{self.path}, line {line}, {key}: {words}")


def _combinations(choices: dict[str, Any]) -> list[dict[str, Any]]:
    lists = {key: value for key, value in choices.items() if isinstance(value, list)}
    return [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]


def _readable(stem: str) -> str:
    """A title from a file's name: `longer_arms` is Longer arms."""
    words = " ".join(re.split(r"[\s_-]+", stem)).strip() or stem
    return words[0].upper() + words[1:]


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


HEADER = re.compile(r"\s*(\[\[?)\s*([\w.-]+)\s*\]")
KEY = re.compile(r"\s*\"?([\w-]+)\"?\s*[.=]")


def _key_lines(text: str) -> dict[tuple[Any, ...], int]:
    """The line on which each key first stands; `tomllib` does not say. Enough for the two levels used here."""
    lines: dict[tuple[Any, ...], int] = {}
    table: tuple[Any, ...] = ()
    entries: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := HEADER.match(line):
            name = header[2]
            first, _, rest = name.partition(".")
            if header[1] == "[[":
                entries[name] = entries.get(name, -1) + 1
            table = (first, entries[first]) if first in entries else (first,)
            table += tuple(rest.split(".")) if rest else ()
            lines.setdefault(table[:1], number)
            lines.setdefault(table, number)
        elif key := KEY.match(line):
            lines.setdefault((*table, key[1]), number)
    return lines
