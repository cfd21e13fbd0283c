"""Every command in README and docs is typed, page by page, in a home of its own. Marks in the pages say what is not."""

import ast
import asyncio
import inspect
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pages import ROOT, Block, Command, agrees, blocks

from sector.filesystem import SectorFileSystem

ANSWERS_MAX = 20_000


@dataclass
class Scene:
    """What a page takes for granted."""

    # Typed before the first block below a heading; `""`: before the page.
    before: dict[str, str] = field(default_factory=dict)
    # What stands for something else, as a pattern and what is typed instead.
    instead: dict[str, str] = field(default_factory=dict)
    # Python below a heading, in the same way.
    names: dict[str, str] = field(default_factory=dict)


SCENES = {
    "README.md": Scene(
        before={
            "Ten lines to your first job": "mkdir logs && seq 100000 110000 | tee logs/a.txt > logs/old.txt",
            "By hand": "sector up --detach",
            "For several people, on several machines": "sector put logs/a.txt /logs/b.txt",
        },
        instead={
            "(user add alice .*astro) .*": "\\1 --password-stdin <<< 'correct horse'",
            "sector login alice .*": "sector login alice --profile alice --password-stdin <<< 'correct horse'",
            "TICKET .*": "@LAST --folder @TMP/node --listen 127.0.0.1:@PORT0",
            "--records 10000000": "--records 10000",
            "/mnt/disk1 .*": "@TMP --bytes 1MiB",
        },
    ),
    "docs/functions.md": Scene(
        before={
            "": "sector up --detach && seq -f 'a b %g' 5000 > a && sector put a /text/a.txt"
            " && seq -f 'a\t%g' 5000 > b && sector put b /measured/b.txt",
            "Any program": "sector rm -r --now /counts && sector run --udf words.py:words --input /text --records lines"
            " --buckets 8 --then words.py:total --output /counts && sector rm -r --now /counts",
        }
    ),
    "docs/records.md": Scene(
        before={
            "`index`": "sector up --detach && printf '>a\nAC\n>b\nGT\n' > a.fa && sector put a.fa /genome/a.fa"
            " && seq 1000 > a && sector put a /logs/a && printf 'def f(segment, out):\n    out.emit(b\"1\")\n' > mine.py",
            "Several streams": "printf 'def join(segment, out):\n    out.count(\"pairs\", len(list(segment.aligned())))\n'"
            " > join.py && sector put a /keys/a && sector put a /texts/a",
        }
    ),
    "docs/python.md": Scene(
        before={
            "Python": "sector up --detach && mkdir measurements && echo 1 > measurements/a",
        },
        names={
            "asyncio": "sector.connect().write_bytes('/text/b.txt', b'b')",
            "pandas, pyarrow, DuckDB, Polars, Dask": "import dask.dataframe, duckdb, fsspec, pandas, polars\n"
            "import pyarrow.dataset, pyarrow.parquet\n"
            "pandas.DataFrame({'a': [1, 2]}).to_parquet('sector://sky/objects.parquet')\n"
            "sector.connect().write_bytes('/logs/a.csv', b'a,b\\n1,2\\n')",
            "Jobs": "from collections import Counter\ncloud = sector.connect()",
        },
    ),
    "docs/howto/add-a-node.md": Scene(
        before={"": "sector up --detach"},
        instead={"TICKET (.*)": "@LAST \\1 --listen 127.0.0.1:@PORT0", "/srv/sector/node": "@TMP/node"},
    ),
    "docs/howto/two-clouds.md": Scene(instead={"--port 7500 --web-port 7501": "--web-port @PORT0"}),
    "docs/howto/move.md": Scene(
        before={"": "sector up --detach && echo 1 > a && sector put a /a && mkdir @TMP/new"},
        instead={"/mnt": "@TMP"},
    ),
    "docs/howto/share.md": Scene(
        before={"": "sector up --detach"},
        instead={
            "(sector user add .*)": "\\1 --password-stdin <<< 'correct horse'",
            "(sector login .*)": "sector acl add /project user:alice:r && \\1 --password-stdin <<< 'correct horse'"
            " --profile alice && export SECTOR_PROFILE=alice",
        },
    ),
    "docs/howto/take-back.md": Scene(
        before={"": "sector up --detach && echo 1 > a.txt && echo 2 > b.txt && sector put a.txt /logs/a.txt"},
        instead={r"/\.trash/alice/\S+": "$(sector find /.trash | head -1)"},
    ),
    "docs/howto/quotas.md": Scene(
        before={
            "": "sector up --detach && sector mkdir /scratch && sector user add alice --password-stdin <<< 'correct horse'"
        }
    ),
    "docs/howto/own-environment.md": Scene(
        before={"": "sector up --detach && echo 1 > a && sector put a /logs/a"},
        instead={"/opt/sphere": "@TMP/sphere"},
    ),
    "docs/howto/read-from-python.md": Scene(before={"": "sector up --detach"}),
    "docs/howto/web-page.md": Scene(before={"": "sector up --detach"}),
    "docs/howto/s3.md": Scene(before={"": "sector up --detach"}),
    "docs/howto/webdav.md": Scene(before={"": "sector up --detach"}),
    "docs/howto/sql.md": Scene(
        before={"": "sector up --detach && printf 'id,ra,dec,mag\\n1,10.5,61.2,5.5\\n2,10.6,-20.2,\\n' > stars.csv"}
    ),
    "docs/howto/tap.md": Scene(
        before={
            "": "sector up --detach && printf 'id,ra,dec,mag\\n1,10.5,61.2,5.5\\n2,10.6,-20.2,7\\n' > stars.csv"
            " && sector table create /sky/stars --like stars.csv --zones ra,dec && sector table load /sky/stars stars.csv"
        },
        instead={"sector tap": "sector tap --listen 127.0.0.1:@PORT0", "127.0.0.1:7082": "127.0.0.1:@PORT0"},
    ),
    "docs/howto/workers.md": Scene(
        before={
            "": "sector up --detach && printf 'id,ra,dec,mag\\n1,10.5,61.2,5.5\\n2,10.6,-20.2,7\\n' > stars.csv"
            " && for name in stars galaxies; do sector table create /sky/$name --like stars.csv --zones ra,dec"
            " && sector table load /sky/$name stars.csv; done"
        },
        instead={"^sector worker$": "sector worker --listen 127.0.0.1:@PORT0", "127.0.0.1:7083": "127.0.0.1:@PORT0"},
    ),
    "docs/howto/sky-images.md": Scene(
        before={
            "": 'sector up --detach && mkdir night1 && python -c "from astropy.io import fits; import numpy;'
            " header = fits.Header({'CTYPE1': 'RA---TAN', 'CTYPE2': 'DEC--TAN', 'CRVAL1': 202.47, 'CRVAL2': 47.2,"
            " 'CRPIX1': 60, 'CRPIX2': 50, 'CDELT1': -0.001, 'CDELT2': 0.001, 'FILTER': 'r'});"
            " fits.writeto('night1/m51.fits', numpy.zeros((100, 120), 'i2'), header)\""
        },
        instead={"sector portal": "sector portal --listen 127.0.0.1:@PORT0", "127.0.0.1:7081": "127.0.0.1:@PORT0"},
    ),
    "docs/howto/prometheus.md": Scene(before={"": "sector up --detach"}),
    "docs/howto/events.md": Scene(
        before={"": "sector up --detach && mkdir data && echo 1 > data/b.csv && sector put -r data /data"}
    ),
    "docs/howto/disk-fails.md": Scene(before={"": "sector up --detach && echo 1 > a && sector put a /a"}),
    "docs/howto/slow.md": Scene(
        before={
            "": "sector up --detach && seq 100000 > big.dat && sector put big.dat /in"
            " && sector run --udf count --input /in --output /out"
        },
        instead={"/srv/sector/node": "@TMP --bytes 1MiB"},
    ),
    "docs/set-up.md": Scene(
        instead={
            "(sector security init .*)": "\\1 --listen 127.0.0.1:@PORT0",
            "(sector master join .*)": "\\1 --listen 127.0.0.1:@PORT1",
            "192.0.2.10:7400": "127.0.0.1:@PORT1",
            "(sector node join TICKET .*)": "\\1 --listen 127.0.0.1:@PORT2",
            "TICKET": "@LAST",
            "(sector node join --master .*)": "\\1 --listen 127.0.0.1:@PORT3",
            "--fingerprint FINGERPRINT": "--fingerprint $(sector node requests --json | grep -oE '[0-9a-f]{32,}')",
            # A machine has one such folder.
            "/srv/sector/node": "@TMP/@SECTION",
            "/srv/sector": "@TMP/srv",
        }
    ),
}


