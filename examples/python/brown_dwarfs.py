"""Looks for brown dwarfs in FITS images: stars that are bright in the red and nearly missing in the blue.

Two streams, the red images and the blue ones, are read together file by file; a function finds the stars of a red image with
astropy and NumPy, measures the same places in the blue one, and emits a line for each star whose colour says brown dwarf.

Run it with two folders of images of the same fields under the same names: `python brown_dwarfs.py RED BLUE`; or without,
with an image of the cluster M13 that comes with astropy, to which a few stars are added that shine in the red alone.
"""

import importlib.resources
import io
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from astropy.io import fits
from astropy.stats import sigma_clipped_stats
from astropy.wcs import WCS

import sector

COLOUR_LIMIT = 2.0  # magnitudes that a star is fainter in the blue
SIGNAL_LIMIT = 12.0  # times the noise that a star's brightest pixel stands above the sky
APERTURE = 3  # pixels from the middle of a star to where its light is no longer added up
ZERO_POINT = 25.0  # magnitude of a star that gives one count


def brown_dwarfs(segment, out):
    """A line for each candidate: file, right ascension and declination in degrees, red magnitude, blue minus red."""

    def image_of(stream):
        # A whole file is one record; astropy wants something that it can read like a file.
        with fits.open(io.BytesIO(stream.buffer)) as units:
            unit = next(unit for unit in units if unit.data is not None and unit.data.ndim == 2)
            return unit.data.astype(np.float64), unit.header

    def light_at(image, sky, y, x):
        part = image[max(y - APERTURE, 0) : y + APERTURE + 1, max(x - APERTURE, 0) : x + APERTURE + 1]
        return (part - sky).sum()

    (red, header), (blue, _) = (image_of(stream) for stream in segment.streams)
    if red.shape != blue.shape:
        raise ValueError(f"{segment.path} has {red.shape} pixels, and the image beside it {blue.shape}")
    (_, red_sky, red_noise), (_, blue_sky, blue_noise) = (
        sigma_clipped_stats(image, sigma=3.0) for image in (red, blue)
    )
    # A star's middle is brighter than all pixels around it.
    inner = red[1:-1, 1:-1]
    height, width = red.shape
    around = [red[y : height - 2 + y, x : width - 2 + x] for y in range(3) for x in range(3) if (y, x) != (1, 1)]
    is_star = (inner > red_sky + SIGNAL_LIMIT * red_noise) & np.all([inner >= other for other in around], axis=0)
    stars = np.argwhere(is_star) + 1
    out.count("stars", len(stars))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        places = WCS(header)
    for y, x in stars:
        light = light_at(red, red_sky, y, x)
        # What is missing in the blue is as bright as its noise at most.
        dim = max(light_at(blue, blue_sky, y, x), blue_noise * (2 * APERTURE + 1))
        colour = 2.5 * np.log10(light / dim) if light > 0 else 0.0
        if colour >= COLOUR_LIMIT:
            ra, dec = places.all_pix2world([[x, y]], 0)[0]
            magnitude = ZERO_POINT - 2.5 * np.log10(light)
            out.emit(f"{segment.path}\t{ra:.5f}\t{dec:.5f}\t{magnitude:.2f}\t{colour:.2f}\n".encode())
            out.count("candidates")
        out.progress()


def fields(folder):
    """Images of two bands in a folder, of four parts of M13; where in the sky the stars are that were added, by image."""
    source = importlib.resources.files("astropy") / "io/fits/hdu/compressed/tests/data/m13.fits"
    with source.open("rb") as file, fits.open(file) as units:
        cluster, header = units[0].data, units[0].header
    random, added = np.random.default_rng(13), {}
    for number in range(4):
        top, left = 150 * (number // 2), 150 * (number % 2)
        part = header.copy()
        part["CRPIX1"], part["CRPIX2"] = header["CRPIX1"] - left, header["CRPIX2"] - top
        blue = cluster[top : top + 150, left : left + 150]
        red, name = blue.astype(np.float64), f"field-{number}.fits"
        # Nowhere else than at the dark edge of the field: in the cluster's middle no star stands alone.
        y, x = (int(random.integers(8, 20)) if at == 0 else int(random.integers(130, 142)) for at in (top, left))
        below, right = np.mgrid[0:150, 0:150]
        red += (number + 1) * 900 * np.exp(-((below - y) ** 2 + (right - x) ** 2) / 2.0)
        for band, image in (("red", red), ("blue", blue)):
            file = Path(folder, band, name)
            file.parent.mkdir(exist_ok=True)
            fits.writeto(file, image.astype(np.int16), part)
        added[name] = WCS(part).all_pix2world([[x, y]], 0)[0]
    return Path(folder, "red"), Path(folder, "blue"), added


with tempfile.TemporaryDirectory() as folder, sector.up(nodes=2) as cloud:
    given = [Path(argument) for argument in sys.argv[1:3]]
    red, blue, added = (*given, {}) if len(given) == 2 else fields(folder)
    cloud.put(red, "/red", recursive=True)
    cloud.put(blue, "/blue", recursive=True)
    bands = cloud.stream("/red", records="file") + cloud.stream("/blue", records="file")
    job = bands.map(brown_dwarfs).to("/candidates")
    job.run()
    found = [line.split("\t") for path in job.outputs for line in cloud.open(path)]
    print(f"{len(found)} candidates among {job.status.stages[0].counters['stars']} stars")
    for file, ra, dec, magnitude, colour in sorted(found):
        print(f"{file}: {ra} {dec}, {magnitude} mag in the red, {colour.strip()} mag redder than blue")
    if added:
        assert sorted(Path(file).name for file, *_ in found) == sorted(added), (
            "each field has the star that was added alone"
        )
        for file, *place, _, _ in found:
            assert np.allclose([float(degrees) for degrees in place], added[Path(file).name], atol=1e-4), file
