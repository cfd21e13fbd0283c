"""`sector portal` as clients of the Virtual Observatory use it: pyvo drives it, unpatched, and astropy judges the pixels."""

import io
import os
import subprocess
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
from astropy import units
from astropy.coordinates import SkyCoord
from astropy.io import fits
from astropy.io.votable import parse as parse_votable
from astropy.wcs import WCS
from pyvo.dal import SIA2Service
from pyvo.dal.adhoc import DatalinkResults
from pyvo.io import uws, vosi
from services import serving

import sector
import sector.images

CENTRES = {"north": (202.47, 47.2), "seam": (0.01, -10.0)}
FOLDER = "/portal-images"


def image(name: str) -> fits.HDUList:
    """An image whose pixels tell their place, with a mask beside it."""
    header = fits.Header()
    for axis, kind, value, step in (
        (1, "RA---TAN", CENTRES[name][0], -0.001),
        (2, "DEC--TAN", CENTRES[name][1], 0.001),
    ):
        header[f"CTYPE{axis}"], header[f"CRVAL{axis}"] = kind, value
        header[f"CRPIX{axis}"], header[f"CDELT{axis}"] = 50.5, step
    header["RADESYS"], header["FILTER"], header["TELESCOP"] = "ICRS", "r", "Test"
    header["OBJECT"], header["EXPTIME"], header["DATE-OBS"] = name, 60.0, "2004-01-01T00:00:00"
    pixels = np.arange(100 * 100, dtype=np.int16).reshape(100, 100)
    mask = fits.ImageHDU((pixels % 7).astype(np.int16), header, name="MASK")
    return fits.HDUList([fits.PrimaryHDU(pixels, header), mask])


def cube() -> fits.HDUList:
    """Eight planes, from 500 to 507 nanometres."""
    header = image("north")[0].header.copy()
    header["CTYPE3"], header["CUNIT3"], header["CRVAL3"], header["CRPIX3"], header["CDELT3"] = (
        "WAVE",
        "nm",
        500.0,
        1.0,
        1.0,
    )
    return fits.HDUList([fits.PrimaryHDU(np.arange(8 * 100 * 100, dtype=np.int32).reshape(8, 100, 100), header)])


def portal(cloud: sector.LocalCloud, *options: str) -> AbstractContextManager[str]:
    """A portal in this cloud, and its address."""
    return serving(cloud, "portal", *options)


