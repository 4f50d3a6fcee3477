"""The interview: a page on which a person is the expert."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from aceirl.cli.app import command
from aceirl.cli.options import Horizon, Parameters

if TYPE_CHECKING:
    from aceirl.web.driven.session import Session
    from aceirl.web.people import People
    from aceirl.web.setup import SetUp

PREFERRED_PORT = 8472

EPSILON = DELTA = 0.1


@command
def interview(
    env: Annotated[
        str | None,
        typer.Argument(
            help="A built-in environment (`aceirl envs`), or a Gymnasium id such as CartPole-v1; if it is left out, "
            "you choose one on the page."
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen on; by default 8472, or any that is free.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; with any but this one, other machines reach the page.")
    ] = "127.0.0.1",
    url: Annotated[
        str | None,
        typer.Option(help="Address that people open, if it is another: of a tunnel, a mapped port, a local name."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the interview; by default runs/interview-ENV. Goes on if it exists.")
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    name: Annotated[str | None, typer.Option(help="Your name, shown to people whom you invite.")] = None,
    epsilon: Annotated[
        float,
        typer.Option(
            min=0.001,
            max=0.99,
            help="How much worse than you it may do, as a share of the most an episode can be worth.",
        ),
    ] = EPSILON,
    delta: Annotated[float, typer.Option(min=0.001, max=0.99, help="How often the promise may be wrong.")] = DELTA,
    horizon: Horizon = None,
    seed: Annotated[int, typer.Option(help="Seed of the environment and of all randomness.")] = 0,
    parameter: Parameters = None,
) -> None:
    """Be the expert: answer on a web page what you would do, and watch the software find out what you want."""
    from aceirl.errors import InputError
    from aceirl.web.early import check_id, listening_socket, usual_steps

    print("Starting; the address comes in a few seconds.", flush=True)
    if env is not None:
        check_id(env)
    with closing(listening_socket(host, port, PREFERRED_PORT)) as listening:
        from aceirl.experts.tasks import Source, read_parameters

        try:
            from aceirl.web.background import prepare
            from aceirl.web.driven.pages import application as driven_application
            from aceirl.web.driven.session import Session
            from aceirl.web.security import Reach, is_loopback, new_token, origin_of, reachable_address
            from aceirl.web.server import application, serve
        except ImportError:
            raise InputError("the interview needs a web server: pip install 'aceirl[web]'") from None
        from aceirl.experts.tasks.continuous import names_continuous
        from aceirl.web.history import Accuracy
        from aceirl.web.people import People
        from aceirl.web.setup import SetUp, usual_folder

        origin = None if url is None else origin_of(url)
        parameters = read_parameters(parameter or [])
        if env is None:
            fields = {"horizon": horizon or "", "epsilon": epsilon, "delta": delta, "seed": seed, "name": name or ""}
            first = {field: str(value) for field, value in fields.items()} | {"parameters": "\n".join(parameter or [])}
            people, token = None, new_token()
            served: People | SetUp | Session = SetUp(token, out, first, _say_where_it_is_kept)
        else:
            source = Source(env, parameters, seed, stationary_expert=True, horizon=horizon or usual_steps(env))
            folder, accuracy = out or usual_folder(env), Accuracy(epsilon, delta)
            if names_continuous(source):
                if name is not None:
                    raise InputError(f"--name is for interviews of several people; {env} is driven by one")
                people, served = None, Session.open(folder, source, accuracy)
                token = served.token
            else:
                served = people = People.open(folder, source, accuracy)
                token = people.owner.token
        with closing(served), TemporaryDirectory(prefix="aceirl-") as own:
            if people is not None and name is not None:
                people.rename(people.owner, name)
            if not isinstance(served, Session):
                prepare()
            address, bound = listening.getsockname()[:2]
            reach = Reach(bound, public=not is_loopback(address), url=origin)
            base = origin or f"http://{reachable_address(address)}:{bound}"
            if reach.public:
                print(
                    f"aceirl: {address} can be reached from the network, without encryption; anyone with the address "
                    "below can answer in your place",
                    file=sys.stderr,
                )
            _say_where_it_is(base, token, served)
            if origin is not None:
                print(f"The server itself listens on {address}, port {bound}.", flush=True)
            if open_browser:
                _open_browser(f"{base}/{token}/", getattr(served, "folder", Path(own)))
            app = driven_application(served, reach) if isinstance(served, Session) else application(served, reach)
            serve(app, listening)


def _say_where_it_is(base: str, token: str, served: People | SetUp | Session) -> None:
    folder = getattr(served, "folder", None)
    if folder is None:
        print(f"Choose what the interview is about at\n\n  {base}/{token}/\n\nStop with Ctrl-C.", flush=True)
        return
    print(f"The interview is at\n\n  {base}/{token}/\n")
    if (invitation := getattr(served, "invitation", None)) is not None:
        seats = invitation.seats - invitation.taken
        others = "One other person joins at" if seats == 1 else f"{seats} others join at"
        print(f"{others}\n\n  {base}/{invitation.token}/\n\nThe page People has links for more.\n")
    print(f"Answers are kept in {folder}. Stop with Ctrl-C; the same command goes on.", flush=True)


def _say_where_it_is_kept(people: People) -> None:
    print(f"Answers are kept in {people.folder}. To go on another time:\n\n  {command_of(people.folder)}\n", flush=True)


def _open_browser(url: str, folder: Path) -> None:
    """Every user of this machine can see the arguments of a browser, but not into the file it is given."""
    import webbrowser

    from aceirl.web.security import redirecting_file

    webbrowser.open(redirecting_file(folder, url).absolute().as_uri())


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
