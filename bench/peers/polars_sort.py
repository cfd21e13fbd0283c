"""Terasort in Polars: `polars_sort.py INPUT OUTPUT`. It sorts keys as numbers, and the records beside them."""

import sys

import numpy as np
import polars as pl
import pyarrow as pa
from records import RECORD_BYTES, keys, mapped

BATCH_RECORDS = 1_000_000


def main(source: str, target: str) -> None:
    """Sort the file."""
    records = mapped(source)
    high, low = keys(records)
    bodies = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(RECORD_BYTES), len(records), [None, pa.py_buffer(records.reshape(-1))]
    )
    frame = pl.DataFrame({"high": high, "low": low, "record": pl.from_arrow(bodies)})
    ordered = frame.sort("high", "low").get_column("record")
    with open(target, "wb") as out:
        for first in range(0, len(ordered), BATCH_RECORDS):
            part = ordered.slice(first, BATCH_RECORDS).to_arrow(compat_level=pl.CompatLevel.oldest())
            ends = np.frombuffer(part.buffers()[1], np.int64)[[part.offset, part.offset + len(part)]]
            out.write(memoryview(part.buffers()[2])[ends[0] : ends[1]])


main(*sys.argv[1:])
