"""The interview: a page on which a person is the expert."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from aceirl.cli.app import command

PREFERRED_PORT = 8472

EPSILON = DELTA = 0.1


@command
def interview(
    env: Annotated[str, typer.Argument(help="One of `aceirl envs`, or a Gymnasium id such as FrozenLake-v1.")],
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen on; by default 8472, or any that is free.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; anything but this machine is a risk.")] = "127.0.0.1",
    out: Annotated[
        Path | None, typer.Option(help="Folder of the interview; by default runs/interview-ENV. Goes on if it exists.")
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    epsilon: Annotated[float, typer.Option(help="What may be lost against you, as a share of an episode.")] = EPSILON,
    delta: Annotated[float, typer.Option(help="How often the promise may be wrong.")] = DELTA,
    horizon: Annotated[int | None, typer.Option(help="Steps of an episode, for Gymnasium environments.")] = None,
    seed: Annotated[int, typer.Option(help="Determines the environment and all chance in it.")] = 0,
    parameter: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter of the environment, as name=value; may be repeated.")
    ] = None,
) -> None:
    """Be the expert: answer on a web page what you would do, and watch the software find out what you want."""
    from aceirl.cli.running import read_parameters
    from aceirl.errors import InputError
    from aceirl.sources import Source

    try:
        from aceirl.web.security import is_loopback, lasting_token, redirecting_file
        from aceirl.web.server import application, listening_socket, prepare, serve
    except ImportError:
        raise InputError("the interview needs a web server: pip install 'aceirl[web]'") from None
    from aceirl.files import alone
    from aceirl.web.session import Accuracy, Interview

    folder = out or Path("runs") / f"interview-{env.replace('/', '-').replace(':', '-')}"
    source = Source(env, read_parameters(parameter or []), seed, stationary_expert=True, horizon=horizon)
    accuracy = Accuracy(epsilon, delta)
    prepare()
    busy = "an interview with this folder is already running"
    with alone(folder, busy), closing(Interview.open(folder, source, accuracy)) as opened:
        listening = listening_socket(host, port, PREFERRED_PORT)
        address, bound = listening.getsockname()[:2]
        public = not is_loopback(address)
        token = lasting_token(folder)
        url = f"http://{'[' + address + ']' if ':' in address else address}:{bound}/{token}/"
        if public:
            print(
                f"aceirl: {address} can be reached from the network, without encryption; whoever has the address below "
                "can answer in your place",
                file=sys.stderr,
            )
        print(f"The interview is at\n\n  {url}\n")
        print(f"Answers are kept in {folder}. Stop with Ctrl-C; the same command goes on.", flush=True)
        if open_browser:
            import webbrowser

            # Every user of this machine can see the arguments of a browser, but not into this file.
            webbrowser.open(redirecting_file(folder, url).absolute().as_uri())
        serve(application(opened, token, bound, public=public), listening)


def command_of(folder: Path) -> str:
    """The command that goes on with the interview in a folder."""
    from aceirl.errors import InputError

    path = folder / "interview.json"
    try:
        found = json.loads(path.read_text())
        source, accuracy = found["source"], found["accuracy"]
        words = ["aceirl", "interview", source["environment"]]
        for name, value in source["parameters"].items():
            words += ["--set", f"{name}={json.dumps(value)}"]
        values = {**accuracy, "horizon": source["horizon"], "seed": source["seed"]}
        for name, usual in (("epsilon", EPSILON), ("delta", DELTA), ("horizon", None), ("seed", 0)):
            words += [] if values[name] == usual else [f"--{name}", str(values[name])]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    return shlex.join([*words, "--out", str(folder)])
