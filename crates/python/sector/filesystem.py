"""The cloud as a file system of `fsspec`: paths `sector://folder/file` in pandas, pyarrow, DuckDB, Polars, Dask and all others
that take such. It needs the package `fsspec`.

It adds nothing to what `Cloud` and `sector.aio.Cloud` promise, and hides nothing: there is no cache of listings or bytes.
"""

from __future__ import annotations

import asyncio
import io
import os
import threading
from datetime import datetime
from glob import has_magic
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from fsspec.asyn import AsyncFileSystem
from fsspec.config import apply_config
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import isfilelike

from sector import _native, aio, files
from sector.cloud import Cloud, LocalPath, connect


class _ByProfile(type(AsyncFileSystem)):  # type: ignore[misc]
    """fsspec keeps file systems by their arguments; a profile that says another cloud now is another argument."""

    def __call__(cls, *args: Any, **options: Any) -> Any:
        options = apply_config(cls, options)
        _asked.profile = args[0] if args else options.get("profile")
        return super().__call__(*args, **options)

    @property
    def _what_the_profile_says(cls) -> str | None:
        try:
            file = _native.profile_file(getattr(_asked, "profile", None))
            content = Path(file).read_bytes()
        except (OSError, ValueError):
            # `cloud` says what is the matter.
            return None
        return f"{os.path.abspath(file)} {sha256(content).hexdigest()}"


_asked = threading.local()


