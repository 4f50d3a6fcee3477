"""A real server of the interview, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path


class Server:
    """`aceirl interview` in a process of its own, which may have so many `descriptors` open.

    Without an environment it serves the page on which one is chosen.
    """

    def __init__(self, environment: str | None, folder: Path, *options: str, descriptors: int | None = None) -> None:
        self.folder, self._arguments = folder, [*([environment] if environment else []), "--out", str(folder), *options]
        self._descriptors = descriptors
        self._start(port=0)

    def _start(self, port: int) -> None:
        command = [sys.executable, "-m", "aceirl", "interview", *self._arguments, "--port", str(port)]
        if self._descriptors is not None:
            command = ["sh", "-c", f'ulimit -n {self._descriptors} && exec "$@"', "sh", *command]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        said = []
        for line in self.process.stdout:
            said.append(line)
            if line.strip().startswith("http://"):
                self.url = line.strip()
                self.port = int(self.url.split(":")[2].split("/")[0])
                return
        raise AssertionError("".join(said))

    def kill_and_restart(self) -> None:
        """What `kill -9` and the same command do; the address stays."""
        self.stop(signal.SIGKILL)
        self.restart()

    def restart(self) -> None:
        """Start one that has ended by the same command; the address stays."""
        before = self.url
        self._start(self.port)
        assert self.url == before

    def stop(self, number: int = signal.SIGINT) -> None:
        """End it by a signal, and wait until it has."""
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        self.process.wait(timeout=30)
        if self.process.stdout is not None:
            self.process.stdout.close()
