"""What a page shows to be typed: its blocks, the commands in them, and whether an answer is the one shown."""

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]

MARK = re.compile(r'<!-- not run((?:, "[^"]+")*): (.+) -->')
UNTIL = "<!-- again until it says so -->"
FENCE = re.compile(r"^```(\w*)$")
NAME = re.compile(r"# (\w+\.py)\b")


@dataclass
class Command:
    """A command, and what the page shows of its answer; `None` where the page shows nothing."""

    line: int
    text: str
    shown: list[str] | None = None


@dataclass
class Block:
    """A block of a page in one of the languages that are run."""

    line: int
    heading: str
    language: str
    text: str
    # Why it is not run, and the beginnings of the lines that this is said of; all where there are none.
    reason: str | None = None
    not_run: list[str] = field(default_factory=list)
    is_repeated: bool = False

    @property
    def name(self) -> str | None:
        """The file that the block is, where its first line says so."""
        found = NAME.match(self.text)
        return found[1] if self.language == "python" and found else None

    def is_run(self, command: Command) -> bool:
        """Whether no mark is on the command."""
        if self.reason is None:
            return True
        return bool(self.not_run) and not command.text.startswith(tuple(self.not_run))

    def commands(self) -> list[Command]:
        """Its commands in order: with their answers in `console`, alone in `sh`."""
        found: list[Command] = []
        lines = list(enumerate(self.text.splitlines(), self.line + 1))
        while lines:
            number, line = lines.pop(0)
            if self.language == "console":
                if not line.startswith("$ "):
                    assert found and found[-1].shown is not None, f"line {number}: an answer without a command"
                    found[-1].shown.append(line)
                    continue
                line = line[2:]
            if not line.strip() or line.startswith("#"):
                continue
            while line.endswith("\\"):
                line += "\n" + lines.pop(0)[1].removeprefix("> ")
            if end := re.search(r"<<'(\w+)'", line):
                while not line.endswith("\n" + end[1]):
                    line += "\n" + lines.pop(0)[1].removeprefix("> ")
            found.append(Command(number, line, [] if self.language == "console" else None))
        return found


def blocks(text: str) -> list[Block]:
    """The blocks of a page that a reader may type or save."""
    found: list[Block] = []
    heading, above = "", ""
    fence: tuple[str, int, list[str]] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        opening = FENCE.match(line)
        if fence is not None and line == "```":
            language, begun, inside = fence
            if language in ("sh", "console", "python"):
                mark = MARK.fullmatch(above)
                found.append(
                    Block(
                        begun,
                        heading,
                        language,
                        "\n".join(inside),
                        mark[2] if mark else None,
                        re.findall(r'"([^"]+)"', mark[1]) if mark else [],
                        above == UNTIL,
                    )
                )
            fence, above = None, ""
        elif fence is not None:
            fence[2].append(line)
        elif opening:
            fence = (opening[1], number, [])
        elif line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.strip():
            above = line.strip()
    return found


def agrees(shown: list[str], said: str) -> bool:
    """Whether an answer is the one shown, whatever numbers and times are in it. `…` is anything, also many lines."""
    wanted = "\n".join(plain(line) for line in shown if line.strip())
    pieces = [re.escape(piece) for piece in wanted.split("…")]
    answer = "\n".join(plain(line) for line in said.splitlines() if line.strip())
    return re.fullmatch(".*".join(pieces), answer, re.DOTALL) is not None


def plain(line: str) -> str:
    """A line with `0` for each number, time, size and id, and one space between words."""
    line = re.sub(r"\b[0-9a-f]{16,}\b", "0", line)
    line = re.sub(r"\d+([.,:T/-]+\d+)*(Z|\+\d\d:\d\d)?( ([KMGT]i)?B)?(?![\w])", "0", line)
    return " ".join(line.split())
