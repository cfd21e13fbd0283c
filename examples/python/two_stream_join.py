"""Two streams read together, record by record (`A[] + B[]` of the paper): how far stars have moved between two nights.

Each night is a catalogue of its own, with the same stars in the same order; neither is read by anyone but the nodes
that have it.
"""

import numpy

import sector

STAR = numpy.dtype([("x", "<f8"), ("y", "<f8")])
MOVED = 0.01  # farther than the telescope errs


def moved(segment, out):
    """The number of each star that moved, and how far."""
    before, after = (stream.numpy(STAR) for stream in segment.streams)
    distance = numpy.hypot(after["x"] - before["x"], after["y"] - before["y"])
    first = segment.offset // STAR.itemsize
    for star in numpy.flatnonzero(distance > MOVED):
        out.emit(b"%d %.3f\n" % (first + star, distance[star]))


random = numpy.random.default_rng(7)
first = numpy.empty(100_000, STAR)
first["x"], first["y"] = random.random((2, len(first)))
second = first.copy()
second["x"][[1_234, 77_777]] += 0.25

with sector.up(nodes=2) as cloud:
    for night, stars in [("monday", first), ("tuesday", second)]:
        cloud.write_bytes(f"/sky/{night}", stars.tobytes(), records=f"fixed:{STAR.itemsize}")
    monday, tuesday = (
        cloud.stream(f"/sky/{night}", segment_bytes=(100_000, 400_000)) for night in ("monday", "tuesday")
    )
    job = (monday + tuesday).map(moved).to("/moved")
    job.run()
    found = sorted(line.split() for path in job.outputs for line in cloud.read_bytes(path).decode().splitlines())
    assert found == [["1234", "0.250"], ["77777", "0.250"]], found
    print(f"{len(found)} of {len(first)} stars moved: {found}")
