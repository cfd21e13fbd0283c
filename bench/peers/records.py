"""Records of terasort as NumPy sees them: 100 bytes, of which the first 10 are the key."""

import numpy as np

RECORD_BYTES = 100


def read(path: str, first: int = 0, count: int = -1) -> np.ndarray:
    """Some records of a file, as rows of bytes."""
    size = count * RECORD_BYTES if count >= 0 else -1
    return np.fromfile(path, np.uint8, count=size, offset=first * RECORD_BYTES).reshape(-1, RECORD_BYTES)


def mapped(path: str) -> np.ndarray:
    """All records of a file, read when they are looked at."""
    return np.memmap(path, np.uint8, "r").reshape(-1, RECORD_BYTES)


def keys(records: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first eight bytes of each key as a number, and the last two."""
    high = np.ascontiguousarray(records[:, :8]).view(">u8").ravel().astype(np.uint64)
    low = np.ascontiguousarray(records[:, 8:10]).view(">u2").ravel().astype(np.uint16)
    return high, low


def sorted_records(records: np.ndarray) -> np.ndarray:
    """The records in the order of their keys."""
    high, low = keys(records)
    order = np.argsort(high)
    ordered = high[order]
    if (ordered[1:] == ordered[:-1]).any():
        order = np.lexsort((low, high))
    return records[order]
