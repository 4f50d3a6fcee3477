"""What competes: a method is a name, where it comes from, what it needs, and fields of `Settings`.

A method of the package stands in `METHODS` as data: strategies and algorithms are named, and loaded when they are first
used. One of your own is a file with the decorator `method`; its text travels with every run, so that processes and
machines that have never seen the file can carry it out.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, TypeVar

from aceirl.certificates import CertificateKind
from aceirl.errors import InputError, cause, unknown_name
from aceirl.learner.settings import Settings

EPISODES, GENERATIVE, RECORDING = ACCESS = ("episodes", "generative model", "recording")
"""What a method may need: to walk from the start, to be put into any state, or the expert's recorded episodes."""

NO_CLAIM = "none"

T = TypeVar("T", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Method:
    """One entry of the arena.

    `choices` are fields of `Settings`; those not named have their defaults, or are the task's. `source` is the paper.
    `claims` is the certificate that the method would stop on, by its name or the dotted name of its class, or `none`.
    `code` is the text of the file `path` that it comes from, empty for one of the package.
    """

    name: str
    source: str
    choices: Mapping[str, Any] = field(default_factory=dict)
    access: str = EPISODES
    summary: str = ""
    claims: str = NO_CLAIM
    path: str = ""
    code: str = ""

    def __post_init__(self) -> None:
        if self.access not in ACCESS:
            raise unknown_name("access of a method", self.access, ACCESS)

    def settings(self, **given: Any) -> Settings:
        """The settings of a run: what is given, and the method's own choices, which go before it.

        No run ends because something is certified: what the method claims is noted, and the run goes on.
        """
        return Settings(**{**given, **self.choices}, certify=None)

    @property
    def certificate(self) -> CertificateKind | None:
        """The certificate that it would stop on; None if it claims nothing."""
        return Settings(certify=self.claims).certify


def _ours(name: str, source: str, summary: str, **options: Any) -> Method:
    own = {key: options.pop(key) for key in ("access", "claims") if key in options}
    return Method(name, source, {"strategy": name, **options}, summary=summary, **own)


def _bayesian(name: str, source: str, summary: str, strategy: str) -> Method:
    """A strategy that asks by a posterior over rewards of states, and whose reward is its mean."""
    choices = {"strategy": RIVALS + strategy, "irl": "posterior-mean", "reward": "state"}
    return Method(name, source, choices, summary=summary)


ACEIRL = "aceirl"
RIVALS = "aceirl.bench.rivals."
ACE_PAPER = "Lindner et al. 2022"

METHODS: dict[str, Method] = {
    one.name: one
    for one in (
        _ours(
            "guided", ACEIRL, "probe near the expert's path, follow it until certified, then as ace", claims="policy"
        ),
        _ours("probe", ACEIRL, "follow the expert, and a few times an episode try what it declined", claims="policy"),
        _ours("advice", ACEIRL, "follow the expert wherever it is known", claims="policy"),
        _ours("ace", ACE_PAPER, "plan for the largest error of plausible policies"),
        _ours("greedy", ACE_PAPER, "go where most is uncertain, at every step"),
        _ours("random", ACE_PAPER, "take random actions"),
        _ours("uniform", ACE_PAPER, "sample every step, state and action equally often", access=GENERATIVE),
        _ours("travel", "Metelli et al. 2021", "spread the samples as ace would", access=GENERATIVE),
        Method(
            "cloning",
            "baseline",
            {"strategy": "advice", "irl": "feasible-point", "reward": "any"},
            summary="behavioural cloning: repeat the answers; its reward says no more than they do",
            claims="policy",
        ),
        _bayesian(
            "policy-entropy",
            "Lopes et al. 2009",
            "go where the posterior disagrees about the policy",
            "policy_entropy.PolicyEntropy",
        ),
        _bayesian("active-var", "Brown et al. 2018", "go where the policy may lose most", "active_var.ActiveVaR"),
        _bayesian(
            "reward-eig", "Bajgar et al. 2025", "go where an answer tells most about the reward", "reward_eig.RewardEIG"
        ),
        _bayesian("pac-eig", "Bajgar et al. 2025", "go where an answer tells most about the regret", "pac_eig.PacEIG"),
        Method(
            "us-irl",
            "Metelli et al. 2023",
            {"strategy": RIVALS + "us_irl.UsIrl"},
            GENERATIVE,
            "sample every step, state and action equally often",
        ),
        Method(
            "rle",
            "Zhao et al. 2024",
            {"strategy": RIVALS + "rle.Rle", "irl": RIVALS + "rlp.Rlp"},
            summary="visit all that can be reached about equally often; a pessimistic reward",
        ),
        Method(
            "rlp",
            "Zhao et al. 2024",
            {"strategy": "advice", "irl": RIVALS + "rlp.Rlp"},
            RECORDING,
            "rle offline: the expert's own episodes; a pessimistic reward",
        ),
        Method(
            "caty-irl",
            "Lazzati et al. 2024a",
            {"strategy": RIVALS + "caty_irl.RfExpress", "irl": RIVALS + "caty_irl.CatyIrl"},
            summary="explore for any reward; recover one under which the expert loses little",
        ),
        Method(
            "pirlo",
            "Lazzati et al. 2024b",
            {"strategy": "advice", "irl": RIVALS + "pirlo.Pirlo"},
            RECORDING,
            "the expert's own episodes; a reward that surely explains the expert",
        ),
        Method(
            "centroid",
            "Lazzati and Metelli 2025",
            {"strategy": "advice", "irl": RIVALS + "reward_centroid.RewardCentroid", "reward": "any"},
            summary="follow the expert; the mean of all rewards that explain it",
        ),
    )
}
"""The methods of the package by name, in the order of the tables."""

_entered: dict[str, Method] = {}


def method(name: str, *, source: str, claims: str = NO_CLAIM, access: str = "", **choices: Any) -> Callable[[T], T]:
    """Enter a strategy, an IRL algorithm or a function that returns settings into the arena, under a name.

    A class with `plan` is a strategy, one with `__call__` an algorithm; both are made without arguments. A function is
    called without arguments and returns fields of `Settings`. More fields of `Settings` can be given as `choices`.
    """

    if name in METHODS:
        raise InputError(f"{name!r} is a method of the package; rename it")

    def enter(thing: T) -> T:
        own = _own_choices(thing(), name) if isinstance(thing, type) else thing()
        if not isinstance(own, Mapping):
            raise InputError(f"the function of method {name!r} must return settings, got {own!r}")
        needs = access or getattr(thing, "access", EPISODES)
        summary = getattr(thing, "summary", None) or (inspect.getdoc(thing) or "").partition("\n")[0]
        if "certify" in {**own, **choices}:
            raise InputError(f"method {name!r} names its certificate with claims, not with certify")
        entry = Method(name, source, MappingProxyType({**own, **choices}), needs, summary, claims)
        _ = entry.settings(), entry.certificate  # what is wrong is said here, before any run
        _entered[name] = entry
        return thing

    return enter


def _own_choices(made: Any, name: str) -> dict[str, Any]:
    """The setting that an object is for: `strategy` or `irl`."""
    if hasattr(made, "plan"):
        return {"strategy": made}
    if callable(made):
        return {"irl": made}
    kind = type(made).__name__
    raise InputError(f"class {kind} of method {name!r} has neither plan (a strategy) nor __call__ (an algorithm)")


def methods_of(texts: str) -> list[Method]:
    """The methods that a list such as `guided,my_method.py` names; a file stands for all that it enters."""
    found: dict[str, Method] = {}
    for text in texts.split(","):
        text = text.strip()
        entries = methods_of_file(Path(text)) if text.endswith(".py") else [named_method(text)]
        for entry in entries:
            if entry.name in found:
                raise InputError(f"two methods are called {entry.name!r}; rename one")
            found[entry.name] = entry
    return list(found.values())


def named_method(name: str) -> Method:
    """A method of the package."""
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    return METHODS[name]


def methods_of_file(path: Path) -> list[Method]:
    """What a Python file enters."""
    try:
        code = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    return list(entered_by(code, str(path.resolve())).values())


def entered_by(code: str, path: str) -> dict[str, Method]:
    """The methods that the text of a file enters, by name. The text is executed once in a process."""
    module = f"aceirl_method_{Path(path).stem}_{sha256(code.encode()).hexdigest()[:12]}"
    if module not in _by_module:
        _by_module[module] = _executed(module, code, path)
    return _by_module[module]


_by_module: dict[str, dict[str, Method]] = {}


def _executed(name: str, code: str, path: str) -> dict[str, Method]:
    """Execute a text as a module of that name, and gather what it enters."""
    module = ModuleType(name)
    module.__file__ = path
    before = dict(_entered)
    _entered.clear()
    sys.modules[name] = module
    folder = str(Path(path).parent)
    if folder not in sys.path:  # the file may import what lies beside it
        sys.path.append(folder)
    try:
        exec(compile(code, path, "exec"), module.__dict__)
        found = {name: replace(entry, path=path, code=code) for name, entry in _entered.items()}
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except Exception as error:
        raise InputError(f"{path} cannot be executed: {cause(error, path)}") from error
    finally:
        _entered.clear()
        _entered.update(before)
    if not found:
        raise InputError(f'{path} enters no method; put `@method("a-name", source="…")` above a class')
    return found
