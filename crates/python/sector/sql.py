"""SQL over tables and files of a cloud: `cloud.sql`, over the program `sector sql` (GrayWulf).

    bright = cloud.sql("SELECT ra, dec FROM sky.stars WHERE mag < 6")     # a pyarrow.Table
    frame = bright.to_pandas()

    for batch in sector.sql.batches("SELECT * FROM sky.stars", cloud=cloud):
        print(batch.num_rows)                                             # while rows come

Rows come as Arrow's own bytes: no value is ever turned into text. This module never reads a slice itself.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, cast

from sector.local import binary

if TYPE_CHECKING:
    import pyarrow

    from sector.cloud import Cloud

__all__ = ["batches", "query"]

KINDS: dict[int, type[Exception]] = {2: ValueError, 3: FileNotFoundError, 4: PermissionError, 7: FileExistsError}
"""What the program's exit codes mean in Python; any other is an `OSError`."""


def query(statement: str, *, cloud: Cloud | None = None, folder: str = "/", memory: int | None = None) -> pyarrow.Table:
    """The rows of a statement, all of them.

    `folder` is where names without a folder are looked for, and `memory` how many bytes the engine may take before it
    goes to disk. Without a `cloud` it is that of the profile in use.

    Raises `ValueError` for a wrong statement, `FileNotFoundError` for a table that there is not, or where the program is
    missing, `PermissionError` for one that the user may not read, `OSError` for anything else.
    """
    import pyarrow

    found = _Rows(statement, cloud, folder, memory)
    with found as rows:
        return pyarrow.Table.from_batches(rows, schema=found.schema)


def batches(
    statement: str, *, cloud: Cloud | None = None, folder: str = "/", memory: int | None = None
) -> Iterator[pyarrow.RecordBatch]:
    """The rows of a statement while they come: more than memory holds. Who stops in the middle ends the query.

    Raises as `query` does.
    """
    with _Rows(statement, cloud, folder, memory) as rows:
        yield from rows


class _Rows:
    """The program, and the rows that it writes."""

    def __init__(self, statement: str, cloud: Cloud | None, folder: str, memory: int | None) -> None:
        words = [str(binary()), "sql", "-", "--format", "arrow", "--folder", folder, "--quiet"]
        words += [] if memory is None else ["--memory", f"{memory}B"]
        environment = dict(os.environ)
        if cloud is not None:
            environment["SECTOR_PROFILE"] = cloud._profile
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the program
        with tempfile.TemporaryFile() as given:
            given.write(statement.encode())
            given.seek(0)
            self._process = subprocess.Popen(
                words, stdin=given, stdout=subprocess.PIPE, stderr=self._said, env=environment
            )
        self._output = cast(IO[bytes], self._process.stdout)
        self.schema: pyarrow.Schema = None

    def __enter__(self) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        try:
            reader = pyarrow.ipc.open_stream(self._output)
        except (OSError, pyarrow.ArrowInvalid) as error:
            self._close(error)
            raise
        self.schema = reader.schema
        return iter(reader)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        self._close(error)

    def _close(self, error: BaseException | None) -> None:
        """Ends the program, and raises what it says if rows are missing because of it."""
        import pyarrow

        is_cut_off = isinstance(error, (OSError, pyarrow.ArrowInvalid))
        if error is not None and not is_cut_off:
            # Who stops in the middle wants no more.
            self._process.terminate()
        self._output.close()
        code = self._process.wait()
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        self._said.close()
        if code != 0 and (error is None or is_cut_off):
            sentence = lines[-1].removeprefix("sector: ") if lines else f"`sector sql` ended with {code}"
            raise KINDS.get(code, OSError)(sentence) from None
