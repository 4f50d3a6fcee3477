"""A first look at an installed package, in an environment with nothing else: `python tests/smoke.py`.

It needs neither pytest nor the sources. With the extras there are more things to look at: `python tests/smoke.py all`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path


def command(*words: str, folder: str) -> str:
    """What an `aceirl` command prints; it must succeed and be the one beside this interpreter."""
    script = next(path for path in Path(sys.executable).parent.glob("aceirl*") if path.suffix in ("", ".exe"))
    return subprocess.run([script, *words], cwd=folder, check=True, text=True, stdout=subprocess.PIPE).stdout


def learns() -> None:
    """The first call in Python ends with a policy that is the expert's, on the way."""
    import aceirl

    result = aceirl.ActiveIRL(max_samples=2_000).fit("gridworld")
    assert result.regret is not None
    assert result.regret < 0.05, result.regret
    assert result.certificate is not None
    assert result.certificate.holds, result.certificate


def commands(folder: str) -> None:
    """The version, and a run that ends with its certificate."""
    module = subprocess.run(
        [sys.executable, "-m", "aceirl", "--version"], check=True, text=True, stdout=subprocess.PIPE
    )
    assert module.stdout.split() == ["aceirl", version("aceirl")], module.stdout
    said = json.loads(command("run", "gridworld", "--out", "gridworld", "--json", folder=folder).splitlines()[-1])
    assert said["stopped"] == "certificate", said


def extras(folder: str) -> None:
    """A Gymnasium environment, the pictures of its run, a sweep, and the page of an interview."""
    words = ("--expert", "optimal", "--stationary-expert", "--max-samples", "300", "--out", "lake")
    command("run", "FrozenLake-v1", *words, folder=folder)
    command("show", "lake", folder=folder)
    assert list(Path(folder, "lake", "pictures").iterdir())
    spec = 'strategies = ["random"]\nseeds = 1\n[settings]\nmax_samples = 20\n[[scenario]]\nenvironment = "gridworld"\n'
    Path(folder, "small.toml").write_text(spec, encoding="utf-8")
    command("sweep", "small.toml", "--jobs", "1", "--out", "sweep", folder=folder)
    assert Path(folder, "sweep", "report.html").exists()
    import distributed  # noqa: F401
    import minari  # noqa: F401

    import aceirl.web.server  # noqa: F401


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        learns()
        commands(folder)
        if sys.argv[1:] == ["all"]:
            extras(folder)
    print(f"aceirl {version('aceirl')} works on Python {sys.version.split()[0]}")
