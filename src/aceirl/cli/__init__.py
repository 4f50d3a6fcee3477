"""Parse, call, show. Heavy parts are loaded by the command that needs them, so that help comes at once."""

import atexit
import gc

from aceirl.cli import advising as advising
from aceirl.cli import arena as arena
from aceirl.cli import data as data
from aceirl.cli import estimating as estimating
from aceirl.cli import experiments as experiments
from aceirl.cli import exporting as exporting
from aceirl.cli import inferring as inferring
from aceirl.cli import interview as interview
from aceirl.cli import running as running
from aceirl.cli import transferring as transferring
from aceirl.cli.app import app as app


def main() -> None:
    """The `aceirl` command."""
    gc.set_threshold(50_000)  # there is little garbage in circles, and to look for it takes a fortieth of a run
    atexit.register(gc.freeze)  # else every object is freed before the end, which takes up to half a second
    app()
