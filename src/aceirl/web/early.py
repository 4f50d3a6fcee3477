"""What can be said of a command before anything large is loaded: whether the port is free and the environment there."""

from __future__ import annotations

import re
import socket

from aceirl.errors import InputError, unknown_name

# How many connections may wait to be accepted; they are accepted all at once.
BACKLOG = 128

# The least and the most of a share that a person may ask for; less cannot be promised in the time that people have.
LEAST_SHARE, MOST_SHARE = 0.001, 0.99

# How long episodes are in those environments of Gymnasium that do not say so themselves, by the first part of the id.
USUAL_STEPS = {"CliffWalking": 100, "CliffWalkingSlippery": 100, "Blackjack": 12}


def listening_socket(host: str, port: int | None, preferred: int) -> socket.socket:
    """A socket on the port asked for or, if none was, on the preferred one or any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in (preferred, 0) if port is None else (port,):
        # asyncio sends small answers without delay only if the protocol is named; else each takes 40 ms longer.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, candidate))
            # From now on a browser that comes too early waits, and is not turned away.
            listening.listen(BACKLOG)
            return listening
        except OSError as error:
            listening.close()
            reason = error.strerror or str(error)
    raise InputError(f"cannot listen on {host}, port {candidate}: {reason}")


def check_id(environment: str) -> None:
    """An error if Gymnasium registers the ids of that kind itself and has none of this version, or of this name."""
    if not re.fullmatch(r"\w+-v\d+", environment):
        return  # one of ours, a function, or an id that a library of its own registers
    try:
        import gymnasium
    except ImportError:
        return
    try:
        gymnasium.spec(environment)
    except gymnasium.error.DeprecatedEnv as error:
        newer = re.search(r"use `(.+?)`", str(error))
        use = f"; use {newer[1]}" if newer else ""
        raise InputError(f"environment {environment!r} is out of date and cannot be made any more{use}") from None
    except gymnasium.error.NameNotFound:
        raise unknown_name("environment", environment, gymnasium.registry) from None
    except gymnasium.error.Error as error:
        raise InputError(f"environment {environment!r} cannot be made: {' '.join(str(error).split())}") from None


def usual_steps(environment: str) -> int | None:
    """How long the episodes of an environment are that does not say so itself; None if nobody can say."""
    return USUAL_STEPS.get(environment.partition("-")[0])
