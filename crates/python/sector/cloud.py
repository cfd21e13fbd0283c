"""A cloud: its names and its files.

Paths are texts (or `pathlib.PurePosixPath`) that begin with `/`. Every call waits until it is done, lets other threads run
meanwhile, and is ended by Ctrl-C. A `Cloud` may be used by several threads at once; in a child made by `fork` it logs in
anew by itself.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, Self, cast, overload

from sector import _native, files
from sector.events import Event, each
from sector.jobs import Job, Stream, status_of
from sector.management import (
    Acl,
    CheckedCopy,
    FileVersion,
    Link,
    Mark,
    Policies,
    Policy,
    Quota,
    TrashItem,
    changed,
    list_of,
)

if TYPE_CHECKING:
    import pyarrow

CloudPath = str | PurePosixPath
"""A path in the cloud."""

LocalPath = str | os.PathLike[str]
"""A path on this machine."""


class SyncAction(NamedTuple):
    """One step by which `Cloud.sync` makes a folder equal to another."""

    action: str
    """`make-folder`, `new`, `changed`, `remove` or `remove-folder`."""
    path: Path
    """Below both folders."""
    bytes: int


class Node(NamedTuple):
    """A node of the cloud."""

    id: str
    site: str
    rack: str
    state: str
    """`up`, or what is the matter."""
    used_bytes: int
    free_bytes: int


def connect(profile: LocalPath | None = None) -> Cloud:
    """Logs in to a cloud.

    `profile` is the file that `sector up` or `sector login` wrote, or a name of `sector profile list`; by default
    `$SECTOR_PROFILE`, else the profile in use, in `$SECTOR_HOME` (`~/.sector`).

    Raises `FileNotFoundError` where there is no such profile, `UnavailableError` where the master does not answer,
    `PermissionError` where it does not let the profile's user in.
    """
    file = os.path.abspath(_native.profile_file(None if profile is None else os.fspath(profile)))
    return Cloud(cast(_native.Session, _native.connect(file, False)), file)


class Cloud:
    """A cloud that one is logged in to; made by `connect` and `up`. A `with` closes it.

    It may be pickled. What travels is the path of the profile, never what is in it: who unpickles it logs in with the
    profile that is there.
    """

    def __init__(self, session: _native.Session, profile: str) -> None:
        self._session = session
        self._profile = profile

    def __reduce__(self) -> tuple[Any, ...]:
        return connect, (self._profile,)

    @property
    def user(self) -> str:
        """Who is logged in."""
        return self._session.user

    @property
    def address(self) -> str:
        """The master's address, `IP:PORT`."""
        return self._session.address

    @overload
    def open(
        self,
        path: CloudPath,
        mode: Literal["rb", "wb", "xb", "ab", "br", "bw", "bx", "ba"],
        *,
        buffering: int = -1,
        records: str | None = None,
        copies: int | None = None,
        wait: files.Wait = False,
    ) -> IO[bytes]: ...

    @overload
    def open(
        self,
        path: CloudPath,
        mode: Literal["r", "w", "x", "a", "rt", "wt", "xt", "at"] = "r",
        *,
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        records: str | None = None,
        copies: int | None = None,
        wait: files.Wait = False,
    ) -> IO[str]: ...

    @overload
    def open(
        self,
        path: CloudPath,
        mode: str,
        *,
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        records: str | None = None,
        copies: int | None = None,
        wait: files.Wait = False,
    ) -> IO[Any]: ...

    def open(
        self,
        path: CloudPath,
        mode: str = "r",
        *,
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        records: str | None = None,
        copies: int | None = None,
        wait: files.Wait = False,
    ) -> IO[Any]:
        """Opens a file as Python's `open` does.

        `r` reads, at any place, the version that is there now, whatever happens to the path meanwhile. `w` writes, `x`
        writes where nothing is yet, `a` writes behind what is there; missing folders are made. What is written appears
        whole when the file is closed, and not at all when an exception leaves the `with`. With `b` bytes; else text, in
        UTF-8 where `encoding` says nothing.

        `buffering` is the number of bytes a reader asks for at once (0: none are kept). `records` says how a written file
        falls into records for Sphere (`lines`, `fixed:N`, `index`, `parquet`, `file`), `copies` how many copies the cloud
        keeps of it.

        Where someone else is writing the file, a writer raises `BusyError` as soon as it sends something, at the latest at
        its end. With `wait` it waits there until that has ended: as long as it takes, or at most so many seconds.

        Raises `FileNotFoundError`, `IsADirectoryError`, `FileExistsError` (`x`), `PermissionError`, `UnavailableError`.
        """
        how = files.Mode(mode)
        if not how.is_text and (encoding, errors, newline) != (None, None, None):
            raise ValueError("encoding, errors and newline are for text; leave out the b of the mode")
        text = files.Text(encoding=encoding or "utf-8", errors=errors, newline=newline)
        if how.verb == "r":
            opened = cast(_native.Reader, self._session.open_reader(_path(path), False))
            return files.reader(opened, how, buffering, text)
        begun = self._session.open_writer(
            _path(path),
            records=records,
            copies=copies,
            only_new=how.verb == "x",
            append=how.verb == "a",
            wait=files.wait_seconds(wait),
            awaited=False,
        )
        return files.writer(cast(_native.Writer, begun), _path(path), how, text)

    def read_bytes(self, path: CloudPath) -> bytes:
        """All bytes of a file."""
        with cast(files.RawReader, self.open(path, "rb", buffering=0)) as file:
            return file.readall()

    def write_bytes(self, path: CloudPath, content: bytes, **how: Any) -> _native.Entry:
        """Makes or replaces a file. `how` is as for `open`."""
        with cast(files.Writer, self.open(path, "wb", **how)) as file:
            file.write(content)
        return cast(_native.Entry, file.entry)

    def ls(self, path: CloudPath = "/") -> list[_native.Entry]:
        """The entries of a folder, by name; a file gives itself. Raises `FileNotFoundError`."""
        return cast("list[_native.Entry]", self._session.entries(_path(path), False, False))

    def stat(self, path: CloudPath) -> _native.Entry:
        """What is at a path, with its copies. Raises `FileNotFoundError`."""
        return cast(_native.Entry, self._session.stat(_path(path), False))

    def exists(self, path: CloudPath) -> bool:
        """Whether a file or folder is there that one may see."""
        return self._session.find(_path(path), False) is not None

    def is_file(self, path: CloudPath) -> bool:
        """Whether a file is there."""
        found = cast("_native.Entry | None", self._session.find(_path(path), False))
        return found is not None and found.is_file

    def is_folder(self, path: CloudPath) -> bool:
        """Whether a folder is there."""
        found = cast("_native.Entry | None", self._session.find(_path(path), False))
        return found is not None and found.is_folder

    def mkdir(self, path: CloudPath, parents: bool = False) -> None:
        """Makes a folder; with `parents` also those above it, and then one that is there is no error.

        Raises `FileExistsError`, `FileNotFoundError` (the folder above), `NotADirectoryError`.
        """
        self._session.make_folder(_path(path), parents, False)

    def remove(self, path: CloudPath, recursive: bool = False, now: bool = False) -> None:
        """Removes a file or an empty folder, with `recursive` also what a folder holds. It goes to the trash for a week;
        with `now` for good. Raises `FileNotFoundError`, and `OSError` (`ENOTEMPTY`) for a folder that is not empty."""
        self._session.remove(_path(path), recursive, now, False)

    def rename(self, source: CloudPath, target: CloudPath) -> None:
        """Renames a file or folder in one step; a file replaces a file. Raises `FileNotFoundError`, `FileExistsError`."""
        self._session.rename(_path(source), _path(target), False)

    def copy(self, source: CloudPath, target: CloudPath, *, wait: files.Wait = False) -> _native.Entry:
        """Copies a file from node to node: no byte passes through here. Gives the new file. `wait` is as for `open`."""
        copied = self._session.copy(_path(source), _path(target), files.wait_seconds(wait), False)
        return cast(_native.Entry, copied)

    def glob(self, pattern: str) -> list[str]:
        """The paths that a pattern names (`*`, `**`, `?`, `[a-z]`, `{a,b}`), in order; none where nothing matches."""
        return cast("list[str]", self._session.glob(pattern, False))

    def walk(self, path: CloudPath = "/") -> Iterator[tuple[str, list[str], list[str]]]:
        """For a folder and each below it: its path, the names of its folders, the names of its files.

        As `os.walk`: from the top, and folders taken out of the list are not entered.
        """
        entries = self.ls(path)
        folders = [entry.name for entry in entries if entry.is_folder]
        yield _path(path), folders, [entry.name for entry in entries if entry.is_file]
        for name in folders:
            yield from self.walk(join(_path(path), name))

    def put(
        self,
        local: LocalPath,
        path: CloudPath,
        *,
        recursive: bool = False,
        follow: bool = False,
        records: str | None = None,
        copies: int | None = None,
        wait: files.Wait = False,
    ) -> list[_native.Entry]:
        """Uploads a local file to `path`, or with `recursive` what a folder holds. Gives the files in the cloud.

        A file that is there with the same bytes is not sent again. An upload that breaks off is tried again, and goes on
        where it was, also in a later call. A file that fails holds up no other: the first error is raised at the end, and
        its notes say which others failed. What is no ordinary file is left out, with a warning; with `follow`, what links
        point at goes in their place. Empty folders are made. `wait` is as for `open`, for each file.
        """
        entries, left_out = cast(
            "tuple[list[_native.Entry], list[Path]]",
            self._session.upload(
                os.fspath(local),
                _path(path),
                recursive=recursive,
                follow=follow,
                records=records,
                copies=copies,
                wait=files.wait_seconds(wait),
                awaited=False,
            ),
        )
        _warn_of(left_out)
        return entries

    def get(self, path: CloudPath, local: LocalPath, *, recursive: bool = False, overwrite: bool = True) -> list[Path]:
        """Downloads a file to `local`, or with `recursive` a folder's files to below it. Gives the local files.

        Each appears whole, and verified. One that has the same bytes already is not fetched again. Where one with other
        bytes is there and `overwrite` is false, it stays, and `FileExistsError` is raised at the end.
        """
        files = self._session.download(_path(path), os.fspath(local), recursive, overwrite, False)
        return [Path(file) for file in cast("list[Path]", files)]

    def sync(
        self,
        source: LocalPath,
        target: LocalPath,
        *,
        to: Cloud | None = None,
        delete: bool = False,
        dry_run: bool = False,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        checksum: bool = False,
        force: bool = False,
    ) -> list[SyncAction]:
        """Makes the folder `target` equal to the folder `source`. Gives what was done, or with `dry_run` what would be.

        `sector://PATH` is a folder of the cloud, and anything else one of this machine; one of them is in the cloud. With
        `to`, both are folders of clouds, and `target` lies in that one: `a.sync("sector://x", "sector://x", to=b)`. A file
        is left as it is where length and time, or length and digest, are alike; with `checksum` the digests must be. With
        `delete`, what `source` lacks is removed from `target` when everything else went well; in the cloud it goes to the
        trash. Files that `exclude` matches, or none of `include` does, neither go nor are removed.

        Raises the first error at the end, as `put` does. Raises `ValueError` for a bad glob, for folders of which one lies in
        the other, and where `source` has no file and `delete` would remove all: `force` does it all the same.
        """
        actions, left_out = cast(
            "tuple[list[tuple[str, Path, int]], list[Path]]",
            self._session.sync(
                os.fspath(source),
                os.fspath(target),
                other=None if to is None else to._session,
                delete=delete,
                dry_run=dry_run,
                include=list(include),
                exclude=list(exclude),
                checksum=checksum,
                force=force,
                awaited=False,
            ),
        )
        _warn_of(left_out)
        return [SyncAction(action, Path(path), size) for action, path, size in actions]

    def stream(
        self,
        *patterns: CloudPath,
        records: str | None = None,
        segment_bytes: tuple[int, int] | None = None,
    ) -> Stream:
        """The files that paths, folders and globs name, for a job; see `sector.jobs`.

        `records` says how they fall into records (`lines`, `fixed:N`, `file`) where they do not say so themselves,
        `segment_bytes` how small and large segments may be (8 MiB and 128 MiB).
        """
        return Stream(self._session, tuple(_path(each) for each in patterns), records, segment_bytes)

    def index(self, *patterns: CloudPath, records: str = "lines", begins: str | None = None) -> list[str]:
        """Makes the index (`FILE.idx`) of each file that paths, folders and globs name, by a job, and gives the indexes' paths.

        Streams with `records="index"` are then cut by it (`docs/records.md`). `records` is `lines` or `fixed:N`; with `begins`
        a record begins with each line that begins with this text. An index that is there is replaced. Raises `ValueError`
        for other records, `FileNotFoundError` where nothing is named.
        """
        return cast("list[str]", self._session.index([_path(each) for each in patterns], records, begins, False))

    def jobs(self, *, user: str | None = None, state: str | None = None) -> list[_native.JobStatus]:
        """All jobs that the master knows of, newest first; or those of a `user`, or in a `state`.

        Raises `ValueError` for a state that a job cannot be in.
        """
        return status_of(self._session, user, state)

    def job(self, job: str, folder: CloudPath | None = None) -> Job:
        """A job by its id, whoever started it: its status, and to wait for it or cancel it.

        `outputs` needs the `folder` that the job writes to, which the cloud does not keep. Raises `FileNotFoundError` where
        the master knows no such job (any more), `ValueError` where it is no id.
        """
        return Job.started_elsewhere(self._session, job, None if folder is None else _path(folder))

    def acl(self, path: CloudPath) -> Acl:
        """Whose a file or folder is, and who may do what with it."""
        return Acl.of(_native.acl(self._session, _path(path)))

    def set_acl(self, path: CloudPath, rights: Mapping[str, str] | None, *, unknown: bool = False) -> Acl:
        """Gives a file or folder an access list of its own, in place of that before; with `None` it has that of its folders.

        `add_acl` adds to what holds. Raises `PermissionError`, `ValueError` for what is no list, and for administrators
        `FileNotFoundError` for a user or group that the cloud does not know: with `unknown` it is taken, as for one of a
        directory that has not been here yet.
        """
        text = None if rights is None else list_of(dict(rights))
        return Acl.of(_native.set_acl(self._session, _path(path), text, unknown, False))

    def add_acl(self, path: CloudPath, rights: Mapping[str, str], *, unknown: bool = False) -> Acl:
        """Grants rights besides those that hold for a file or folder: `cloud.add_acl("/sdss", {"user:bob": "r"})`.

        Nobody loses one, also where others add at the same time. Raises as `set_acl` does.
        """
        return Acl.of(_native.set_acl(self._session, _path(path), list_of(dict(rights)), unknown, True))

    def policy(self, path: CloudPath) -> Policies:
        """What is wanted of a file or a folder: copies, sites, a lifetime, a quota."""
        own, effective, _ = _native.policy(self._session, _path(path))
        return Policies(Policy.of(own), Policy.of(effective))

    def set_policy(self, path: CloudPath, **changes: Any) -> Policies:
        """Changes what is wanted, by the names that `Policy` has. `None` leaves it to the folders above.

        What cannot be fulfilled now is a warning. Raises `ValueError` for what no policy has.
        """
        wanted = changed(self.policy(path).own, changes)
        own, effective, warned = _native.set_policy(self._session, _path(path), wanted)
        for warning in warned:
            warnings.warn(warning, stacklevel=2)
        return Policies(Policy.of(own), Policy.of(effective))

    def quotas(self) -> list[Quota]:
        """How much users and folders keep and may keep; of all for administrators, else one's own."""
        return [Quota(*row) for row in _native.quotas(self._session)]

    def set_quota(self, user: str, *, max_bytes: int | None, max_files: int | None, unknown: bool = False) -> None:
        """Sets how much a user may keep; `None`: no limit. For administrators. That of a folder is in its policy.

        Raises `FileNotFoundError` for a user whom the cloud does not know, unless `unknown` is set.
        """
        _native.set_quota(self._session, user, max_bytes, max_files, unknown)

    def trash(self, all_users: bool = False) -> list[TrashItem]:
        """What was removed and can be restored, oldest first; of all users for administrators only."""
        return [TrashItem.of(row) for row in _native.trash(self._session, all_users)]

    def versions(self, path: CloudPath) -> list[FileVersion]:
        """The contents that were replaced at a path and can be had back, oldest first: one's own, and for administrators
        all. `cloud.copy(version.at, path)` brings one back, and what it replaces becomes one of them. Raises
        `FileNotFoundError`."""
        return [FileVersion.of(row) for row in _native.versions(self._session, _path(path))]

    def restore(self, path: CloudPath, to: CloudPath | None = None) -> _native.Entry:
        """Restores what was at a path, of several the newest, to there or to `to`. Raises `FileExistsError`."""
        return _native.restore(self._session, _path(path), None if to is None else _path(to))

    def empty_trash(self, all_users: bool = False) -> None:
        """Removes for good what could be restored; of all users for administrators only."""
        _native.empty_trash(self._session, all_users)

    def check(self, path: CloudPath) -> list[CheckedCopy]:
        """Has every copy of a file read and compared with its digest, where it lies. It repairs nothing; the master does."""
        return [CheckedCopy(*row) for row in _native.check(self._session, _path(path))]

    def nodes(self) -> list[Node]:
        """The nodes of the cloud."""
        return [Node(*row) for row in self._session.nodes(False)]

    def links(self, seconds_ago: int = 0) -> list[Link]:
        """What goes over the links between sites, or went so long ago, each direction by itself, as nodes have measured
        it while they moved files. A day is kept. Raises `ValueError` for what is longer ago."""
        return [Link(*row) for row in _native.links(self._session, seconds_ago)]

    def marks(self) -> list[Mark]:
        """What is marked as slow and used less, and what administrators have decided about it."""
        return [Mark.of(row) for row in _native.marks(self._session)]

    def add_mark(self, kind: str, *names: str, reason: str = "") -> None:
        """Marks a `node`, a `disk` (its node and folder) or a `link` (two sites) as slow, until that is cleared.

        For administrators, as the other two. Raises `FileNotFoundError` for what the cloud does not have.
        """
        _native.change_mark(self._session, "add", [kind, *names], reason)

    def ignore_mark(self, kind: str, *names: str, reason: str = "") -> None:
        """Has it used like any other, whatever is measured, until that is cleared."""
        _native.change_mark(self._session, "ignore", [kind, *names], reason)

    def clear_mark(self, kind: str, *names: str) -> None:
        """Takes away a mark, and what was decided about it. It may be measured again. Raises `FileNotFoundError`."""
        _native.change_mark(self._session, "clear", [kind, *names], "")

    def events(
        self,
        *,
        since: int | datetime | timedelta | None = None,
        kinds: Iterable[str] = (),
        path: CloudPath | None = None,
        follow: bool = False,
    ) -> Iterator[Event]:
        """What happened in the cloud, oldest first, as far as it is kept and the user may hear of it.

        `since` is the number of the last event that was seen, a time, or how long ago. With `follow` the iterator goes on
        with what happens, also when the master was away, for an hour at most; without `since` it begins now. An event of
        the kind `gap` says that events are missing there. `path` may be a glob, and means what is below it too.
        """
        number = since if isinstance(since, int) else None
        if isinstance(since, timedelta):
            since = datetime.now(UTC) - since
        millis = int(since.timestamp() * 1000) if isinstance(since, datetime) else None
        wanted = None if path is None else _path(path)
        return each(_native.events(self._session, (number, millis), list(kinds), wanted, follow, False))

    def sql(self, statement: str, *, folder: CloudPath = "/", memory: int | None = None) -> pyarrow.Table:
        """The rows of a statement over tables and files of this cloud, as `sector.sql.query` gives them.

        `a.b.c` is the table of the folder `/a/b/c`; a quoted path is a table, a file, or a folder of Parquet files.
        """
        from sector import sql

        return sql.query(statement, cloud=self, folder=_path(folder), memory=memory)

    def close(self) -> None:
        """Ends the session; the cloud itself goes on."""
        self._session.close(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.user} at {self.address}>"


def join(folder: str, name: str) -> str:
    """The path of `name` in `folder`."""
    return f"{folder.rstrip('/')}/{name}"


def _warn_of(left_out: list[Path]) -> None:
    for item in left_out:
        warnings.warn(f"`{item}` is left out: it is no ordinary file", stacklevel=3)


def _path(path: CloudPath) -> str:
    return path if isinstance(path, str) else str(path)
