"""`sector images` beside astropy: pixels, headers and places, of files that astropy brings and of files made here."""

import csv
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import IO, cast

import astropy
import numpy as np
import pyarrow.parquet as parquet
import pytest
from astropy.coordinates import SkyCoord
from astropy.io import fits
from astropy.nddata import Cutout2D
from astropy.table import Table
from astropy.wcs import WCS

import sector
import sector.images

BROUGHT = Path(astropy.__file__).parent
TILES = BROUGHT / "io/fits/hdu/compressed/tests/data"


def images(cloud: sector.LocalCloud, *arguments: str | Path, fails: bool = False) -> str:
    """`sector images …` in this cloud."""
    environment = {**os.environ, "SECTOR_PROFILE": str(cloud.profile)}
    words = ["sector", "images", *map(str, arguments), "--json"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


def sky_image(kind: str, size: tuple[int, int] = (120, 100)) -> fits.PrimaryHDU:
    """An image with coordinates of a kind, and pixels that tell their place."""
    rows, columns = size[1], size[0]
    header = fits.Header()
    frame = ("GLON", "GLAT") if kind == "galactic" else ("RA", "DEC")
    projection = {"sip": "TAN-SIP", "tpv": "TPV", "seam": "TAN", "pole": "ZEA", "galactic": "CAR"}[kind]
    centre = {"seam": (0.001, 10.0), "pole": (30.0, 89.99), "galactic": (30.0, 0.0)}.get(kind, (202.47, 47.2))
    for axis, name, value, length in ((1, frame[0], centre[0], columns), (2, frame[1], centre[1], rows)):
        header[f"CTYPE{axis}"] = f"{name:-<4}-{projection}"
        header[f"CRVAL{axis}"] = value
        header[f"CRPIX{axis}"] = length / 2
    header["CD1_1"], header["CD2_2"] = -0.0004, 0.0004
    header["CD1_2"], header["CD2_1"] = 0.00003, 0.00002
    if kind == "sip":
        header["A_ORDER"] = header["B_ORDER"] = 2
        header["A_2_0"], header["B_0_2"], header["A_1_1"] = 2e-6, -3e-6, 1e-6
    if kind == "tpv":
        header["PV1_0"], header["PV1_1"], header["PV1_2"], header["PV2_1"], header["PV2_4"] = 0.0, 1.0, 0.001, 1.0, 0.01
    pixels = np.arange(rows * columns, dtype=np.int16).reshape(rows, columns)
    return fits.PrimaryHDU(pixels, header)


@pytest.mark.parametrize("name", ["m13", "m13_rice", "m13_plio", "m13_hcomp", "GZIP_1", "GZIP_2"])
def test_pixels_of_every_compression_are_astropys(cloud: sector.LocalCloud, tmp_path: Path, name: str) -> None:
    """Files that others compressed, with CFITSIO or astropy: the same integers, bit for bit."""
    file = TILES / f"{name}.fits"
    if name.startswith("GZIP"):
        file = tmp_path / "gzip.fits"
        original = fits.getdata(TILES / "m13.fits")
        fits.CompImageHDU(original, compression_type=name).writeto(file)
    with fits.open(file) as opened:
        number = next(number for number, hdu in enumerate(opened) if hdu.data is not None)
        whole, kept = opened[number].data, opened[number].header
    height, width = whole.shape
    for x, y in ((1, 1), (width - 70, height - 33), (101, 57)):
        cutout = tmp_path / f"{name}-{x}.fits"
        section = f"[{number}][{x}:{x + 69},{y}:{y + 32}]"
        images(cloud, "cutout", file, "--local", "--section", section, "--to", cutout)
        with fits.open(cutout, checksum=True, do_not_scale_image_data=True) as cut:
            cut.verify("exception")
            assert len(cut) == 1 and cut[0].data.dtype.newbyteorder("=") == whole.dtype.newbyteorder("=")
            assert np.array_equal(cut[0].data, whole[y - 1 : y + 32, x - 1 : x + 69])
            assert "ZCMPTYPE" not in cut[0].header and "CHECKSUM" in cut[0].header
            assert cut[0].header.get("OBJECT") == kept.get("OBJECT")


@pytest.mark.parametrize("kind", ["sip", "tpv", "seam", "pole", "galactic"])
def test_places_are_astropys(cloud: sector.LocalCloud, tmp_path: Path, kind: str) -> None:
    """The box of a position is that of `Cutout2D`, and its pixels lie where they lay, to 1e-9 degree."""
    hdu = sky_image(kind)
    file, cutout = tmp_path / "a.fits", tmp_path / "cut.fits"
    hdu.writeto(file)
    before = WCS(hdu.header)
    middle = before.pixel_to_world(70, 40).icrs
    images(
        cloud, "cutout", file, "--local", "--at", f"{middle.ra.deg},{middle.dec.deg}", "--size", "0.5", "--to", cutout
    )
    with fits.open(cutout) as opened:
        cut, after = opened[0].data, WCS(opened[0].header)
        rows, columns = cut.shape
        known = Cutout2D(hdu.data, before.world_to_pixel(middle), (rows, columns), wcs=before)
        assert abs(columns * abs(hdu.header["CD1_1"]) * 60 - 0.5) < 0.05
        assert np.array_equal(cut, known.data)
        x, y = np.array([0, columns - 1, columns / 3]), np.array([rows - 1, 0, rows / 2])
        here, there = after.pixel_to_world(x, y).icrs, known.wcs.pixel_to_world(x, y).icrs
        assert np.max(here.separation(there).deg) < 1e-9


@pytest.mark.parametrize("kind", ["sip", "tpv", "seam", "pole", "galactic"])
def test_a_circle_has_all_its_pixels(cloud: sector.LocalCloud, tmp_path: Path, kind: str) -> None:
    hdu = sky_image(kind)
    file, cutout = tmp_path / "a.fits", tmp_path / "cut.fits"
    hdu.writeto(file)
    wcs = WCS(hdu.header)
    middle = wcs.pixel_to_world(55.3, 51.8).icrs
    region = f"CIRCLE {middle.ra.deg} {middle.dec.deg} 0.008"
    images(cloud, "cutout", file, "--local", "--region", region, "--to", cutout)
    x, y = np.meshgrid(np.arange(120), np.arange(100))
    inside = wcs.pixel_to_world(x, y).icrs.separation(middle).deg <= 0.008
    rows, columns = np.nonzero(inside)
    cut = fits.getdata(cutout)
    assert set(hdu.data[inside]) <= set(cut.ravel())
    assert cut.shape[0] <= np.ptp(rows) + 3 and cut.shape[1] <= np.ptp(columns) + 3


def test_an_index_has_each_image_and_says_what_is_wrong(cloud: sector.LocalCloud, folder: str, tmp_path: Path) -> None:
    for kind in ("sip", "tpv", "galactic"):
        sky_image(kind).writeto(tmp_path / f"{kind}.fits")
        cloud.put(tmp_path / f"{kind}.fits", f"{folder}/sky/{kind}.fits")
    cloud.put(TILES / "m13_rice.fits", f"{folder}/sky/m13.fits.fz")
    cloud.write_bytes(f"{folder}/sky/broken.fits", b"no image at all")
    fits.writeto(tmp_path / "flat.fits", np.zeros((5, 5), "i2"))
    cloud.put(tmp_path / "flat.fits", f"{folder}/sky/flat.fits")
    index = f"{folder}/index"
    first = json.loads(images(cloud, "index", f"{folder}/sky", "--to", index))
    assert (first["files_new"], first["images"]) == (6, 5)
    problems = {Path(row["path"]).name: row["problem"].split(":")[0] for row in first["problems"]}
    assert problems == {"broken.fits": "damaged", "flat.fits": "no-sky"}

    again = json.loads(images(cloud, "index", f"{folder}/sky", "--to", index))
    assert (again["files_new"], again["files_known"], again["images"]) == (0, 6, 5)
    sky_image("seam").writeto(tmp_path / "new.fits")
    cloud.put(tmp_path / "new.fits", f"{folder}/sky/new.fits")
    cloud.put(tmp_path / "new.fits", f"{folder}/sky/broken.fits")
    cloud.remove(f"{folder}/sky/tpv.fits")
    third = json.loads(images(cloud, "index", f"{folder}/sky", "--to", index))
    assert (third["files_new"], third["files_gone"], third["images"]) == (2, 1, 6)

    rows = []
    for path in cloud.glob(f"{index}/*.parquet"):
        rows += parquet.read_table(io.BytesIO(cloud.read_bytes(path))).to_pylist()
    assert sorted(Path(row["path"]).name for row in rows) == [
        "broken.fits",
        "flat.fits",
        "galactic.fits",
        "m13.fits.fz",
        "new.fits",
        "sip.fits",
    ]
    by_name = {Path(row["path"]).name: row for row in rows}
    hdu = sky_image("galactic")
    centre = WCS(hdu.header).pixel_to_world(59.5, 49.5).icrs
    row = by_name["galactic.fits"]
    assert SkyCoord(row["s_ra"], row["s_dec"], unit="deg").separation(centre).deg < 1e-9
    assert by_name["m13.fits.fz"]["compression"] == "RICE_1" and by_name["sip.fits"]["s_xel1"] == 120

    found = json.loads(images(cloud, "find", "202.47,47.2", "--index", index))
    assert [Path(row["path"]).name for row in found] == ["sip.fits"]
    assert json.loads(images(cloud, "find", "100,-47.2", "--index", index)) == []


@pytest.mark.parametrize("by", ["node", "client"])
def test_a_table_becomes_an_archive(cloud: sector.LocalCloud, folder: str, tmp_path: Path, by: str) -> None:
    for number, kind in enumerate(("sip", "tpv", "seam")):
        sky_image(kind).writeto(tmp_path / f"{kind}.fits")
        cloud.put(tmp_path / f"{kind}.fits", f"{folder}/{number}.fits")
    cloud.write_bytes(f"{folder}/broken.fits", b"SIMPLE  = nothing")
    rows = [(f"{folder}/{number % 3}.fits", 20 + number % 80, 20 + number % 60, 11, 15) for number in range(300)]
    rows += [
        (f"{folder}/missing.fits", 1, 1, 5, 5),
        (f"{folder}/broken.fits", 1, 1, 5, 5),
        (f"{folder}/0.fits", 900, 1, 5, 5),
    ]
    table, archive = tmp_path / "tuples.csv", tmp_path / "cutouts.tar"
    table.write_text("\n".join(",".join(map(str, row)) for row in rows) + "\nno,tuple\n")
    report = json.loads(images(cloud, "cutouts", table, "--to", archive, "--by", by))
    assert (report["cutouts"], report["failed"]) == (300, 4)

    with tarfile.open(archive) as opened:
        files = {member.name: cast(IO[bytes], opened.extractfile(member)).read() for member in opened}
    manifest = {int(row["tuple"]): row for row in csv.DictReader(io.StringIO(files.pop("manifest.csv").decode()))}
    assert len(files) == 300 and len(manifest) == 304
    statuses = [manifest[number]["status"] for number in (301, 302, 303, 304)]
    assert statuses == ["not-found", "damaged", "no-overlap", "usage"]
    pixels = {number: fits.getdata(tmp_path / f"{kind}.fits") for number, kind in enumerate(("sip", "tpv", "seam"))}
    for number, (path, x, y, height, width) in enumerate(rows[:300], 1):
        row = manifest[number]
        assert (row["status"], row["by"], int(row["bytes"])) == ("ok", by, len(files[row["file"]]))
        known = Cutout2D(pixels[(number - 1) % 3], (x - 1, y - 1), (height, width), mode="trim")
        assert np.array_equal(fits.getdata(io.BytesIO(files[row["file"]])), known.data), path
    assert not cloud.glob("/.images-*"), "a job's results go when they are in the archive"


def test_what_cannot_be_cut_is_said(cloud: sector.LocalCloud, folder: str, tmp_path: Path) -> None:
    sky_image("sip").writeto(tmp_path / "a.fits")
    cloud.put(tmp_path / "a.fits", f"{folder}/a.fits")
    to = tmp_path / "b.fits"
    for part, words in {
        ("--at", "10,10", "--size", "1"): "does not overlap",
        ("--section", "[7][1:2,1:2]"): "no image `7`",
        ("--section", "[200:300,1:2]"): "does not overlap",
    }.items():
        assert words in images(cloud, "cutout", f"{folder}/a.fits", *part, "--to", to, fails=True)
    assert not to.exists()
    picture = tmp_path / "a.png"
    images(
        cloud, "cutout", f"{folder}/a.fits", "--at", "202.47,47.2", "--size", "1", "--format", "png", "--to", picture
    )
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_cutouts_come_as_arrays_while_the_job_goes_on(cloud: sector.LocalCloud, folder: str, tmp_path: Path) -> None:
    """Integers of each width, unsigned ones and reals: as astropy reads them. What has none is told at the end."""
    made = {}
    for name, kind in (
        ("i2", "i2"),
        ("u2", "u2"),
        ("i4", "i4"),
        ("u4", "u4"),
        ("f4", "f4"),
        ("f8", "f8"),
        ("u1", "u1"),
    ):
        pixels = (np.arange(60 * 50) % 251).astype(kind).reshape(50, 60)
        pixels[0, 0] = np.iinfo(kind).max if np.dtype(kind).kind in "iu" else 0.5
        fits.PrimaryHDU(pixels).writeto(tmp_path / f"{name}.fits")
        cloud.put(tmp_path / f"{name}.fits", f"{folder}/{name}.fits")
        made[name] = pixels
    table = [{"path": f"{folder}/{name}.fits", "section": "[1:20,1:10]", "name": name} for name in made]
    table += [
        {"path": f"{folder}/none.fits", "section": "[1:2,1:2]"},
        {"path": f"{folder}/i2.fits", "section": "[99:100,1:2]"},
    ]
    missing: list[sector.images.Missing] = []
    cut = {cutout.name: cutout for cutout in sector.images.cutouts(table, cloud, missing=missing)}
    assert len(cut) == len(made)
    for name, pixels in made.items():
        [cutout] = [cutout for found, cutout in cut.items() if name in found]
        assert np.array_equal(cutout.array, pixels[:10, :20]), name
        with fits.open(io.BytesIO(cutout.content)) as opened:
            assert np.array_equal(opened[0].data, cutout.array) and opened[0].data.dtype.kind == cutout.array.dtype.kind
        assert cutout.header["NAXIS1"] == 20
    assert {(row.row, row.status) for row in missing} == {(8, "not-found"), (9, "no-overlap")}


def test_tables_are_of_every_format_that_astronomers_have(
    cloud: sector.LocalCloud, folder: str, tmp_path: Path
) -> None:
    """As pandas and astropy write them, unchanged: texts, integers, reals and missing values."""
    pixels = np.arange(3000, dtype="i2").reshape(50, 60)
    fits.PrimaryHDU(pixels).writeto(tmp_path / "t.fits")
    cloud.put(tmp_path / "t.fits", f"{folder}/t.fits")
    columns = {
        "name": ["a", "b", ""],
        "path": [f"{folder}/t.fits"] * 3,
        "x": np.array([30.5, 20.0, 10.0]),
        "y": np.array([25.5, 10.0, 12.0], dtype="f4"),
        "height": np.array([4, 5, 6], dtype="i2"),
        "width": np.array([6, 7, 8], dtype="i8"),
    }
    table = Table(columns)
    table.write(tmp_path / "t.csv")
    for kind in ("tabledata", "binary", "binary2"):
        table.write(tmp_path / f"{kind}.vot", format="votable", tabledata_format=kind)
    for compression in ("snappy", "zstd", None):
        table.to_pandas().to_parquet(tmp_path / f"{compression}.parquet", compression=compression)
    cut = {}
    for file in sorted(tmp_path.glob("*")):
        if file.suffix != ".fits":
            found = sector.images.cutouts(file, cloud, by="client")
            cut[file.name] = {cutout.name: cutout.array.tolist() for cutout in found}
    assert len(cut) == 7 and sorted(cut["t.csv"]) == ["000003.fits", "a.fits", "b.fits"]
    assert cut["t.csv"]["a.fits"] == pixels[23:27, 27:33].tolist()
    for name, arrays in cut.items():
        assert arrays == cut["t.csv"], name


def test_the_papers_tuples_and_who_stops_in_the_middle(cloud: sector.LocalCloud, folder: str, tmp_path: Path) -> None:
    fits.PrimaryHDU(np.arange(3000, dtype="i2").reshape(50, 60)).writeto(tmp_path / "a.fits")
    cloud.put(tmp_path / "a.fits", f"{folder}/a.fits")
    rows = [(f"{folder}/a.fits", 30, 25, 4, 6)] * 300
    for number, cutout in enumerate(sector.images.cutouts(rows, cloud, by="client")):
        assert cutout.array.shape == (4, 6)
        if number == 3:
            break
    with pytest.raises(OSError, match="no part of an image"):
        next(sector.images.cutouts([{"path": "/a"}], cloud))
