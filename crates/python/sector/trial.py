"""Functions of jobs, tried on local data without a cloud: `sector.test`.

The function runs in this process, where a debugger finds it, over the same objects that it gets on a node: the code is that
of the SPEs (`sector._runner`). Nothing is sandboxed, and nothing leaves this machine.
"""

from __future__ import annotations

import array
import importlib
import itertools
import os
import re
import sys
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from sector import _native
from sector.functions import Function, packed

Data = bytes | bytearray | memoryview | Sequence[bytes] | str | os.PathLike[str]
"""Bytes, records, or the path of a local file."""


@dataclass(frozen=True)
class Tested:
    """What a function did."""

    buckets: list[list[bytes]]
    """For each bucket what came to it, in order: a record for each `emit`, and for each `write` its bytes."""
    counters: dict[str, int]
    """What it counted."""


def test(
    function: Function,
    data: Data,
    *,
    records: str | None = None,
    buckets: int | None = None,
    side: Mapping[str, bytes | str | os.PathLike[str]] | None = None,
    **parameters: object,
) -> Tested:
    """Runs a Python function of a job over local data, here and now, and gives what each bucket got.

    `data` is bytes, the path of a local file, or a list of records. `records` says how it falls into records: `lines`,
    `fixed:N`, `index` (a list), `parquet` or `file`. By default a list is taken as it is (`index`), and all else is one
    record (`file`). Listed `lines` get the line ends that they lack. Each row group is a segment, and so is each of several
    listed files. All else is one segment.

    `buckets`, `side` and `parameters` are as for `Stream.map`; a side file is bytes or the path of a local file.

    Raises `JobError` where the function fails, with the sentence that the job would have: it names the record. Its
    `__cause__` is what the function raised. Raises `ValueError` where the data do not fall into such records, and what
    `map` raises for a function that cannot travel.
    """
    if not callable(function):
        raise TypeError(f"only functions of Python are tested here, not {function!r}")
    packed(function)
    runner = _runner()
    name = getattr(function, "__qualname__", type(function).__name__)
    try:
        adapted = runner.adapt(name, function)
    except runner.Refused as refused:
        raise ValueError(str(refused)) from None
    texts = {key: str(value) for key, value in parameters.items()}
    given = texts, runner.SideFiles((key, _side(key, value)) for key, value in (side or {}).items())
    trial = _Trial(runner, name, max(buckets or 1, 1))
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="sector-test-"))
        for number, (part, files) in enumerate(_parts(data, records, stack)):
            word = {"segment": number, "buckets": len(trial.buckets), "parts": [part]}
            trial.word, trial.files = word, files
            runner.call(adapted, word, trial.descriptors(), trial, given, scratch)
    return Tested(trial.buckets, trial.counters)


# Not one of pytest's, wherever it is imported.
test.__test__ = False  # type: ignore[attr-defined]


class _Trial:
    """Takes the place of the socket to the SPE, and of the SPE."""

    def __init__(self, runner: Any, name: str, buckets: int) -> None:
        self._runner, self._name = runner, name
        self.buckets: list[list[bytes]] = [[] for _ in range(buckets)]
        self.counters: dict[str, int] = {}
        self.word: dict[str, Any] = {}
        self.files: list[BinaryIO] = []
        self._miscounted = ""

    def descriptors(self) -> list[int]:
        """The segment's files, to be closed by who takes them."""
        return [os.dup(file.fileno()) for file in self.files]

    def send(self, head: bytes, *rest: Any) -> None:
        """Takes one message of the function's output; `crates/spe/src/child/python.rs` describes them."""
        kind, a, b, _ = self._runner.HEAD.unpack_from(head)
        if kind == b"numb":
            numbers, lengths, payload = rest
            for bucket, record in zip(array.array("Q", numbers), _cut(payload, lengths), strict=True):
                self._take(bucket, record)
        elif kind == b"keys":
            key_lengths, lengths, keys, payload = rest
            for key, record in zip(_cut(keys, key_lengths), _cut(payload, lengths), strict=True):
                self._take(key_hash(key), record)
        elif kind == b"one ":
            where = head[self._runner.HEAD.size :]
            bucket = int.from_bytes(where, "little") if a == self._runner.NO_KEY else key_hash(where)
            self._take(bucket, bytes(rest[0]))
        elif kind == b"cntr":
            self._count(rest[0].decode(), b)

    def tell(self, bytes_done: int) -> None:
        """Signs of life are for nodes."""

    def text(self, kind: bytes, number: int, text: str) -> None:
        """How the segment ended. An error is raised here, with that of the function as its cause."""
        if kind != b"fail":
            if self._miscounted:
                raise self._error("", self._miscounted)
            return
        cause = sys.exc_info()[1]
        if not isinstance(cause, (Exception, SystemExit)):
            # Ctrl-C, and what test frameworks raise.
            assert cause is not None
            raise cause
        at = "" if number == self._runner.NO_RECORD else f", record {number}{self._beginning(number)}"
        raise self._error(at, text) from cause

    def _error(self, at: str, text: str) -> _native.JobError:
        path, segment = self.word["parts"][0]["path"], self.word["segment"]
        said = f"the function `{self._name}` failed on `{path}`, segment {segment}{at}: {text}"
        error = _native.JobError(said)
        error.job_id, error.errors = "", [said]
        return error

    def _beginning(self, number: int) -> str:
        descriptors = self.descriptors()
        try:
            segment = self._runner.open_segment(self.word, descriptors, self, ({}, {}))
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        record = next(itertools.islice(segment.records(), number, None), None)
        start = bytes(record[:QUOTED_BYTES_MAX]) if record is not None else b""
        return f' (which begins "{_escaped(start)}")' if start else ""

    def _take(self, bucket: int, record: bytes) -> None:
        self.buckets[bucket % len(self.buckets)].append(record)

    def _count(self, name: str, count: int) -> None:
        if not 1 <= len(name.encode()) <= COUNTER_BYTES_MAX or any(unicodedata.category(each) == "Cc" for each in name):
            # As an SPE, it says so when the segment ends.
            quoted, form = name[:QUOTED_NAME_MAX], f"1 to {COUNTER_BYTES_MAX} bytes without control characters"
            self._miscounted = f"`{quoted}` cannot be the name of a counter: give it {form}"
        self.counters[name] = (self.counters.get(name, 0) + count) % 2**64


