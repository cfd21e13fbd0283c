"""The native half of the package. Private: `sector` is the door.

A call with `awaited=False` waits and gives what is named here; with `awaited=True` it gives an `asyncio` future of that.
Overloads would double the page, so the calls that take it are typed as `Any`, and typed again where they are called.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any, final

class UnavailableError(ConnectionError):
    """Who is needed (master, node, a good copy) cannot be reached or has no room. The same call may succeed later."""

class BusyError(OSError):
    """Another writer has the file, or what should go is in use. The same call may succeed later."""

class CorruptError(OSError):
    """Bytes arrived that are not those that were written. None were given out."""

class JobError(Exception):
    """A job failed: a function did, or it was cancelled. It left no output."""

    job_id: str
    """Its id, for `sector job ID`."""
    errors: list[str]
    """The first few errors of functions."""

@final
class Copy:
    """One copy of a file, on one node."""

    @property
    def node(self) -> str: ...
    @property
    def site(self) -> str: ...
    @property
    def rack(self) -> str: ...
    @property
    def state(self) -> str:
        """`ok`, `writing` (being copied), `stale` (its node is not there now) or `corrupt` (being replaced)."""

@final
class Entry:
    """A file or a folder of the cloud, as it was when it was asked for."""

    @property
    def path(self) -> str: ...
    @property
    def name(self) -> str:
        """The last component of the path; empty for `/`."""
    @property
    def kind(self) -> str:
        """`file` or `folder`."""
    @property
    def is_file(self) -> bool: ...
    @property
    def is_folder(self) -> bool: ...
    @property
    def size_bytes(self) -> int:
        """Length in bytes; 0 for a folder."""
    @property
    def modified(self) -> datetime:
        """When the content was changed last, in UTC."""
    @property
    def modified_unix_millis(self) -> int:
        """The same, in milliseconds since the Unix epoch."""
    @property
    def owner(self) -> str: ...
    @property
    def version(self) -> int | None:
        """Counts the contents that this path has had; `None` for a folder."""
    @property
    def digest(self) -> str | None:
        """BLAKE3 of the bytes, 64 hexadecimal digits; `None` for a folder."""
    @property
    def records(self) -> str | None:
        """How the bytes fall into records: `file`, `lines`, `fixed:N` …; `None` for a folder."""
    @property
    def copies_wanted(self) -> int | None: ...
    @property
    def copies(self) -> list[Copy]:
        """The copies of a file. Only `stat` fills it."""

@final
class Reader:
    @property
    def size(self) -> int: ...
    @property
    def entry(self) -> Entry: ...
    def read(self, offset: int, length: int, awaited: bool) -> Any: ...
    def read_into(self, offset: int, buffer: memoryview) -> None: ...

@final
class Writer:
    def write(self, buffer: memoryview, awaited: bool) -> Any: ...
    def finish(self, awaited: bool) -> Any: ...
    def discard(self, awaited: bool) -> Any: ...

@final
class GmpInstance:
    def __new__(cls, group_file: str | PathLike[str], address: str) -> GmpInstance: ...
    @property
    def address(self) -> str: ...
    def request(self, to: str, body: bytes, seconds: float) -> bytes: ...
    def request_each(self, to: list[str], body: bytes, seconds: float) -> list[tuple[str, bytes | Exception]]: ...
    def notify(self, to: str, body: bytes, seconds: float) -> None: ...
    def receive(self, seconds: float | None) -> GmpMessage | None: ...
    def close(self) -> None: ...

@final
class GmpMessage:
    """What another instance sent."""

    @property
    def body(self) -> bytes:
        """Its bytes, until it is answered."""
    @property
    def sender(self) -> str:
        """Where its sender listens; it can be asked there."""
    @property
    def is_request(self) -> bool:
        """Whether its sender waits for a reply."""
    def reply(self, body: bytes) -> None:
        """Answers a request, once; of a notice, nobody hears it."""

@final
class StageStatus:
    """One stage of a job."""

    @property
    def segments(self) -> int:
        """Segments in all."""
    @property
    def done(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def retried(self) -> int:
        """Attempts begun again after an SPE or a node died."""
    @property
    def speculative(self) -> int:
        """Attempts begun beside another that was slow."""
    @property
    def local(self) -> int:
        """Segments processed where their bytes lie."""
    @property
    def bytes_in(self) -> int: ...
    @property
    def bytes_out(self) -> int: ...
    @property
    def counters(self) -> dict[str, int]:
        """What the functions of the stage have counted, by name: `out.count(name)`."""

@final
class JobStatus:
    """How far a job is, or how it ended."""

    @property
    def id(self) -> str: ...
    @property
    def state(self) -> str:
        """`running`, `done`, `failed`, `cancelled` or `lost`."""
    @property
    def user(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def started(self) -> datetime:
        """When the master admitted it, in UTC."""
    @property
    def started_unix_millis(self) -> int: ...
    @property
    def stages(self) -> list[StageStatus]: ...
    @property
    def errors(self) -> list[str]:
        """The first few errors of functions."""
    @property
    def error_slice(self) -> str | None:
        """The file with all of them, where the job went on without the segments that they are about."""
    @property
    def driver(self) -> str | None:
        """The node that drives it, where it was detached and runs."""

@final
class Job:
    @property
    def id(self) -> str | None: ...
    @property
    def status(self) -> JobStatus | None: ...
    def run(self, told: Callable[[int, int, int], object] | None) -> list[str]: ...
    def detach(self) -> str: ...
    def cancel(self) -> None: ...

@final
class Session:
    @property
    def user(self) -> str: ...
    @property
    def address(self) -> str: ...
    def entries(self, path: str, recursive: bool, awaited: bool) -> Any: ...
    def stat(self, path: str, awaited: bool) -> Any: ...
    def find(self, path: str, awaited: bool) -> Any: ...
    def glob(self, pattern: str, awaited: bool) -> Any: ...
    def make_folder(self, path: str, parents: bool, awaited: bool) -> Any: ...
    def remove(self, path: str, recursive: bool, now: bool, awaited: bool) -> Any: ...
    def rename(self, from_: str, to: str, awaited: bool, /) -> Any: ...
    def copy(self, from_: str, to: str, wait: float | None, awaited: bool, /) -> Any: ...
    def upload(
        self,
        local: str | PathLike[str],
        path: str,
        *,
        recursive: bool,
        follow: bool,
        records: str | None,
        copies: int | None,
        wait: float | None,
        awaited: bool,
    ) -> Any: ...
    def download(
        self, path: str, local: str | PathLike[str], recursive: bool, overwrite: bool, awaited: bool, /
    ) -> Any: ...
    def sync(
        self,
        from_: str,
        to: str,
        *,
        other: Session | None,
        delete: bool,
        dry_run: bool,
        include: list[str],
        exclude: list[str],
        checksum: bool,
        force: bool,
        awaited: bool,
    ) -> Any: ...
    def put(
        self,
        local: str | PathLike[str],
        path: str,
        *,
        records: str | None,
        copies: int | None,
        only_new: bool,
        wait: float | None,
        awaited: bool,
    ) -> Any: ...
    def get(self, path: str, local: str | PathLike[str], overwrite: bool, awaited: bool) -> Any: ...
    def open_reader(self, path: str, awaited: bool) -> Any: ...
    def open_writer(
        self,
        path: str,
        *,
        records: str | None,
        copies: int | None,
        only_new: bool,
        append: bool,
        wait: float | None,
        awaited: bool,
    ) -> Any: ...
    def job(
        self,
        title: str,
        streams: list[list[str]],
        stages: list[
            tuple[
                str,
                str,
                bytes,
                list[tuple[str, str | None]],
                list[tuple[str, str]],
                int | None,
                str,
                list[tuple[str, str]],
                list[str],
            ]
        ],
        output: str,
        *,
        records: str | None,
        segment_bytes: tuple[int, int] | None,
        max_errors: int,
        copies: int | None,
        environment: tuple[str, str] | None,
    ) -> Job: ...
    def index(self, patterns: list[str], records: str, begins: str | None, awaited: bool) -> Any: ...
    def jobs(self, awaited: bool) -> Any: ...
    def nodes(self, awaited: bool) -> Any: ...
    def close(self, awaited: bool) -> Any: ...

@final
class Events:
    """A stream of events, each as JSON."""

    def next(self, awaited: bool) -> Any: ...

def events(
    session: Session,
    place: tuple[int | None, int | None],
    kinds: list[str],
    path: str | None,
    follow: bool,
    awaited: bool,
    /,
) -> Any: ...
def connect(profile: str | PathLike[str] | None, awaited: bool) -> Any: ...
def profile_file(chosen: str | PathLike[str] | None = None) -> Path: ...

# Each row is named in `sector.management`.
PolicyRow = tuple[
    int | None, int | None, Sequence[str], Sequence[str], int | None, bool | None, int | None, int | None, int | None
]
VersionRow = tuple[str, int, int, str, int, str, int]
MarkRow = tuple[str, list[str], str, str | None, str, int, int | None]
LinkRow = tuple[str, str, float | None, int | None, float | None, int | None, int | None]

def job_status(session: Session, job: str) -> JobStatus: ...
def cancel_job(session: Session, job: str) -> None: ...
def find_jobs(session: Session, user: str | None, state: str | None) -> list[JobStatus]: ...
def job_logs(session: Session, job: str) -> tuple[list[tuple[int, int | None, int, int, str, bool, str, int]], int]: ...
def acl(session: Session, path: str) -> tuple[str, str, bool, str | None, str]: ...
def set_acl(
    session: Session, path: str, acl: str | None, unknown: bool, adds: bool
) -> tuple[str, str, bool, str | None, str]: ...
def policy(session: Session, path: str) -> tuple[PolicyRow, PolicyRow, list[str]]: ...
def set_policy(session: Session, path: str, row: PolicyRow) -> tuple[PolicyRow, PolicyRow, list[str]]: ...
def quotas(session: Session) -> list[tuple[str | None, str | None, int, int, int | None, int | None]]: ...
def set_quota(session: Session, user: str, max_bytes: int | None, max_files: int | None, unknown: bool, /) -> None: ...
def trash(session: Session, all_users: bool) -> list[tuple[str, str, str, int, int | None]]: ...
def versions(session: Session, path: str) -> list[VersionRow]: ...
def links(session: Session, seconds_ago: int) -> list[LinkRow]: ...
def marks(session: Session) -> list[MarkRow]: ...
def change_mark(session: Session, change: str, words: list[str], reason: str) -> None: ...
def restore(session: Session, path: str, to: str | None) -> Entry: ...
def empty_trash(session: Session, all_users: bool) -> None: ...
def check(session: Session, path: str) -> list[tuple[str | None, str, str]]: ...
def make_group(file: str | PathLike[str], name: str) -> None:
    """Makes a group's key in a new file that only you can read. Its name is for people."""
