"""Programs of a cloud that serve until they are told to stop."""

import json
import os
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sector


def run(cloud: sector.LocalCloud, *words: str) -> str:
    """What a command prints, typed by the cloud's own user."""
    environment = {**os.environ, "SECTOR_PROFILE": str(cloud.profile)}
    return subprocess.run(["sector", *words], env=environment, check=True, capture_output=True, text=True).stdout


@contextmanager
def gateway(cloud: sector.LocalCloud, folder: Path, settings: str = "") -> Iterator[str]:
    """`sector gateway` at a free port, with these settings beside those that it needs; its address."""
    profile = tomllib.loads(cloud.profile.read_text())
    (folder / "authority.pem").write_text(profile["authority"])
    needed = f'listen = "127.0.0.1:0"\nmaster = "{profile["address"]}"\nauthority = "authority.pem"\n'
    (folder / "gateway.toml").write_text(needed + settings)
    words = ["sector", "gateway", "--config", str(folder / "gateway.toml")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().removeprefix("ready ").strip()
        finally:
            # Else a test that fails would wait for it.
            process.terminate()


@contextmanager
def serving(cloud: sector.LocalCloud, *words: str) -> Iterator[str]:
    """`sector WORDS` at a free port, as the cloud's own user; its address."""
    with started(cloud, *words) as (url, _):
        yield url


@contextmanager
def started(cloud: sector.LocalCloud, *words: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The same with its process."""
    typed = ["sector", *words, "--listen", "127.0.0.1:0", "--json"]
    environment = {**os.environ, "SECTOR_PROFILE": str(cloud.profile)}
    process = subprocess.Popen(typed, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines: list[str] = []
    # One document, over several lines.
    while not (lines and lines[-1].startswith("}")):
        line = process.stdout.readline()
        assert line, f"{words[0]} did not start"
        lines.append(line)
    try:
        yield json.loads("".join(lines))["url"], process
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
