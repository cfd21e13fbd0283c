"""How far a job is, for a person: one line in a terminal, one in a notebook, nothing elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self

WIDTH = 30
"""Characters of the bar."""


class Bar:
    """A line that is drawn anew; what it says does not matter to what is done."""

    def __init__(self, draw: Any, end: Any) -> None:
        self._draw = draw
        self._end = end
        self._said = ""

    @classmethod
    def of_job(cls, shown: bool) -> Self:
        """The line that fits where this runs."""
        if shown and _in_notebook():
            from IPython.display import display

            handle = display({"text/plain": ""}, raw=True, display_id=True)
            return cls(lambda line: handle.update({"text/plain": line}, raw=True), lambda: None)
        if shown and sys.stderr.isatty():

            def draw(line: str) -> None:
                sys.stderr.write(f"\r{line}\x1b[K")
                sys.stderr.flush()

            return cls(draw, lambda: sys.stderr.write("\n"))
        return cls(None, lambda: None)

    def tell(self, stage: int, bytes_done: int, bytes_total: int) -> None:
        """A stage, counted from 0, has done so many bytes."""
        line = said(stage, bytes_done, bytes_total)
        if self._draw is not None and line != self._said:
            self._draw(line)
            self._said = line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._said:
            self._end()


def said(stage: int, bytes_done: int, bytes_total: int) -> str:
    """The line."""
    share = bytes_done / bytes_total if bytes_total else 1.0
    full = round(min(share, 1.0) * WIDTH)
    return f"stage {stage + 1} [{'=' * full}{' ' * (WIDTH - full)}] {size(bytes_done)} of {size(bytes_total)}"


def size(count_bytes: int) -> str:
    """Bytes, for people."""
    value, units = float(count_bytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"
