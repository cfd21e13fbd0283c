"""Functions of jobs: what they are given, for who writes types, and how they travel.

    from sector.functions import Output, Segment

    def words(segment: Segment, out: Output) -> None:
        for line in segment.lines():
            out.emit(line + b"\\n", bucket=line)

The nodes need no `sector` for that: where the function runs, these names stand for empty classes.
"""

from __future__ import annotations

import importlib.metadata
import io
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from typing_extensions import Buffer

Function = str | Callable[..., object]
"""A built-in function's name, `path/to/lib.so:symbol`, or a function of this process."""

Requirement = tuple[str, str | None]
"""A module that must be there where the function runs, and the version where only that one will do."""


@runtime_checkable
class Segment(Protocol):
    """One segment: whole records of one file. What a function is given; `docs/functions.md` says more."""

    @property
    def buffer(self) -> memoryview:
        """All its bytes, read-only: nothing is copied."""

    @property
    def path(self) -> str:
        """The file's path in the cloud."""

    @property
    def offset(self) -> int:
        """Where in the file it begins, in bytes."""

    @property
    def index(self) -> int:
        """Its number in the stage's input, from 0."""

    @property
    def format(self) -> str:
        """How the bytes fall into records: `lines`, `fixed`, `index`, `parquet` or `file`."""

    @property
    def record_bytes(self) -> int:
        """Bytes of a record, where they are fixed; else 0."""

    @property
    def starts(self) -> memoryview | None:
        """Where in the file each record of an index begins, and behind them where the last one ends."""

    @property
    def row_group(self) -> int | None:
        """Which row group of a Parquet file it is, from 0."""

    @property
    def rows(self) -> int | None:
        """Rows of that row group."""

    @property
    def streams(self) -> tuple[Segment, ...]:
        """What each input stream has of the segment; the first is the segment itself."""

    @property
    def buckets(self) -> int:
        """Number of buckets of the output."""

    @property
    def parameters(self) -> Mapping[str, str]:
        """What was given with the job."""

    @property
    def side(self) -> Mapping[str, memoryview]:
        """The side files, read-only."""

    def __len__(self) -> int: ...

    def records(self) -> Iterator[memoryview]:
        """The records; lines come without their line end."""

    def lines(self) -> Iterator[bytes]:
        """The same as bytes: the quickest way through text."""

    def aligned(self) -> Iterator[tuple[memoryview, ...]]:
        """Tuples of records, one of each stream."""

    def numpy(self, dtype: Any = "uint8") -> Any:
        """The bytes as a NumPy array, without a copy."""

    def arrow(self) -> Any:
        """The segment as a `pyarrow.RecordBatch`."""


@runtime_checkable
class Output(Protocol):
    """Where the results of a function go."""

    @property
    def scratch(self) -> str:
        """A folder for temporary files."""

    def emit(self, record: Buffer, bucket: int | str | Buffer | None = None) -> None:
        """Adds one record. A bucket is a number, taken modulo their number, or a key whose hash decides."""

    def write(self, buffer: Buffer, bucket: int | str | Buffer | None = None, records: int = 1) -> None:
        """Adds many records at once, whose bytes follow each other."""

    def progress(self, bytes_done: int = 0) -> None:
        """Says that work goes on."""

    def count(self, name: str, n: int = 1) -> None:
        """Adds to one of the job's counters."""


def packed(function: Function) -> tuple[str, str, bytes, list[Requirement]]:
    """The kind, the name and the bytes of a function, and what it needs where it runs."""
    if callable(function):
        code, requires = _pickled(function)
        return "python", getattr(function, "__qualname__", type(function).__name__), code, requires
    if not isinstance(function, str):
        raise TypeError(f"a function is one of Python, the name of a built-in one or `lib.so:symbol`, not {function!r}")
    library, colon, symbol = function.rpartition(":")
    if not colon:
        return "built-in", function, b"", []
    return "native", symbol, Path(os.path.expanduser(library)).read_bytes(), []


def _pickled(function: Callable[..., object]) -> tuple[bytes, list[Requirement]]:
    """The function's pickle, and the modules outside the standard library that the pickle names."""
    try:
        import cloudpickle
    except ImportError as error:
        raise ImportError("a Python function travels by `cloudpickle`: install it here and where nodes run") from error

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        """Notes what is not in the pickle, but looked up where it is read."""

        modules: set[str]

        def reducer_override(self, obj: Any) -> Any:
            if obj is Segment or obj is Output:
                # Annotations are no reason to have this package on every node.
                return type, (obj.__name__, (), {})
            reduced = super().reducer_override(obj)
            if isinstance(obj, types.ModuleType):
                self.modules.add(obj.__name__)
            elif reduced is NotImplemented and isinstance(obj, type | types.FunctionType):
                self.modules.add(obj.__module__)
            return reduced

    own = (getattr(function, "__module__", None) or "__main__").partition(".")[0]
    version = _version(own)
    # A module that no package brings lies on this machine alone: its code goes along.
    carried = None if version or own in sys.stdlib_module_names or own == "__main__" else sys.modules.get(own)
    file = io.BytesIO()
    pickler = Pickler(file)
    pickler.modules = set()
    if carried is not None and carried.__name__ not in cloudpickle.list_registry_pickle_by_value():
        cloudpickle.register_pickle_by_value(carried)
        try:
            pickler.dump(function)
        finally:
            cloudpickle.unregister_pickle_by_value(carried)
    else:
        pickler.dump(function)
    tops = {module.partition(".")[0] for module in pickler.modules if module}
    tops -= {*sys.stdlib_module_names, "__main__", "cloudpickle"}
    # A node says it where a pickle cannot be read; another version alone is no fault.
    made_by = ("cloudpickle", _version("cloudpickle"))
    return file.getvalue(), [(top, version if top == own else None) for top in sorted(tops)] + [made_by]


def _version(module: str) -> str | None:
    """The version of the package that a module comes from, where it comes from one."""
    packages = importlib.metadata.packages_distributions().get(module, [])
    return importlib.metadata.version(packages[0]) if packages else None
