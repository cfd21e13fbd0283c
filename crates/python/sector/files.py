"""Files that are open: what `Cloud.open` gives.

A reader is an ordinary seekable binary file over ranges that the client fetches and verifies; a writer publishes its file
when it is closed, and nothing of it when an exception leaves its `with`. Neither decides anything about names.
"""

from __future__ import annotations

import io
import math
import threading
import warnings
from datetime import timedelta
from types import TracebackType
from typing import IO, TYPE_CHECKING, TypedDict, cast

from sector import _native

if TYPE_CHECKING:
    from typing_extensions import Buffer

BUFFER_BYTES = 1024 * 1024
"""What a buffered reader asks for at once, in bytes: long beside a request, short for a memory."""

CHUNK_BYTES = 4 * 1024 * 1024
"""What goes to the native half in one call, in bytes; see `crates/client/src/file/writer.rs`."""


Wait = bool | float | timedelta
"""How long a call waits where someone else writes the file: not at all, as long as it takes, or at most so many seconds."""


def wait_seconds(wait: Wait) -> float | None:
    """The same in seconds; `None`: not at all. Raises `ValueError` for less than none."""
    if isinstance(wait, bool):
        return math.inf if wait else None
    seconds = wait.total_seconds() if isinstance(wait, timedelta) else float(wait)
    if not seconds >= 0:
        raise ValueError(f"`wait` is {wait!r}: give True, or how many seconds at most")
    return seconds


class RawReader(io.RawIOBase):
    """A file of the cloud at the version it had when it was opened; unbuffered."""

    def __init__(self, native: _native.Reader) -> None:
        self._native = native
        self._at = 0
        self.name = native.entry.path
        self.mode = "rb"

    @property
    def entry(self) -> _native.Entry:
        """The file as it was when it was opened."""
        return self._native.entry

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._check_open()
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._check_open()
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._native.size}.get(whence)
        if base is None:
            raise ValueError(f"whence must be 0, 1 or 2, not {whence!r}")
        if base + offset < 0:
            raise ValueError(f"cannot seek to {base + offset}, before the beginning of `{self.name}`")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Buffer, /) -> int:
        self._check_open()
        with memoryview(buffer).cast("B") as view:
            count = max(0, min(len(view), self._native.size - self._at))
            if count:
                with view[:count] as wanted:
                    self._native.read_into(self._at, wanted)
        self._at += count
        return count

    def readall(self) -> bytes:
        self._check_open()
        begin, self._at = self._at, max(self._at, self._native.size)
        return cast(bytes, self._native.read(begin, max(0, self._native.size - begin), False))

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError(f"`{self.name}` is closed; open it again to read it")


class BufferedReader(io.BufferedReader):
    """`RawReader` with a buffer; long reads go past it."""

    raw: RawReader

    def __init__(self, raw: RawReader, buffer_size: int = BUFFER_BYTES) -> None:
        super().__init__(raw, buffer_size)

    @property
    def entry(self) -> _native.Entry:
        """The file as it was when it was opened."""
        return self.raw.entry


class Writer(io.BufferedIOBase):
    """A file that appears whole when it is closed.

    When an exception leaves the `with`, when `discard` is called, and when it is forgotten without a `close`, nothing
    appears, and what was there before stays. It cannot seek.
    """

    def __init__(self, native: _native.Writer, name: str, mode: str = "wb") -> None:
        self._native = native
        self._turn = threading.Lock()
        self._written = 0
        self._ended = False
        self._entry: _native.Entry | None = None
        self.name = name
        self.mode = mode

    @property
    def entry(self) -> _native.Entry | None:
        """The file as it was published; `None` before that."""
        return self._entry

    @property
    def closed(self) -> bool:
        return self._ended

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        """Bytes that were written here."""
        return self._written

    def write(self, data: Buffer, /) -> int:
        with memoryview(data) as view, self._turn:
            if self._ended:
                raise ValueError(f"`{self.name}` is closed; open it again to write it")
            with _as_bytes(view) as content:
                for begin in range(0, len(content), CHUNK_BYTES):
                    with content[begin : begin + CHUNK_BYTES] as chunk:
                        self._native.write(chunk, False)
                self._written += len(content)
                return len(content)

    def flush(self) -> None:
        """Does nothing: bytes are seen by others when the file is closed."""

    def close(self) -> None:
        """Publishes the file. It is on the disks of as many nodes as the folder's policy says when this returns.

        Raises what kept it from being published (`PermissionError`, `FileExistsError`, `UnavailableError` …); nothing
        appears then.
        """
        with self._turn:
            if not self._ended:
                self._ended = True
                self._entry = self._native.finish(False)

    def discard(self) -> None:
        """Gives the file up: nothing of it appears."""
        with self._turn:
            if not self._ended:
                self._ended = True
                self._native.discard(False)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        # Where the constructor failed there is no file.
        if not getattr(self, "_ended", True):
            warnings.warn(f"`{self.name}` was never closed: nothing of it was published", ResourceWarning, 2)
            self._ended = True


class TextWriter(io.TextIOWrapper):
    """A `Writer` of text. Nothing appears when an exception leaves the `with`."""

    def discard(self) -> None:
        """Gives the file up: nothing of it appears."""
        cast(Writer, self.buffer).discard()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        """What was not closed is not published: the writer below says so."""


def _as_bytes(view: memoryview) -> memoryview:
    """The bytes of a buffer of any element type, copied only where they do not lie in one piece or have no plain type."""
    try:
        return view.cast("B")
    except TypeError:
        return memoryview(view.tobytes())


class Text(TypedDict):
    """How bytes become text; as for Python's `open`."""

    encoding: str | None
    errors: str | None
    newline: str | None


class Mode:
    """What `open` was asked for: one of `r`, `w`, `x`, `a`, with `b` for bytes or `t` (or nothing) for text."""

    def __init__(self, mode: str) -> None:
        letters = set(mode)
        if len(letters) != len(mode) or letters - set("rwxabt") or {"b", "t"} <= letters:
            raise ValueError(f"there is no mode {mode!r}: r, w, x or a, with b for bytes")
        verbs = letters & set("rwxa")
        if len(verbs) != 1:
            raise ValueError(f"the mode {mode!r} must have just one of r, w, x and a")
        self.verb = verbs.pop()
        self.is_text = "b" not in letters


def reader(native: _native.Reader, mode: Mode, buffering: int, text: Text) -> IO[bytes] | IO[str]:
    """The Python file over an opened one."""
    raw = RawReader(native)
    if buffering == 0:
        if mode.is_text:
            raise ValueError("text cannot be read unbuffered")
        return cast(IO[bytes], raw)
    buffered = BufferedReader(raw, buffering if buffering > 1 else BUFFER_BYTES)
    return io.TextIOWrapper(buffered, **text) if mode.is_text else buffered


def writer(native: _native.Writer, name: str, mode: Mode, text: Text) -> IO[bytes] | IO[str]:
    """The Python file over a begun one."""
    writer = Writer(native, name, mode.verb + "b")
    return TextWriter(cast(IO[bytes], writer), **text) if mode.is_text else cast(IO[bytes], writer)
