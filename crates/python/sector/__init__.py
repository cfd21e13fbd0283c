"""Sector/Sphere: a storage cloud for large files and a compute cloud that runs your function where they lie.

    import sector

    cloud = sector.connect()                     # where `sector up` or `sector login` left a profile
    with sector.up(nodes=4) as cloud:            # or a cloud of your own on this machine
        with cloud.open("/text/a.txt", "wb") as file:
            file.write(b"measured: 42\\n")
        for entry in cloud.ls("/text"):
            print(entry.path, entry.size_bytes)

`sector.aio` is the same for `asyncio`. By fsspec, `sector://` paths work in pandas, pyarrow, DuckDB, Polars and Dask.
Errors are Python's own (`FileNotFoundError`, `PermissionError` …), and `UnavailableError`, `BusyError`, `CorruptError`.
"""

from sector._native import BusyError, Copy, CorruptError, Entry, JobError, JobStatus, StageStatus, UnavailableError
from sector.cloud import Cloud, Node, SyncAction, connect
from sector.jobs import Job, Stream
from sector.local import LocalCloud, up

__all__ = [
    "BusyError",
    "Cloud",
    "Copy",
    "CorruptError",
    "Entry",
    "Job",
    "JobError",
    "JobStatus",
    "LocalCloud",
    "Node",
    "StageStatus",
    "Stream",
    "SyncAction",
    "UnavailableError",
    "connect",
    "up",
]