QUOTED_NAME_MAX = 40
"""Characters of a name that an error quotes."""

QUOTED_BYTES_MAX = 32
"""Bytes of a record that an error quotes."""

COUNTER_BYTES_MAX = 64
"""Bytes of a counter's name."""


def key_hash(key: bytes) -> int:
    """The hash of a bucket's key: FNV-1a of 64 bits, as in `crates/udf/src/hash.rs`."""
    number = 0xCBF2_9CE4_8422_2325
    for byte in key:
        number = (number ^ byte) * 0x100_0000_01B3 % 2**64
    return number


def _runner() -> Any:
    """The code that SPEs run; it has no types, since old Pythons read it too."""
    return importlib.import_module("sector._runner")


def _cut(payload: bytes, lengths: bytes) -> Iterator[bytes]:
    at = 0
    for length in array.array("I", lengths):
        yield payload[at : at + length]
        at += length


def _escaped(text: bytes) -> str:
    """As Rust's `escape_ascii`."""
    plain = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r", 0x22: '\\"', 0x27: "\\'", 0x5C: "\\\\"}
    return "".join(plain.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}") for byte in text)


def _side(name: str, value: bytes | str | os.PathLike[str]) -> memoryview:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", name):
        raise ValueError(f"`{name}` is no name of a side file: 1 to 64 letters, digits and `_`, and no digit first")
    content = Path(value).read_bytes() if isinstance(value, (str, os.PathLike)) else bytes(value)
    return memoryview(content)


Part = tuple[dict[str, Any], list[BinaryIO]]
"""What a function is told of a segment, and the files that it lies in."""


def _parts(data: Data, records: str | None, stack: ExitStack) -> Iterator[Part]:
    """The segments of the data."""
    if isinstance(data, (str, os.PathLike)):
        file: BinaryIO = stack.enter_context(open(data, "rb"))  # noqa: SIM115
        yield from _segments(file, f"/{Path(data).name}", records or "file", None)
    elif isinstance(data, (bytes, bytearray, memoryview)):
        yield from _segments(_kept(bytes(data), stack), "/data", records or "file", None)
    else:
        given = list(data)
        for number, record in enumerate(given):
            if not isinstance(record, (bytes, bytearray, memoryview)):
                raise TypeError(f"a record is bytes: number {number} is {record!r}")
        if records == "file":
            for number, record in enumerate(given):
                yield from _segments(_kept(bytes(record), stack), f"/data-{number}", "file", None)
            return
        if records == "lines":
            given = [record if bytes(record[-1:]) == b"\n" else bytes(record) + b"\n" for record in given]
        content, index = _kept(b"".join(given), stack), None
        if records in (None, "index"):
            starts = itertools.accumulate(map(len, given), initial=0)
            index = _kept(array.array("Q", starts).tobytes(), stack)
        yield from _segments(content, "/data", records or "index", index)


def _segments(file: BinaryIO, path: str, records: str, index: BinaryIO | None) -> Iterator[Part]:
    size = os.fstat(file.fileno()).st_size
    kind, _, number = records.partition(":")
    fixed = int(number) if kind == "fixed" and number.isdecimal() else 0
    part: dict[str, Any] = {
        "path": path,
        "from": 0,
        "until": size,
        "format": kind,
        "record_bytes": fixed,
        "index": None,
        "row_group": None,
    }
    if kind == "fixed":
        if not fixed:
            raise ValueError(f"`{records}` says no length of a record: write for example `fixed:100`")
        if size % fixed:
            raise ValueError(f"{size} bytes do not fall into records of {fixed} bytes")
    elif kind == "index":
        if index is None:
            raise ValueError("records of any length are tested as a list of them")
        part["index"] = 0, os.fstat(index.fileno()).st_size
        yield part, [file, index]
        return
    elif records == "parquet":
        for group in _row_groups(file, path, size):
            yield {**part, **group}, [file]
        return
    elif records not in ("lines", "file"):
        raise ValueError(f"`{records}` are no records: name `lines`, `fixed:N`, `index`, `parquet` or `file`")
    yield part, [file]


def _row_groups(file: BinaryIO, path: str, size: int) -> Iterator[dict[str, Any]]:
    """Where each row group lies."""
    import pyarrow
    import pyarrow.parquet

    try:
        about = pyarrow.parquet.ParquetFile(file).metadata
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"`{path}` is no Parquet file: {error}") from None
    for number in range(about.num_row_groups):
        group = about.row_group(number)
        columns = [group.column(each) for each in range(group.num_columns)]
        begins = [column.dictionary_page_offset or column.data_page_offset for column in columns]
        ends = [begin + column.total_compressed_size for begin, column in zip(begins, columns, strict=True)]
        yield {"from": min(begins), "until": max(ends), "row_group": (number, group.num_rows, size)}


def _kept(content: bytes, stack: ExitStack) -> BinaryIO:
    """The bytes as an open file, since that is what an SPE has."""
    file = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
    file.write(content)
    file.flush()
    return file
