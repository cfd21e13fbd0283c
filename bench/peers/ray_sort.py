"""Terasort in Ray: `ray_sort.py INPUT OUTPUT`. Two stages of tasks, with NumPy within each.

Records travel through the store in shared memory, as in Ray's own sorts (Exoshuffle).
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import ray
from records import RECORD_BYTES, keys, read, sorted_records

PART_RECORDS = 1_000_000


@ray.remote
def scatter(path: str, first: int, count: int, parts: int) -> list[np.ndarray]:
    """Some records, by the part that their keys belong to."""
    records = read(path, first, count)
    place = ((keys(records)[0] >> np.uint64(32)) * np.uint64(parts)) >> np.uint64(32)
    order = np.argsort(place, kind="stable")
    ends = np.searchsorted(place[order], np.arange(1, parts, dtype=np.uint64))
    return np.split(records[order], ends)


@ray.remote
def gather(target: str, number: int, *pieces: np.ndarray) -> int:
    """Sorts a part and writes it."""
    records = sorted_records(np.concatenate(pieces))
    records.tofile(Path(target) / f"part-{number:05}")
    return len(records)


def main(source: str, target: str, temporary: str) -> None:
    """Sort the file into a folder of parts."""
    Path(target).mkdir()
    total = os.path.getsize(source) // RECORD_BYTES
    parts = max(2, -(-total // PART_RECORDS))
    # The store must hold all records: where it spills, it is slower by much.
    ray.init(
        num_cpus=os.cpu_count(),
        include_dashboard=False,
        object_store_memory=2 * total * RECORD_BYTES + (1 << 29),
        runtime_env={"env_vars": {"PYTHONPATH": str(Path(__file__).parent)}},
        _temp_dir=temporary,
    )
    firsts = range(0, total, PART_RECORDS)
    pieces = [
        scatter.options(num_returns=parts).remote(source, first, min(PART_RECORDS, total - first), parts)
        for first in firsts
    ]
    written = [gather.remote(target, part, *[some[part] for some in pieces]) for part in range(parts)]
    del pieces
    assert sum(ray.get(written)) == total
    ray.shutdown()


if __name__ == "__main__":
    # Ray's sockets are below it, and their paths may not be long.
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="ray-") as temporary:
        main(*sys.argv[1:], temporary)