class Reader:
    """Someone who types what a page shows."""

    def __init__(self, folder: Path, scene: Scene) -> None:
        self.folder, self.scene = folder, scene
        self.servers: list[subprocess.Popen[str]] = []
        self.last, self.heading = "", ""
        self.ports = free_ports(4)
        self.names: dict[str, object] = {"__name__": "__main__"}
        home, programs = folder / "home", folder / "programs"
        home.mkdir()
        programs.mkdir()
        # Port 7011 may be another's here.
        known = shutil.which("sector", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
        text = f'#!/bin/sh\ncase "$1" in up) shift; set -- up --port 0 "$@";; esac\nexec {known} "$@"\n'
        (programs / "sector").write_text(text)
        (programs / "sector").chmod(0o755)
        path = [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        self.environment = {**os.environ, "HOME": str(home), "PATH": os.pathsep.join(path)}
        for name in ("SECTOR_PROFILE", "SECTOR_HOME", "SECTOR_BINARY"):
            self.environment.pop(name, None)

    def type(self, text: str) -> tuple[int, str]:
        """Types one command, and returns its exit code and what it printed."""
        text = self.as_typed(text)
        log = self.folder / "said"
        with log.open("w") as said:
            shell = ["bash", "-c", text]
            if re.match(
                r"sector (security|master|node) --config|sector node join --master|sector (portal|tap|worker) ", text
            ):
                self.serve(shell)
                return 0, ""
            ended = subprocess.run(
                shell, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )
        answer = log.read_text()
        # Not a remark.
        self.last = next((line for line in answer.splitlines() if line and " " not in line), "")
        return ended.returncode, answer

    def as_typed(self, text: str) -> str:
        """What is typed instead of what a page shows."""
        for pattern, other in self.scene.instead.items():
            text = re.sub(pattern, other, text)
        text = text.replace("@TMP", str(self.folder)).replace("@LAST", self.last)
        text = text.replace("@SECTION", re.sub(r"\W", "", self.heading))
        return re.sub(r"@PORT(\d)", lambda found: str(self.ports[int(found[1])]), text)

    def serve(self, shell: list[str]) -> None:
        """Starts what runs until it is stopped, and waits for its first line."""
        for server in [server for server in self.servers if "sector node join" in str(server.args)]:
            # It was approved, and ends by itself.
            assert server.communicate()[0] is not None and server.returncode == 0
            self.servers.remove(server)
        shell[2] = f"exec {shell[2]} 2>&1"
        server = subprocess.Popen(
            shell, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        self.servers.append(server)
        assert server.stdout is not None
        said = ""
        for line in server.stdout:
            said += line
            begins = ("ready ", "portal at ", "tables for programs at ", "parts of queries at ")
            if line.startswith(begins) or "fingerprint" in line:
                return
        pytest.fail(f"{shell[2]} did not start: {said}")

    def follow(self, block: Block) -> None:
        """Does what a block says."""
        self.heading = block.heading
        if block.language == "python":
            if block.name is not None:
                (self.folder / block.name).write_text(block.text + "\n")
            elif block.reason is None:
                self.evaluate(block)
            return
        for command in block.commands():
            if block.is_run(command):
                self.expect(command, ANSWERS_MAX if block.is_repeated else 1)

    def expect(self, command: Command, times: int) -> None:
        """Types a command until it answers as the page shows, at most so many times."""
        for _ in range(times):
            code, answer = self.type(command.text)
            shown = command.shown
            if (code == 0 or times > 1) and (shown is None or agrees(shown, answer)):
                return
        pytest.fail(f"line {command.line}: {command.text}\nexit code {code}\n{answer}\nshown: {shown}")

    def evaluate(self, block: Block) -> None:
        """Runs Python as a notebook does: names stay, and `await` stands anywhere."""
        code = compile(self.as_typed(block.text), f"line {block.line}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        value = eval(code, self.names)
        if inspect.iscoroutine(value):
            asyncio.run(value)

    def leave(self) -> None:
        """Ends all that was started. A cloud that the page left running is not given the time to end in order."""
        for running in (self.folder / "home").glob("*/running.toml"):
            os.kill(tomllib.loads(running.read_text())["pid"], signal.SIGKILL)
        for server in reversed(self.servers):
            server.send_signal(signal.SIGTERM)
            server.communicate()


def free_ports(count: int) -> list[int]:
    """Ports that nobody has, for TCP and UDP, below those that Linux gives out by itself."""
    found: list[int] = []
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        try:
            with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
                stream.bind(("127.0.0.1", port))
                datagrams.bind(("127.0.0.1", port))
        except OSError:
            continue
        found.append(port)
        if len(found) == count:
            break
    return found


def pages() -> list[str]:
    """All pages with something to type, but for those whose blocks another test runs."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    names = [str(page.relative_to(ROOT)) for page in found if blocks(page.read_text())]
    return [name for name in names if name not in ELSEWHERE]


# Its cloud loses what its headings say: tests/cluster/operations.rs.
ELSEWHERE = ["docs/operations.md"]
# How many blocks of a page are not run, or not wholly.
NOT_RUN = {
    "README.md": 6,
    "docs/python.md": 1,
    "docs/howto/install.md": 5,
    "docs/howto/web-page.md": 3,
    "docs/howto/own-environment.md": 2,
    "docs/howto/s3.md": 5,
    "docs/howto/webdav.md": 3,
    "docs/howto/workers.md": 1,
}


@pytest.fixture
def reader(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    reader = Reader(tmp_path, SCENES.get(request.param, Scene()))
    monkeypatch.chdir(tmp_path)
    for name, value in reader.environment.items():
        monkeypatch.setenv(name, value)
    for name in os.environ.keys() - reader.environment.keys():
        monkeypatch.delenv(name)
    yield reader
    reader.leave()
    # It keeps file systems of clouds that are gone.
    SectorFileSystem.clear_instance_cache()


@pytest.mark.parametrize(("page", "reader"), [(page, page) for page in pages()], indirect=["reader"], ids=pages())
def test_every_command_of_a_page_does_what_the_page_says(page: str, reader: Reader) -> None:
    before, names = dict(reader.scene.before), dict(reader.scene.names)
    known = [""]
    for block in blocks((ROOT / page).read_text()):
        known.append(block.heading)
        for heading in [heading for heading in known if heading in before]:
            code, answer = reader.type(before.pop(heading))
            assert code == 0, f"before {heading!r}: {answer}"
        if block.heading in names:
            exec(names.pop(block.heading), reader.names)
        reader.follow(block)
    assert not before and not names, "a scene is set for a heading without a block"


def test_what_is_not_run_has_a_reason_and_is_counted() -> None:
    found = {}
    for page in pages():
        text = (ROOT / page).read_text()
        marked = [block for block in blocks(text) if block.reason is not None]
        assert len(marked) == text.count("<!-- not run"), f"{page}: a mark that stands before no block"
        for block in marked:
            assert block.reason is not None and len(block.reason.split()) >= 4, f"{page}:{block.line}: say why"
            begins = [command.text for command in block.commands()]
            for start in block.not_run:
                assert any(text.startswith(start) for text in begins), (
                    f"{page}:{block.line}: no line begins so: {start}"
                )
        if marked:
            found[page] = len(marked)
    assert found == NOT_RUN, "a block that nobody runs is decided upon, not written"


def test_no_command_hides_where_nobody_runs_it() -> None:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if page.parent.name == "reference":
            continue
        language = None
        for number, line in enumerate(page.read_text().splitlines(), 1):
            if line.startswith("```"):
                language = line[3:] if language is None else None
            elif language is not None and language not in ("sh", "console", "python"):
                assert not line.startswith(("$ ", "sector ")), f"{page}:{number}: a command in a block of `{language}`"


def test_an_answer_is_the_one_shown_but_for_numbers_and_what_is_left_out() -> None:
    assert agrees(["2 files, 1.5 GiB, 0.1 s"], "3 files, 17 B, 12.5 s\n")
    assert agrees(["a  …", "…", "z"], "a b c\nd\ne\nz")
    assert agrees(
        ["at 2026-11-24T15:12:46Z", "id 5a5bc7f42d283a474e4e"], "at 2027-01-01T00:00:00.5Z\nid 0123456789abcdef0123"
    )
    assert not agrees(["2 files"], "2 folders")
    assert not agrees(["2 files"], "2 files\nsector: but one is bad")
    assert not agrees(["node-1 up", "node-2 up"], "node-1 up")
    assert not agrees(["ok: …"], "warning: node-1 is lost")


def test_a_block_is_cut_into_commands_with_their_answers() -> None:
    fence = "```"
    text = f"""# Page
<!-- not run, "cargo": a step builds it -->
{fence}sh
cargo build
# a remark
sector ls \\
    /a
{fence}
## Next
{fence}console
$ cat <<'END'
> x
> END
x
$ true
{fence}
{fence}text
$ nothing
{fence}
"""
    first, second = blocks(text)
    build, ls = first.commands()
    assert (first.heading, first.reason, first.is_run(build), first.is_run(ls)) == (
        "Page",
        "a step builds it",
        False,
        True,
    )
    assert ls == Command(6, "sector ls \\\n    /a")
    assert second.heading == "Next" and second.reason is None
    assert second.commands() == [Command(11, "cat <<'END'\nx\nEND", ["x"]), Command(15, "true", [])]
