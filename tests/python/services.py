"""Programs of a cloud that serve until they are told to stop."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import sector


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
