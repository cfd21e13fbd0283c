"""The same for `asyncio`: `sector.aio.connect`, and a cloud whose calls are awaited.

    cloud = await sector.aio.connect()
    async with cloud.open("/text/a.txt", "rb") as file:
        first = await file.read(100)

Calls run beside each other in one event loop; cancelling a task ends its call. The calls are those of `sector.Cloud`, with
the same arguments and errors; files are of bytes only.
"""

from __future__ import annotations

import io
import os
from collections.abc import AsyncIterator, Awaitable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from sector import _native
from sector.cloud import CloudPath, LocalPath, Node, _path, join
from sector.files import CHUNK_BYTES, Mode, Wait, _as_bytes, wait_seconds

if TYPE_CHECKING:
    from typing_extensions import Buffer


async def connect(profile: LocalPath | None = None) -> Cloud:
    """Logs in to a cloud; see `sector.connect`."""
    return Cloud(cast(_native.Session, await _native.connect(profile, True)))


class Cloud:
    """A cloud that one is logged in to. An `async with` closes it."""

    def __init__(self, session: _native.Session) -> None:
        self._session = session

    @property
    def user(self) -> str:
        """Who is logged in."""
        return self._session.user

    @property
    def address(self) -> str:
        """The master's address, `IP:PORT`."""
        return self._session.address

    def open(
        self,
        path: CloudPath,
        mode: str = "rb",
        *,
        records: str | None = None,
        copies: int | None = None,
        wait: Wait = False,
    ) -> Opening:
        """Opens a file of bytes: to `await`, or for an `async with`. See `sector.Cloud.open`."""
        how = Mode(mode)
        if how.is_text:
            raise ValueError(f"files of `sector.aio` are of bytes: open `{path}` with {mode + 'b'!r}")
        if how.verb == "r":
            return Opening(self._open_reader(_path(path)))
        return Opening(self._open_writer(_path(path), how, records, copies, wait_seconds(wait)))

    async def _open_reader(self, path: str) -> Reader:
        return Reader(await self._session.open_reader(path, True))

    async def _open_writer(
        self, path: str, how: Mode, records: str | None, copies: int | None, wait: float | None
    ) -> Writer:
        native = await self._session.open_writer(
            path,
            records=records,
            copies=copies,
            only_new=how.verb == "x",
            append=how.verb == "a",
            wait=wait,
            awaited=True,
        )
        return Writer(native, path)

    async def read_bytes(self, path: CloudPath) -> bytes:
        """All bytes of a file."""
        async with self.open(path) as file:
            return await cast(Reader, file).read()

    async def write_bytes(self, path: CloudPath, content: bytes, **how: Any) -> _native.Entry:
        """Makes or replaces a file."""
        async with self.open(path, "wb", **how) as file:
            await cast(Writer, file).write(content)
        return cast(_native.Entry, cast(Writer, file).entry)

    async def ls(self, path: CloudPath = "/") -> list[_native.Entry]:
        """The entries of a folder, by name; a file gives itself."""
        return cast("list[_native.Entry]", await self._session.entries(_path(path), False, True))

    async def find(self, path: CloudPath) -> _native.Entry | None:
        """What is at a path; `None` where nothing is."""
        return cast("_native.Entry | None", await self._session.find(_path(path), True))

    async def stat(self, path: CloudPath) -> _native.Entry:
        """What is at a path, with its copies."""
        return cast(_native.Entry, await self._session.stat(_path(path), True))

    async def exists(self, path: CloudPath) -> bool:
        """Whether a file or folder is there that one may see."""
        return await self.find(path) is not None

    async def mkdir(self, path: CloudPath, parents: bool = False) -> None:
        """Makes a folder; with `parents` also those above it, and then one that is there is no error."""
        await self._session.make_folder(_path(path), parents, True)

    async def remove(self, path: CloudPath, recursive: bool = False, now: bool = False) -> None:
        """Removes a file or an empty folder, with `recursive` also what a folder holds; with `now` past the trash."""
        await self._session.remove(_path(path), recursive, now, True)

    async def rename(self, source: CloudPath, target: CloudPath) -> None:
        """Renames a file or folder in one step; a file replaces a file."""
        await self._session.rename(_path(source), _path(target), True)

    async def copy(self, source: CloudPath, target: CloudPath, *, wait: Wait = False) -> _native.Entry:
        """Copies a file from node to node: no byte passes through here."""
        copied = self._session.copy(_path(source), _path(target), wait_seconds(wait), True)
        return cast(_native.Entry, await copied)

    async def glob(self, pattern: str) -> list[str]:
        """The paths that a pattern names, in order; none where nothing matches."""
        return cast("list[str]", await self._session.glob(pattern, True))

    async def walk(self, path: CloudPath = "/") -> AsyncIterator[tuple[str, list[str], list[str]]]:
        """For a folder and each below it: its path, the names of its folders, the names of its files."""
        entries = await self.ls(path)
        folders = [entry.name for entry in entries if entry.is_folder]
        yield _path(path), folders, [entry.name for entry in entries if entry.is_file]
        for name in folders:
            async for below in self.walk(join(_path(path), name)):
                yield below

    async def put(
        self,
        local: LocalPath,
        path: CloudPath,
        *,
        records: str | None = None,
        copies: int | None = None,
        wait: Wait = False,
    ) -> _native.Entry:
        """Uploads one local file."""
        put = self._session.put(
            os.fspath(local),
            _path(path),
            records=records,
            copies=copies,
            only_new=False,
            wait=wait_seconds(wait),
            awaited=True,
        )
        return cast(_native.Entry, await put)

    async def get(self, path: CloudPath, local: LocalPath, *, overwrite: bool = True) -> None:
        """Downloads one file, which appears whole and verified."""
        await self._session.get(_path(path), os.fspath(local), overwrite, True)

    async def nodes(self) -> list[Node]:
        """The nodes of the cloud."""
        return [Node(*row) for row in await self._session.nodes(True)]

    async def close(self) -> None:
        """Ends the session; the cloud itself goes on."""
        await self._session.close(True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class Reader:
    """A file at the version it had when it was opened."""

    def __init__(self, native: _native.Reader) -> None:
        self._native = native
        self._at = 0

    @property
    def entry(self) -> _native.Entry:
        """The file as it was when it was opened."""
        return self._native.entry

    async def read(self, length: int = -1) -> bytes:
        """Up to `length` bytes from where the last read ended; with -1 all up to the end."""
        content = await self.read_at(self._at, self._native.size if length < 0 else length)
        self._at += len(content)
        return content

    async def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset` on, fewer where the file ends; some at once may be under way."""
        return cast(bytes, await self._native.read(offset, length, True))

    def tell(self) -> int:
        """Where the next `read` begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Lets the next `read` begin elsewhere."""
        at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._native.size}[whence] + offset
        if at < 0:
            raise ValueError(f"cannot seek to {at}, before the beginning of `{self.entry.path}`")
        self._at = at
        return at

    async def close(self) -> None:
        """Nothing is held that must be given back."""

    async def discard(self) -> None:
        """The same."""


class Writer:
    """A file that appears whole when it is closed, and not at all when an exception leaves the `async with`."""

    def __init__(self, native: _native.Writer, name: str) -> None:
        self._native = native
        self._ended = False
        self.name = name
        self.entry: _native.Entry | None = None
        """The file as it was published; `None` before that."""

    async def write(self, data: Buffer) -> int:
        """Takes all bytes of `data`."""
        with memoryview(data) as view, _as_bytes(view) as content:
            for begin in range(0, len(content), CHUNK_BYTES):
                with content[begin : begin + CHUNK_BYTES] as chunk:
                    await self._native.write(chunk, True)
            return len(content)

    async def close(self) -> None:
        """Publishes the file; see `sector.files.Writer.close`."""
        if not self._ended:
            self._ended = True
            self.entry = await self._native.finish(True)

    async def discard(self) -> None:
        """Gives the file up: nothing of it appears."""
        if not self._ended:
            self._ended = True
            await self._native.discard(True)


class Opening(Awaitable["Reader | Writer"]):
    """A file that is being opened: `await` it, or use it in an `async with`."""

    def __init__(self, opening: Awaitable[Reader] | Awaitable[Writer]) -> None:
        self._opening = opening
        self._file: Reader | Writer | None = None

    def __await__(self) -> Generator[Any, Any, Reader | Writer]:
        return self._opening.__await__()

    async def __aenter__(self) -> Any:
        self._file = await self._opening
        return self._file

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._file is not None
        if kind is None:
            await self._file.close()
        else:
            await self._file.discard()