class SectorFileSystem(AsyncFileSystem, metaclass=_ByProfile):  # type: ignore[misc]
    """`sector://`: the files and folders of one cloud, as one user sees them.

    `profile` (in `storage_options`) is a profile, by its file or its name; by default the one that `sector.connect` takes.

    Files appear whole when they are closed, those of a transaction (`with fs.transaction:`) at its end, each on its own.
    Missing folders are made. What is removed goes to the trash.
    """

    protocol = "sector"
    root_marker = "/"
    _extra_tokenize_attributes = ("_what_the_profile_says",)

    def __init__(self, profile: LocalPath | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._profile = profile
        self._connecting = threading.Lock()
        self._connected: Cloud | None = None

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        path = os.fspath(path)
        if path.startswith("sector://@"):
            message = (
                "names a cloud: give its profile in `storage_options`, and a name that begins with `@` as `sector:///@`"
            )
            raise ValueError(f"`{path}` {message}")
        return "/" + path.removeprefix("sector://").strip("/")

    @property
    def cloud(self) -> Cloud:
        """The cloud beneath; logs in where nothing has yet."""
        with self._connecting:
            if self._connected is None:
                self._connected = connect(self._profile)
            return self._connected

    async def _aio(self) -> aio.Cloud:
        # Only the first call waits for a login.
        if self._connected is None:
            await asyncio.to_thread(lambda: self.cloud)
        return aio.Cloud(self.cloud._session)

    # Names.

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        cloud = await self._aio()
        return _described(await cloud.stat(self._strip_protocol(path)))

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        cloud = await self._aio()
        entries = await cloud.ls(self._strip_protocol(path))
        return [_described(entry) if detail else entry.path for entry in entries]

    async def _mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        cloud, path = await self._aio(), self._strip_protocol(path)
        if await cloud.exists(path):
            raise FileExistsError(f"`{path}` exists already")
        await cloud.mkdir(path, create_parents)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        cloud, path = await self._aio(), self._strip_protocol(path)
        if not exist_ok and await cloud.exists(path):
            raise FileExistsError(f"`{path}` exists already")
        await cloud.mkdir(path, True)

    async def _rm_file(self, path: str, **_: Any) -> None:
        cloud = await self._aio()
        await cloud.remove(self._strip_protocol(path))

    async def _rm(self, path: Any, recursive: bool = False, batch_size: int | None = None, **_: Any) -> None:
        cloud = await self._aio()
        for each in reversed(await self._expand_path(path)):
            await cloud.remove(self._strip_protocol(each), recursive)

    async def _cp_file(self, path1: str, path2: str, **_: Any) -> None:
        cloud, source, target = await self._aio(), self._strip_protocol(path1), self._strip_protocol(path2)
        try:
            await cloud.copy(source, target)
        except IsADirectoryError:
            if (await cloud.stat(source)).is_file:
                raise
            await cloud.mkdir(target, True)

    async def _mv_file(self, path1: str, path2: str, **_: Any) -> None:
        cloud = await self._aio()
        await cloud.rename(self._strip_protocol(path1), self._strip_protocol(path2))

    # Of several names in a list fsspec keeps the last part of each: two that are alike would become one file.

    async def _get(self, rpath: Any, lpath: Any, recursive: bool = False, **how: Any) -> Any:
        if isinstance(rpath, list):
            is_given = isinstance(lpath, list)
            names = rpath if is_given else await self._expand_path(rpath, recursive, how.get("maxdepth"))
            _refuse_clashes(names, lpath)
        return await super()._get(rpath, lpath, recursive=recursive, **how)

    async def _put(self, lpath: Any, rpath: Any, recursive: bool = False, **how: Any) -> Any:
        if isinstance(lpath, list):
            is_given = isinstance(rpath, list)
            names = lpath if is_given else LocalFileSystem().expand_path(lpath, recursive, how.get("maxdepth"))
            _refuse_clashes(names, rpath)
        return await super()._put(lpath, rpath, recursive=recursive, **how)

    async def _copy(self, path1: Any, path2: Any, recursive: bool = False, **how: Any) -> Any:
        if isinstance(path1, list):
            is_given = isinstance(path2, list)
            names = path1 if is_given else await self._expand_path(path1, recursive, how.get("maxdepth"))
            _refuse_clashes(names, path2)
        return await super()._copy(path1, path2, recursive=recursive, **how)

    # Bytes.

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        cloud = await self._aio()
        return await _range_of(await cloud.open(self._strip_protocol(path)), start, end)

    async def _cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        batch_size: int | None = None,
        on_error: str = "return",
        **_: Any,
    ) -> list[Any]:
        """Ranges of files, many at once; each file is opened once."""
        cloud = await self._aio()
        starts, ends = (each if isinstance(each, list) else [each] * len(paths) for each in (starts, ends))
        opening = {path: asyncio.ensure_future(_opened(cloud, self._strip_protocol(path))) for path in set(paths)}

        async def one(path: str, start: int | None, end: int | None) -> bytes:
            return await _range_of(await opening[path], start, end)

        ranges = [one(*each) for each in zip(paths, starts, ends, strict=True)]
        return await asyncio.gather(*ranges, return_exceptions=on_error == "return")

    async def _pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        cloud = await self._aio()
        async with cloud.open(self._strip_protocol(path), "xb" if mode == "create" else "wb") as file:
            await file.write(value)

    async def _put_file(self, lpath: str, rpath: str, callback: Any = None, mode: str = "overwrite", **_: Any) -> None:
        cloud, target = await self._aio(), self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            await cloud.mkdir(target, True)
            return
        only_new = mode == "create"
        put = cloud._session.put(lpath, target, records=None, copies=None, only_new=only_new, wait=None, awaited=True)
        _tell(callback, (await put).size_bytes)

    async def _get_file(self, rpath: str, lpath: Any, callback: Any = None, **_: Any) -> None:
        cloud, source = await self._aio(), self._strip_protocol(rpath)
        if isfilelike(lpath):
            lpath.write(await cloud.read_bytes(source))
            return
        try:
            await cloud.get(source, lpath)
            _tell(callback, os.path.getsize(lpath))
        except IsADirectoryError:
            os.makedirs(lpath, exist_ok=True)
        except FileNotFoundError:
            # Either there, or the folder here.
            folder = os.path.dirname(lpath)
            if os.path.isdir(folder or "."):
                raise
            os.makedirs(folder, exist_ok=True)
            await self._get_file(rpath, lpath, callback)

    def open(self, path: str, mode: str = "rb", block_size: int | None = None, **how: Any) -> Any:
        """As `Cloud.open`; text that is written is given up too when an exception leaves the `with`."""
        if "b" in mode or "r" in mode or how.get("compression"):
            return super().open(path, mode, block_size, **how)
        text = {each: how.pop(each) for each in ("encoding", "errors", "newline") if each in how}
        return files.TextWriter(super().open(path, mode.replace("t", "") + "b", block_size, **how), **text)

    def _open(
        self, path: str, mode: str = "rb", block_size: int | None = None, autocommit: bool = True, **_: Any
    ) -> Any:
        how = files.Mode(mode)
        opened = self.cloud.open(path, mode, buffering=block_size or -1)
        if how.verb == "r" or autocommit:
            return opened
        return _Uncommitted(cast(files.Writer, opened))

    async def open_async(self, path: str, mode: str = "rb", **_: Any) -> Any:
        """A file of `sector.aio`."""
        cloud = await self._aio()
        return await cloud.open(self._strip_protocol(path), mode)

    # What is the same and what is not.

    def ukey(self, path: str) -> str:
        """Changes with a file's content."""
        return str(self.info(path)["digest"])

    def checksum(self, path: str) -> int:
        """The same, as a number."""
        return int(self.ukey(path), 16)

    def modified(self, path: str) -> datetime:
        """When the content was changed last, in UTC."""
        return cast(datetime, self.info(path)["mtime"])

    def rmdir(self, path: str) -> None:
        """Removes an empty folder."""
        path = self._strip_protocol(path)
        if self.cloud.is_file(path):
            raise NotADirectoryError(f"`{path}` is a file, not a folder")
        self.cloud.remove(path)

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **how: Any) -> None:
        """Renames where that is what is meant, in one step; else copies and removes."""
        is_plain = isinstance(path1, str) and isinstance(path2, str) and maxdepth is None
        if is_plain and not has_magic(path1) and not path2.endswith("/") and not self.isdir(path2):
            self.cloud.rename(self._strip_protocol(path1), self._strip_protocol(path2))
        else:
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **how)


