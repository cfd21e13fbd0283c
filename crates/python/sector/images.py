"""Cutouts of sky images as arrays: `sector.images.cutouts`, over the program `sector images` (AstroPortal report, 4).

    import sector.images

    table = [("/sky/m51.fits", 768, 1024, 100, 100), ("/sky/m51.fits", 300, 400, 100, 100)]
    for cutout in sector.images.cutouts(table):
        print(cutout.path, cutout.array.mean())

The images are cut where they lie, by a job, and the cutouts come while it goes on. This module never reads an image itself.
"""

from __future__ import annotations

import csv
import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from sector.local import binary

if TYPE_CHECKING:
    import numpy as np

    from sector.cloud import Cloud

__all__ = ["Cutout", "Missing", "cutouts"]

BLOCK = 2880
CARD = 80
TYPES = {8: "u1", 16: ">i2", 32: ">i4", 64: ">i8", -32: ">f4", -64: ">f8"}
MANIFEST = "manifest.csv"

Row = Mapping[str, Any] | tuple[str, float, float, int, int]
"""A tuple: a mapping with the columns of a table, or the paper's `(path, x, y, height, width)`."""


@dataclass(frozen=True)
class Missing:
    """A row of the table of which there is no cutout."""

    row: int
    """Its number, from 1."""
    path: str
    """The image."""
    status: str
    """`no-overlap`, `not-found`, `damaged` or another class of what went wrong."""
    message: str
    """The sentence."""


@dataclass(frozen=True)
class Cutout:
    """A part of an image."""

    name: str
    """Its name: that of the table, or one made of the image's."""
    content: bytes
    """The FITS file, for astropy: `fits.open(io.BytesIO(cutout.content))`."""
    header: dict[str, Any] = field(repr=False)
    """The keywords of its first image, without comments and history."""
    array: np.ndarray[Any, Any] = field(repr=False)
    """The pixels of its first image, rows first, as numbers of the file: `BSCALE` and `BZERO` are applied where they are."""


def cutouts(
    table: Iterable[Row] | str | os.PathLike[str],
    cloud: Cloud | None = None,
    by: str = "node",
    missing: list[Missing] | None = None,
    index: str | None = None,
) -> Iterator[Cutout]:
    """The cutouts of a table, as they are made, in an order of their own.

    `table` is the path of a CSV, VOTable or Parquet file, or rows: mappings with the columns `path` and
    `x, y, height, width`, or `ra, dec, size` (degrees, arc minutes), or `section`, or `region`; `name` names a cutout.
    With the folder of an `index`, rows may have no `path`: each position is cut from the image that has it nearest to
    its middle, of the `filter` if there is that column. Rows that have no cutout are added to `missing` at the end.
    `by="client"` cuts here instead of beside the images.

    Raises `FileNotFoundError` where the program is missing, `OSError` with what it said where it fails.
    """
    with tempfile.TemporaryFile() as said:
        words = [str(binary()), "images", "cutouts", "-", "--to", "-", "--by", by, "--quiet"]
        words += [] if index is None else ["--index", index]
        environment = dict(os.environ)
        if cloud is not None:
            environment["SECTOR_PROFILE"] = cloud._profile
        with tempfile.TemporaryFile() as given:
            given.write(_csv(table))
            given.seek(0)
            process = subprocess.Popen(words, stdin=given, stdout=subprocess.PIPE, stderr=said, env=environment)
        output, is_whole = cast(IO[bytes], process.stdout), False
        try:
            yield from _members(output, missing)
            output.read()
            is_whole = True
        except tarfile.ReadError:
            # The program ended early, and says why.
            if process.wait() == 0:
                raise
        finally:
            # Who stops in the middle wants no more.
            if not is_whole:
                process.terminate()
            output.close()
            process.wait()
        if process.returncode != 0:
            said.seek(0)
            sentence = said.read().decode(errors="replace").strip().splitlines()
            raise OSError(sentence[-1] if sentence else f"`sector images` ended with {process.returncode}")


def _members(output: IO[bytes], missing: list[Missing] | None) -> Iterator[Cutout]:
    with tarfile.open(fileobj=output, mode="r|") as archive:
        for member in archive:
            content = cast(IO[bytes], archive.extractfile(member)).read()
            if member.name != MANIFEST:
                header, array = _first_image(content)
                yield Cutout(member.name, content, header, array)
            elif missing is not None:
                rows = csv.DictReader(io.StringIO(content.decode()))
                lost = (row for row in rows if row["status"] != "ok")
                missing.extend(Missing(int(row["tuple"]), row["path"], row["status"], row["message"]) for row in lost)


def _csv(table: Iterable[Row] | str | os.PathLike[str]) -> bytes:
    if isinstance(table, str | os.PathLike):
        return Path(table).read_bytes()
    rows = list(table)
    text = io.StringIO()
    if rows and isinstance(rows[0], Mapping):
        names = {name: None for row in rows for name in cast(Mapping[str, Any], row)}
        writer = csv.DictWriter(text, list(names))
        writer.writeheader()
        writer.writerows(cast(list[Mapping[str, Any]], rows))
    else:
        csv.writer(text).writerows(cast(list[tuple[str, float, float, int, int]], rows))
    return text.getvalue().encode()


def _first_image(content: bytes) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
    """The keywords and the pixels of the first image of a file that `sector images` wrote."""
    import numpy as np

    at = 0
    while at < len(content):
        header, at = _header(content, at)
        shape = [header[f"NAXIS{axis}"] for axis in range(header["NAXIS"], 0, -1)]
        kind = np.dtype(TYPES[header["BITPIX"]])
        count = int(np.prod(shape, dtype=np.int64)) if shape else 0
        if count:
            array: np.ndarray[Any, Any] = np.frombuffer(content, kind, count, at).reshape(shape)
            return header, _scaled(array.astype(kind.newbyteorder("=")), header)
        at += -(-count * kind.itemsize // BLOCK) * BLOCK
    raise ValueError("the file has no image")


def _scaled(array: np.ndarray[Any, Any], header: dict[str, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    scale, zero = header.get("BSCALE", 1), header.get("BZERO", 0)
    if (scale, zero) == (1, 0):
        return array
    # Unsigned integers are written as signed ones with half of their range taken off.
    if scale == 1 and array.dtype.kind == "i" and zero == 1 << (8 * array.dtype.itemsize - 1):
        unsigned = f"u{array.dtype.itemsize}"
        half: np.ndarray[Any, Any] = np.full((), 1, unsigned) << (8 * array.dtype.itemsize - 1)
        return cast("np.ndarray[Any, Any]", array.view(unsigned) ^ half)
    return cast("np.ndarray[Any, Any]", array * float(scale) + float(zero))


def _header(content: bytes, at: int) -> tuple[dict[str, Any], int]:
    header: dict[str, Any] = {}
    while True:
        card = content[at : at + CARD].decode("ascii", errors="replace")
        at += CARD
        if card.rstrip() == "END":
            return header, -(-at // BLOCK) * BLOCK
        if len(card) < CARD:
            raise ValueError("the header has no end")
        if card[8:10] == "= ":
            header[card[:8].rstrip()] = _value(card[10:])


def _value(text: str) -> Any:
    text = text.strip()
    if text.startswith("'"):
        end = 1
        while (end := text.find("'", end)) >= 0 and text[end + 1 : end + 2] == "'":
            end += 2
        return text[1 : end if end > 0 else None].replace("''", "'").rstrip()
    word = text.split("/")[0].strip()
    if word in ("T", "F"):
        return word == "T"
    for kind in (int, float):
        try:
            return kind(word.replace("D", "E"))
        except ValueError:
            continue
    return word
