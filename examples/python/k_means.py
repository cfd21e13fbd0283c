"""k-means by iterated jobs: each gives every point to its nearest centre and averages, until the centres stay put.

A job is two stages. The first leaves, of each segment, one sum for each centre: so little travels, however many points
there are. The second adds up the sums of a centre, which have met in its bucket.
"""

import numpy

import sector

CENTRES = 4
ROUNDS_MAX = 50  # such data need some ten


def sums_near(centres):
    """The first stage, for these centres: for each centre of a segment's points their number and their sum."""

    def sums(segment, out):
        points = segment.numpy("<f8").reshape(-1, 2)
        nearest = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2).argmin(axis=1)
        for centre in range(len(centres)):
            mine = points[nearest == centre]
            out.emit(numpy.array([centre, len(mine), *mine.sum(axis=0)]).tobytes(), bucket=centre)

    return sums


def average(segment, out):
    """The second stage: the new centre, from the sums that are in its bucket."""
    rows = segment.numpy("<f8").reshape(-1, 4)
    count = rows[:, 1].sum()
    if count:
        out.emit(numpy.array([rows[0, 0], *(rows[:, 2:].sum(axis=0) / count)]).tobytes())


random = numpy.random.default_rng(11)
wanted = numpy.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])
points = (wanted[:, None, :] + random.normal(size=(CENTRES, 20_000, 2))).reshape(-1, 2)
random.shuffle(points)

with sector.up(nodes=2) as cloud:
    cloud.write_bytes("/points", points.tobytes(), records="fixed:16")
    stream = cloud.stream("/points", segment_bytes=(100_000, 400_000))
    centres = numpy.array([[1.0, 1.0], [9.0, 1.0], [1.0, 9.0], [5.0, 5.0]])
    for number in range(ROUNDS_MAX):
        job = stream.map(sums_near(centres), buckets=CENTRES).map(average).to(f"/centres/{number}")
        job.run(progress=False)
        rows = numpy.frombuffer(b"".join(cloud.read_bytes(path) for path in job.outputs)).reshape(-1, 3)
        before, centres = centres, centres.copy()
        centres[rows[:, 0].astype(int)] = rows[:, 1:]
        if numpy.abs(centres - before).max() < 1e-6:
            break
    assert numpy.abs(centres - wanted).max() < 0.1, centres
    print(f"after {number + 1} rounds:", *(f"({x:.2f}, {y:.2f})" for x, y in centres))
