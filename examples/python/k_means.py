"""k-means by iterated jobs: each gives every point to its nearest centre and averages, until the centres stay put.

A job is two stages. The first leaves, of each segment, one sum for each centre: so little travels, however many points
there are. The second adds up the sums of a centre, which have met in its bucket. The centres are a side file: each node
gets them once, and every call of the first stage reads them there.
"""

import numpy

import sector

CENTRES = 4
ROUNDS_MAX = 50  # such data need some ten


def sums(segment, out):
    """The first stage: for each centre, of a segment's points that are nearest to it their number and their sum."""
    centres = numpy.frombuffer(segment.side["centres"]).reshape(-1, 2)
    points = segment.numpy("<f8").reshape(-1, 2)
    nearest = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2).argmin(axis=1)
    for centre in range(len(centres)):
        mine = points[nearest == centre]
        out.emit(numpy.array([centre, len(mine), *mine.sum(axis=0)]).tobytes(), bucket=centre)


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
        cloud.write_bytes("/centres/now", centres.tobytes())
        job = stream.map(sums, buckets=CENTRES, side={"centres": "/centres/now"}).map(average).to(f"/centres/{number}")
        job.run(progress=False)
        rows = numpy.frombuffer(b"".join(cloud.read_bytes(path) for path in job.outputs)).reshape(-1, 3)
        before, centres = centres, centres.copy()
        centres[rows[:, 0].astype(int)] = rows[:, 1:]
        if numpy.abs(centres - before).max() < 1e-6:
            break
    assert numpy.abs(centres - wanted).max() < 0.1, centres
    print(f"after {number + 1} rounds:", *(f"({x:.2f}, {y:.2f})" for x, y in centres))
