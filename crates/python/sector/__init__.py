"""Sector/Sphere: a storage cloud for large files and a compute cloud that runs your function where they lie.

    import sector

    cloud = sector.connect()                     # where `sector up` or `sector login` left a profile
    with sector.up(nodes=4) as cloud:            # or a cloud of your own on this machine
        with cloud.open("/text/a.txt", "wb") as file:
            file.write(b"measured: 42\\n")
        for entry in cloud.ls("/text"):
            print(entry.path, entry.size_bytes)

`sector.aio` is the same for `asyncio`, and `sector.gmp` sends messages between services of your own.
By fsspec, `sector://` paths work in pandas, pyarrow, DuckDB, Polars and Dask.
Errors are Python's own (`FileNotFoundError`, `PermissionError` …), and `UnavailableError`, `BusyError`, `CorruptError`.
"""

import importlib
import importlib.metadata
from typing import TYPE_CHECKING

from sector._native import BusyError, Copy, CorruptError, Entry, JobError, JobStatus, StageStatus, UnavailableError
from sector.cloud import Cloud, Node, SyncAction, connect
from sector.events import Event
from sector.jobs import Job, SegmentLog, Stream
from sector.local import LocalCloud, up
from sector.management import Acl, CheckedCopy, FileVersion, Link, Mark, Policies, Policy, Quota, TrashItem
from sector.trial import Tested, test

if TYPE_CHECKING:
    from sector import aio, filesystem, gmp

    __version__: str
else:

    def __getattr__(name):
        """What only some need is looked for when it is named: the version, `sector.aio`, `sector.gmp` …."""
        if name == "__version__":
            return importlib.metadata.version("sector-sphere")
        if name in ("aio", "filesystem", "gmp"):
            return importlib.import_module(f"sector.{name}")
        raise AttributeError(f"module 'sector' has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__})


__all__ = [
    "Acl",
    "BusyError",
    "CheckedCopy",
    "Cloud",
    "Copy",
    "CorruptError",
    "Entry",
    "Event",
    "FileVersion",
    "Job",
    "JobError",
    "JobStatus",
    "Link",
    "LocalCloud",
    "Mark",
    "Node",
    "Policies",
    "Policy",
    "Quota",
    "SegmentLog",
    "StageStatus",
    "Stream",
    "SyncAction",
    "Tested",
    "TrashItem",
    "UnavailableError",
    "__version__",
    "aio",
    "connect",
    "filesystem",
    "gmp",
    "test",
    "up",
]