@pytest.fixture(scope="module")
def images(cloud: sector.LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> dict[str, fits.HDUList]:
    folder = tmp_path_factory.mktemp("images")
    cloud.mkdir(FOLDER)
    made = {"north": image("north"), "seam": image("seam"), "cube": cube()}
    for name, content in made.items():
        content.writeto(folder / f"{name}.fits")
        cloud.put(folder / f"{name}.fits", f"{FOLDER}/{name}.fits")
    (folder / "broken.fits").write_bytes(b"SIMPLE  =                    T" + b" " * 3000)
    cloud.put(folder / "broken.fits", f"{FOLDER}/broken.fits")
    environment = {**os.environ, "SECTOR_PROFILE": str(cloud.profile)}
    subprocess.run(["sector", "images", "index", FOLDER, "--to", "/portal-index"], env=environment, check=True)
    return made


def test_positions_are_cut_from_the_image_that_has_them(
    cloud: sector.LocalCloud, images: dict[str, fits.HDUList]
) -> None:
    """A list of objects names no images: the index does. The pixel at each position is the middle of its cutout."""
    table = [
        {"name": "n", "ra": "13:29:52.8", "dec": "+47:12:00", "size": "0.36", "filter": "r"},
        {"name": "s", "ra": "0.01", "dec": "-10", "size": "0.36", "filter": ""},
        {"name": "z", "ra": "202.47", "dec": "47.2", "size": "0.36", "filter": "z"},
        {"name": "none", "ra": "90", "dec": "0", "size": "1", "filter": ""},
    ]
    for by in ("node", "client"):
        missing: list[sector.images.Missing] = []
        found = sector.images.cutouts(table, cloud, by=by, missing=missing, index="/portal-index")
        cut = {cutout.name: cutout for cutout in found}
        assert set(cut) == {"n.fits", "s.fits"}
        for name, of in (("n", "north"), ("s", "seam")):
            array = cut[f"{name}.fits"].array
            while array.ndim > 2:
                array = array[0]
            assert np.array_equal(array, images[of][0].data[47:53, 47:53])
        assert [(row.row, row.status) for row in missing] == [(3, "not-found"), (4, "not-found")]
    with pytest.raises(OSError, match="--index"):
        next(sector.images.cutouts(table, cloud))


@pytest.fixture(scope="module")
def url(cloud: sector.LocalCloud, images: dict[str, fits.HDUList]) -> Iterator[str]:
    with portal(cloud, "--index", "/portal-index", "--public") as url:
        yield url


def ask(
    url: str, form: dict[str, str] | None = None, method: str | None = None, **query: Any
) -> tuple[int, str, bytes]:
    """The status, the media type and the body."""
    encoded = urllib.parse.urlencode(query, doseq=True)
    body = None if form is None else urllib.parse.urlencode(form).encode()
    request = urllib.request.Request(f"{url}?{encoded}" if encoded else url, body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers.get("Content-Type", ""), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get("Content-Type", ""), error.read()


def opened(content: bytes) -> fits.HDUList:
    with fits.open(io.BytesIO(content), checksum=True) as found:
        found.verify("exception")
        return fits.HDUList([hdu.copy() for hdu in found])


def test_a_circle_is_the_part_that_astropy_would_cut(url: str, images: dict[str, fits.HDUList]) -> None:
    for name, (ra, dec) in CENTRES.items():
        status, kind, body = ask(f"{url}/soda/sync", ID=f"{FOLDER}/{name}.fits", CIRCLE=f"{ra} {dec} 0.0098")
        assert (status, kind) == (200, "application/fits")
        cut = opened(body)
        science, mask = [hdu for hdu in cut if hdu.data is not None]
        assert mask.name == "MASK", "masks come along"
        before, after = WCS(images[name][0].header), WCS(science.header)
        x, y = (round(float(axis)) for axis in before.world_to_pixel(after.pixel_to_world(0, 0)))
        height, width = science.data.shape
        assert (height, width) == (20, 20)
        assert np.array_equal(science.data, images[name][0].data[y : y + height, x : x + width])
        there, here = before.pixel_to_world(x + 3, y + 5), after.pixel_to_world(3, 5)
        assert there.separation(here) < 1e-9 * units.deg


def test_nothing_in_common_is_no_content_and_nonsense_is_said_in_the_words_of_the_standard(url: str) -> None:
    at, here = f"{url}/soda/sync", f"{FOLDER}/north.fits"
    assert ask(at, ID=here, CIRCLE="10 10 0.01") == (204, "", b"")
    assert ask(at, ID=here, TIME="60000 60001")[0] == 204
    assert ask(at, ID=here, BAND="1e-3 2e-3")[0] == 204
    for query, status, word in (
        ({}, 400, "UsageError"),
        ({"ID": here, "CIRCLE": "1 2"}, 400, "UsageError"),
        ({"ID": here, "CIRCLE": ["1 2 3", "4 5 6"]}, 400, "MultiValuedParamNotSupported"),
        ({"ID": f"{FOLDER}/none.fits"}, 404, "UsageError"),
        ({"ID": f"{FOLDER}/broken.fits"}, 500, "Error"),
        ({"ID": here, "POL": "I"}, 400, "UsageError"),
        ({"ID": here, "RESPONSEFORMAT": "text/html"}, 400, "UsageError"),
        ({"ID": here, "SUB": "[7][1:2,1:2]"}, 404, "UsageError"),
    ):
        found, kind, body = ask(at, **query)
        assert (found, kind.split(";")[0]) == (status, "text/plain"), query
        assert body.decode().startswith(f"{word}:"), body


def test_pixels_planes_and_pictures(url: str, images: dict[str, fits.HDUList]) -> None:
    at = f"{url}/soda/sync"
    cut = opened(ask(at, ID=f"{FOLDER}/north.fits#1", SUB="[11:20,31:33]")[2])
    assert np.array_equal(cut[0].data, images["north"]["MASK"].data[30:33, 10:20])
    cut = opened(ask(at, ID=f"{FOLDER}/cube.fits", BAND="502e-9 504e-9", SUB="[1:5,1:4]")[2])
    assert np.array_equal(cut[0].data, images["cube"][0].data[2:5, 0:4, 0:5])
    status, kind, body = ask(at, ID=f"{FOLDER}/north.fits", RESPONSEFORMAT="image/png")
    assert (status, kind) == (200, "image/png") and body.startswith(b"\x89PNG")
    assert ask(at, ID=f"{FOLDER}/north.fits", RESPONSEFORMAT="image/jpeg")[2].startswith(b"\xff\xd8")


def test_pyvo_finds_images_and_what_can_be_had_of_them(url: str, images: dict[str, fits.HDUList]) -> None:
    service = SIA2Service(f"{url}/sia2")
    assert {str(capability.standardid) for capability in service.capabilities} >= {"ivo://ivoa.net/std/SIA#query-2.0"}
    found = service.search(pos=(SkyCoord(*CENTRES["seam"], unit="deg"), 0.001 * units.deg))
    assert {record.obs_publisher_did for record in found} == {f"{FOLDER}/seam.fits#0", f"{FOLDER}/seam.fits#1"}
    record = next(record for record in found if record.obs_publisher_did.endswith("#0"))
    assert (record.facility_name, record.target_name, record.calib_level) == ("Test", "seam", 1)
    everything = service.search(calib_level=1)
    assert len(everything) == 5, "a broken file is no image"
    assert len(service.search(calib_level=1, maxrec=2)) == 2
    assert len(service.search(calib_level=1, data_type="cube")) == 1
    links = record.getdatalink()
    assert isinstance(links, DatalinkResults)
    semantics = [link.semantics for link in links]
    assert semantics == ["#this", "#preview", "#cutout", "#cutout"]
    this = next(links.bysemantics("#this", include_narrower=False))
    with urllib.request.urlopen(this.access_url) as answer:
        assert opened(answer.read())[0].data.shape == (100, 100)
    processing = next(links.bysemantics("#preview", include_narrower=False))
    assert ask(processing.access_url)[1] == "image/png"


def test_pyvo_cuts_by_the_descriptor_of_the_service(url: str, images: dict[str, fits.HDUList]) -> None:
    service = SIA2Service(f"{url}/sia2")
    found = service.search(pos=(SkyCoord(*CENTRES["north"], unit="deg"), 0.001 * units.deg), data_type="image")
    record = next(record for record in found if record.obs_publisher_did.endswith("north.fits#0"))
    centre = SkyCoord(*CENTRES["north"], unit="deg")
    links = record.getdatalink()
    cutout = next(link for link in links if link.semantics == "#cutout")
    cut = opened(cutout.processed(circle=(centre.ra, centre.dec, 0.0048 * units.deg)).read())
    assert cut[0].data.shape == (10, 10)
    assert np.array_equal(cut[0].data, images["north"][0].data[45:55, 45:55])


def test_a_job_makes_each_combination_and_outlives_the_portal(
    cloud: sector.LocalCloud, images: dict[str, fits.HDUList]
) -> None:
    form = {"RUNID": "twelve", "BAND": "400e-9 900e-9"}
    query: dict[str, Any] = {
        "ID": [f"{FOLDER}/north.fits#0", f"{FOLDER}/none.fits"],
        "CIRCLE": ["202.47 47.2 0.0098", "10 10 1"],
    }
    with portal(cloud, "--public", "--folder", "/portal-test-jobs") as url:
        status, kind, body = ask(f"{url}/soda/async", form, **query)
        assert status == 200 and kind == "text/xml", "a client is sent to the job"
        job = uws.parse_job(io.BytesIO(body))
        assert (job.phase, job.runid) == ("PENDING", "twelve")
        at = f"{url}/soda/async/{job.jobid}"
        ask(f"{at}/phase", {"PHASE": "RUN"})
        while (job := uws.parse_job(io.BytesIO(ask(at, WAIT=10)[2]))).phase in ("QUEUED", "EXECUTING"):
            pass
        assert job.phase == "COMPLETED"
        results = [(result.id_, result.mimetype if hasattr(result, "mimetype") else None) for result in job.results]
        assert [name for name, _ in results] == [
            "cutout-00001.fits",
            "cutout-00002.txt",
            "cutout-00003.txt",
            "cutout-00004.txt",
        ]
    with portal(cloud, "--public", "--folder", "/portal-test-jobs") as url:
        at = f"{url}/soda/async/{job.jobid}"
        assert uws.parse_job(io.BytesIO(ask(at)[2])).phase == "COMPLETED"
        cut = opened(ask(f"{at}/results/cutout-00001.fits")[2])
        assert np.array_equal(cut[0].data, images["north"][0].data[40:60, 40:60])
        assert ask(f"{at}/results/cutout-00002.txt")[2].startswith(b"no overlap: /portal-images/north.fits")
        assert b"none.fits" in ask(f"{at}/results/cutout-00003.txt")[2]
        listed = ET.fromstring(ask(f"{url}/soda/async")[2])
        assert len(listed) == 0, "a visitor's jobs are known by their names alone"
        assert ask(at, method="DELETE")[0] == 303
        assert ask(at)[0] == 404
    assert not cloud.glob(f"/portal-test-jobs/{job.jobid}/**")


def test_who_may_not_read_an_image_cuts_nothing_of_it(
    cloud: sector.LocalCloud, images: dict[str, fits.HDUList]
) -> None:
    with portal(cloud, "--index", "/portal-index") as url:
        for service in ("soda/sync", "soda/async", "sia2/query", "datalink/links", "cutout"):
            status, _, body = ask(f"{url}/{service}", ID=f"{FOLDER}/north.fits")
            assert (status, body.split(b":")[0]) == (401, b"AuthenticationError"), service
        assert ask(f"{url}/soda/capabilities")[0] == 200
        assert b"<vosi:available>true" in ask(f"{url}/soda/availability")[2]


def test_the_short_address_cuts_the_nearest_image(url: str, images: dict[str, fits.HDUList]) -> None:
    ra, dec = CENTRES["seam"]
    status, kind, body = ask(f"{url}/cutout", ra=ra, dec=dec, size="36arcsec", layer="r")
    assert (status, kind) == (200, "application/fits")
    assert np.array_equal(opened(body)[0].data, images["seam"][0].data[45:55, 45:55])
    assert ask(f"{url}/cutout", ra="00:00:02.4", dec="-10:00:00", format="png")[1] == "image/png"
    assert ask(f"{url}/cutout", ra=ra, dec=dec, layer="z")[0] == 404
    assert ask(f"{url}/cutout", ra=100, dec=10)[0] == 404
    assert ask(f"{url}/cutout", ra=1)[0] == 400


def test_documents_are_what_the_standards_say(url: str) -> None:
    for at in (f"{url}/sia2/query?MAXREC=0", f"{url}/datalink/links?ID={FOLDER}/none.fits"):
        table = parse_votable(io.BytesIO(ask(at)[2]), verify="exception").get_first_table()
        assert table.nrows == (0 if "sia2" in at else 1)
    assert vosi.parse_capabilities(io.BytesIO(ask(f"{url}/soda/capabilities")[2]))
    status, kind, body = ask(f"{url}/sia2/query", POS="BOX 1 2 3 4")
    assert (status, kind) == (400, "application/x-votable+xml") and b'value="ERROR"' in body
