"""Terasort in DuckDB: `duckdb_sort.py INPUT OUTPUT TEMPORARY`. Records go in and out as Arrow batches."""

import sys

import duckdb
import numpy as np
import pyarrow as pa
from records import RECORD_BYTES, mapped

BATCH_RECORDS = 100_000


def batches(path: str) -> pa.Table:
    """The file as a table of one column, without a copy."""
    records = mapped(path)
    whole = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(RECORD_BYTES), len(records), [None, pa.py_buffer(records.reshape(-1))]
    )
    parts = [whole.slice(first, BATCH_RECORDS) for first in range(0, len(records), BATCH_RECORDS)]
    return pa.table({"record": pa.chunked_array(parts)})


def main(source: str, target: str, temporary: str) -> None:
    """Sort the file."""
    log = batches(source)
    database = duckdb.connect(config={"temp_directory": temporary})
    database.register("log", log)
    found = database.execute("select record from log order by record").to_arrow_reader(1_000_000)
    with open(target, "wb") as out:
        for batch in found:
            _, places, content = batch.column(0).buffers()
            first = batch.column(0).offset
            width = np.int32 if batch.column(0).type == pa.binary() else np.int64
            ends = np.frombuffer(places, width)[[first, first + len(batch)]]
            out.write(memoryview(content)[ends[0] : ends[1]])


main(*sys.argv[1:])
