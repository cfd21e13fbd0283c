"""Terasort in Dask: `dask_sort.py INPUT OUTPUT TEMPORARY`. A process a core sorts a data frame of keys and records."""

import os
import sys
from pathlib import Path

import dask
import dask.dataframe as dd
import pandas as pd
import pyarrow as pa
from distributed import Client, LocalCluster
from records import RECORD_BYTES, keys, read

PART_RECORDS = 500_000


def frame(path: str, first: int, count: int) -> pd.DataFrame:
    """Some records: their keys as numbers, and all their bytes."""
    records = read(path, first, count)
    high, low = keys(records)
    bodies = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(RECORD_BYTES), len(records), [None, pa.py_buffer(records.reshape(-1))]
    )
    column = pd.Series(bodies.cast(pa.large_binary()), dtype=pd.ArrowDtype(pa.large_binary()))
    return pd.DataFrame({"high": high, "low": low, "record": column})


def write(part: pd.DataFrame, folder: str, number: int) -> int:
    """Writes a part that is sorted."""
    with open(Path(folder) / f"part-{number:05}", "wb") as out:
        out.write(b"".join(part["record"].array.__arrow_array__().to_pylist()))
    return len(part)


def main(source: str, target: str, temporary: str) -> None:
    """Sort the file into a folder of parts."""
    Path(target).mkdir()
    total = os.path.getsize(source) // RECORD_BYTES
    firsts = list(range(0, total, PART_RECORDS))
    counts = [min(PART_RECORDS, total - first) for first in firsts]
    dask.config.set({"temporary-directory": temporary, "dataframe.convert-string": False})
    cluster = LocalCluster(n_workers=os.cpu_count(), threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster):
        records = dd.from_map(frame, [source] * len(firsts), firsts, counts, meta=frame(source, 0, 1))
        parts = records.sort_values(["high", "low"]).to_delayed()
        written = [dask.delayed(write)(part, target, number) for number, part in enumerate(parts)]
        assert sum(dask.compute(*written)) == total


if __name__ == "__main__":
    main(*sys.argv[1:])