class _Uncommitted(io.BufferedIOBase):
    """A file of a transaction: closing it does not publish it."""

    def __init__(self, writer: files.Writer) -> None:
        self._writer = writer
        self.name = writer.name

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        return self._writer.write(data)

    def tell(self) -> int:
        return self._writer.tell()

    def commit(self) -> None:
        """Publishes the file."""
        self._writer.close()

    def discard(self) -> None:
        """Gives the file up."""
        self._writer.discard()


async def _opened(cloud: aio.Cloud, path: str) -> aio.Reader:
    return cast(aio.Reader, await cloud.open(path))


def _refuse_clashes(names: list[Any], target: Any) -> None:
    """Refuses several files that would become one, before anything is done."""
    if isinstance(target, list):
        places = [str(each) for each in target]
    else:
        places = [str(name).rstrip("/").rsplit("/", 1)[-1] for name in names]
    seen: dict[str, Any] = {}
    for name, place in zip(names, places, strict=False):
        if seen.setdefault(place, name) != name:
            raise ValueError(f"`{seen[place]}` and `{name}` would both become `{place}`: nothing was done")


async def _range_of(file: Any, start: int | None, end: int | None) -> bytes:
    """The bytes of a slice, with Python's meaning of negative and missing bounds."""
    begin, stop, _ = slice(start, end).indices(file.entry.size_bytes)
    return cast(bytes, await file.read_at(begin, max(0, stop - begin)))


def _described(entry: _native.Entry) -> dict[str, Any]:
    return {
        "name": entry.path,
        "size": entry.size_bytes,
        "type": "file" if entry.is_file else "directory",
        "mtime": entry.modified,
        "owner": entry.owner,
        "version": entry.version,
        "digest": entry.digest,
    }


def _tell(callback: Any, size_bytes: int) -> None:
    """A file has arrived."""
    if callback is not None:
        callback.set_size(size_bytes)
        callback.relative_update(size_bytes)
