"""Cutouts by astropy's `Cutout2D` with all cores, of images like those of `sector images bench`.

    python bench/astropy_cutouts.py FOLDER --images 50 --cutouts 20000

The images are made in FOLDER where they are missing: 1536 x 2048 pixels of 16 bits, plain and by RICE_1. Each cutout has
100 x 100 pixels and becomes a FITS file in memory, as it does there. Files stay open from cutout to cutout.
"""

import argparse
import io
import multiprocessing
import time
from pathlib import Path

import numpy as np
from astropy.io import fits
from astropy.nddata import Cutout2D
from astropy.wcs import WCS

WIDTH, HEIGHT, SIDE = 1536, 2048, 100
OPEN: dict[Path, tuple[fits.HDUList, WCS]] = {}


def make(file: Path, seed: int, rice: bool) -> None:
    """An image of noise."""
    random = np.random.default_rng(seed)
    pixels = random.normal(1100, 9, (HEIGHT, WIDTH)).astype(np.int16)
    header = fits.Header({"CTYPE1": "RA---TAN", "CTYPE2": "DEC--TAN", "CRVAL1": seed, "CRVAL2": 10.0})
    header.update({"CRPIX1": WIDTH / 2, "CRPIX2": HEIGHT / 2, "CDELT1": -0.4 / 3600, "CDELT2": 0.4 / 3600})
    hdu = fits.CompImageHDU(pixels, header, compression_type="RICE_1") if rice else fits.PrimaryHDU(pixels, header)
    hdu.writeto(file)


def cut(task: tuple[Path, int]) -> float:
    """One cutout; how long it took in seconds."""
    file, number = task
    begun = time.perf_counter()
    if file not in OPEN:
        opened = fits.open(file, memmap=True)
        OPEN[file] = (opened, WCS(opened[-1].header))
    opened, wcs = OPEN[file]
    x, y = 51 + number * 7919 % (WIDTH - 101), 51 + number * 104729 % (HEIGHT - 101)
    # `.section` decodes the tiles that a cutout touches; `.data` would decode them all.
    if "rice" in file.name:
        pixels = opened[-1].section[y - 51 : y + 49, x - 51 : x + 49]
        header = wcs[y - 51 : y + 49, x - 51 : x + 49].to_header()
    else:
        cutout = Cutout2D(opened[-1].data, (x - 1, y - 1), SIDE, wcs=wcs)
        pixels, header = cutout.data, cutout.wcs.to_header()
    content = io.BytesIO()
    fits.PrimaryHDU(pixels, header).writeto(content, checksum=True)
    return time.perf_counter() - begun


def main() -> None:
    """Makes the images, and measures each kind."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--images", type=int, default=50)
    arguments.add_argument("--cutouts", type=int, default=20_000)
    wanted = arguments.parse_args()
    wanted.folder.mkdir(exist_ok=True)
    for kind in ("plain", "rice"):
        files = [wanted.folder / f"{kind}-{number:05}.fits" for number in range(wanted.images)]
        for seed, file in enumerate(files):
            if not file.exists():
                make(file, seed, kind == "rice")
        tasks = [(files[number % len(files)], number) for number in range(wanted.cutouts)]
        with multiprocessing.Pool() as pool:
            pool.map(cut, tasks[: 20 * len(files)])
            begun = time.perf_counter()
            times = sorted(pool.imap_unordered(cut, tasks, chunksize=64))
            seconds = time.perf_counter() - begun
        median = times[len(times) // 2] * 1000
        print(
            f"{kind}: {len(tasks) / seconds:.0f} cutouts/s, median {median:.3f} ms, {multiprocessing.cpu_count()} processes"
        )


if __name__ == "__main__":
    main()
