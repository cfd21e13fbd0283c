"""A cloud of one's own on this machine: `sector.up`.

It is the `sector` program in a process of its own, which ends with this one, however this one ends: the program stops when
its standard input, whose other end only this process has, is at its end.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import cast

from sector import _native
from sector.cloud import Cloud, LocalPath

STOP_SECONDS_MAX = 60.0
"""How long a cloud may take to stop in order before it is killed. Its data bear that too."""

LOG_LINES_MAX = 20
"""Last lines of the log that an error shows."""

READY_PREFIX = "ready "
"""What the program says, before its address, when it serves."""


def binary() -> Path:
    """The `sector` program: `$SECTOR_BINARY`, else the one that came with this package, else the one in `$PATH`.

    Raises `FileNotFoundError` where there is none.
    """
    named = os.environ.get("SECTOR_BINARY")
    if named:
        if not os.access(named, os.X_OK):
            raise FileNotFoundError(f"`{named}`, which SECTOR_BINARY names, is no program; name the `sector` binary")
        return Path(named)
    places = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", "posix_user"), Path(sys.executable).parent]
    for place in places:
        found = shutil.which("sector", path=str(place))
        if found:
            return Path(found)
    found = shutil.which("sector")
    if found:
        return Path(found)
    raise FileNotFoundError("there is no `sector` program: install one (`cargo install`), or name it by SECTOR_BINARY")


def up(nodes: int | None = None, sites: int | None = None, data: LocalPath | None = None) -> LocalCloud:
    """Starts a whole cloud on this machine (security server, master, `nodes` nodes in `sites` sites) and logs in to it.

    What it keeps lies in the folder `data`, and a later `up` there has it again, with the same nodes and sites; a new
    one has 4 nodes in 2 sites. Without `data` it lies in a temporary folder, which goes when the cloud is closed. The
    cloud ends with this process at the latest.

        with sector.up(nodes=4) as cloud:
            cloud.write_bytes("/hello.txt", b"hello")

    Raises `FileNotFoundError` where there is no `sector` program, `OSError` with what it said where it does not start. The
    last lines of its log are the error's note.
    """
    folder = Path(tempfile.mkdtemp(prefix="sector-")) if data is None else Path(data).absolute()
    try:
        return LocalCloud(_start(folder, nodes, sites), folder, is_temporary=data is None)
    except BaseException:
        if data is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise


class LocalCloud(Cloud):
    """A cloud that `up` started; closing it stops it."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, is_temporary: bool) -> None:
        self._process = process
        self._is_temporary = is_temporary
        self._started_by = os.getpid()
        self.folder = folder
        """Where it keeps everything."""
        self.profile = folder / "home" / "profile.toml"
        """The profile to connect to it with, also from other processes."""
        try:
            super().__init__(cast(_native.Session, _native.connect(self.profile, False)), str(self.profile))
        except BaseException:
            self._stop()
            raise
        atexit.register(self.close)

    def close(self) -> None:
        """Ends the session and stops the cloud; a temporary folder is removed."""
        # A child made by `fork` has but a copy of it.
        if os.getpid() != self._started_by or self._process.returncode is not None:
            return
        try:
            super().close()
        finally:
            self._stop()
            atexit.unregister(self.close)

    def _stop(self) -> None:
        process = self._process
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        try:
            process.wait(STOP_SECONDS_MAX)
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            if self._is_temporary:
                shutil.rmtree(self.folder, ignore_errors=True)


def _start(folder: Path, nodes: int | None, sites: int | None) -> subprocess.Popen[str]:
    """Starts the program and waits until it says that it is ready."""
    if nodes is not None and sites is not None:
        sites = min(sites, nodes)
    options = [f"--{name}={number}" for name, number in (("nodes", nodes), ("sites", sites)) if number is not None]
    # A cloud that is there keeps its port.
    if not (folder / "master" / "settings.toml").exists():
        options.append("--port=0")
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    log = home / "sector.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [
                binary(),
                "up",
                *options,
                "--data",
                folder,
                "--until-stdin-ends",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={
                **os.environ,
                "SECTOR_HOME": str(home),
                "SECTOR_PROFILE": str(home / "profile.toml"),
                # Functions in Python find what this process would: its nodes take the first `python3`.
                "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
            },
            # Ctrl-C at a terminal is for this process, which then stops that one in order.
            start_new_session=True,
        )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith(READY_PREFIX):
                return process
    except BaseException:
        process.kill()
        process.wait()
        raise
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    said = log.read_text(errors="replace")
    error = OSError(f"the cloud did not start: {_reason(said)}")
    # A temporary folder takes its log with it.
    error.add_note("\n".join(["its log ended:", *said.splitlines()[-LOG_LINES_MAX:]]))
    raise error


def _reason(log: str) -> str:
    """Why the program ended, from its log, which a temporary folder takes with it."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    said = [line.partition(": ")[2] for line in lines if line.startswith(("sector: ", "error: "))]
    return said[-1] if said else "; ".join(lines[-5:]) or "it said nothing"
