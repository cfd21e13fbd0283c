"""MalStone-A in NumPy: which sites compromise the entities that visit them (paper of the Open Cloud Testbed, 5).

A job is three stages. The first sends each visit to the bucket of its entity, as three numbers instead of a line. The
second has all visits of some entities. For each site it knows who visited it first when, and who was flagged at or
after that. It leaves two counts a site. The third adds these up. `sector oct malstone a` is the same, built in.
"""

import numpy

import sector

FIELDS = {"event": 31, "time": 26, "site": 19, "flag": 1, "entity": 19}  # each with a separator behind it
STARTS = [0, 32, 59, 79, 81]
LINE = numpy.dtype(
    {"names": list(FIELDS), "offsets": STARTS, "formats": [f"S{n}" for n in FIELDS.values()], "itemsize": 101}
)
VISIT = numpy.dtype([("entity", "<u8"), ("site", "<u8"), ("time", "<i8"), ("flag", "<u8")])
COUNTS = numpy.dtype([("site", "<u8"), ("marked", "<u8"), ("visitors", "<u8")])


def visits(segment, out):
    """The first stage: each visit to the bucket of its entity."""
    lines = segment.numpy(LINE)
    found = numpy.empty(len(lines), VISIT)
    for name in ("entity", "site", "flag"):
        found[name] = lines[name].astype("u8")
    found["time"] = lines["time"].astype("U").astype("M8[us]").astype("i8")
    for bucket in range(segment.buckets):
        mine = found[found["entity"] % segment.buckets == bucket]
        out.write(mine.tobytes(), bucket=bucket, records=len(mine))


def sites(segment, out):
    """The second stage: for each site, how many entities visited it, and how many were flagged at or after that."""
    rows = numpy.sort(segment.numpy(VISIT), order=["entity", "site", "time"])
    entities, entity = numpy.unique(rows["entity"], return_inverse=True)
    last_flag = numpy.full(len(entities), numpy.iinfo("i8").min)
    flagged = rows["flag"] == 1
    numpy.maximum.at(last_flag, entity[flagged], rows["time"][flagged])
    first = numpy.ones(len(rows), bool)  # of an entity's visits to a site
    first[1:] = (rows["entity"][1:] != rows["entity"][:-1]) | (rows["site"][1:] != rows["site"][:-1])
    found, site = numpy.unique(rows["site"][first], return_inverse=True)
    counts = numpy.empty(len(found), COUNTS)
    counts["site"] = found
    counts["visitors"] = numpy.bincount(site)
    counts["marked"] = numpy.bincount(site, last_flag[entity[first]] >= rows["time"][first])
    out.write(counts.tobytes(), bucket=0, records=len(counts))


def ratios(segment, out):
    """The third stage: the sums of each site, as lines of CSV."""
    rows = segment.numpy(COUNTS)
    found, site = numpy.unique(rows["site"], return_inverse=True)
    marked, visitors = (numpy.bincount(site, rows[name]).astype(int) for name in ("marked", "visitors"))
    for line in numpy.column_stack([found, marked, visitors]).tolist():
        out.emit(b"%d,%d,%d,%.6f\n" % (*line, line[1] / line[2]))


def log(records, random):
    """Lines of a log; nine in ten entities that go to site 1 or 2 are flagged from the next day on."""
    entity, site = random.integers(1, 2_000, records), (random.pareto(1, records) * 5 + 1).clip(1, 300).astype(int)
    time = numpy.datetime64("2009-01-01", "us") + random.integers(0, 365 * 86_400_000_000, records)
    caught = (site <= 2) & (entity % 10 > 0)
    tagged = numpy.full(2_000, numpy.datetime64("2030-01-01", "us"))
    numpy.minimum.at(tagged, entity[caught], time[caught] + numpy.timedelta64(1, "D"))
    rows = zip(range(records), numpy.datetime_as_string(time), site, time >= tagged[entity], entity, strict=True)
    text = "".join(f"{n:031}|{t[:10]} {t[11:]}|{s:019}|{f:d}|{e:019}\n" for n, t, s, f, e in rows)
    return text.encode(), (entity, site, time, time >= tagged[entity])


def plain(entity, site, time, flag):
    """The same, visit by visit."""
    first, last = {}, {}
    for e, s, t, f in zip(entity, site, time, flag, strict=True):
        first[s, e] = min(t, first.get((s, e), t))
        if f:
            last[e] = max(t, last.get(e, t))
    answer = {}
    for (s, e), t in first.items():
        marked, visitors = answer.get(s, (0, 0))
        answer[s] = (marked + (e in last and last[e] >= t), visitors + 1)
    return answer


if __name__ == "__main__":
    text, columns = log(50_000, numpy.random.default_rng(5))
    with sector.up(nodes=2) as cloud:
        cloud.write_bytes("/log", text, records=f"fixed:{LINE.itemsize}")
        stream = cloud.stream("/log", segment_bytes=(500_000, 1_000_000))
        job = stream.map(visits, buckets=4).map(sites, buckets=1).map(ratios).to("/ratios")
        job.run(progress=False)
        lines = b"".join(cloud.read_bytes(path) for path in job.outputs).decode().splitlines()
    rows = [line.split(",") for line in lines]
    found = {int(site): (int(marked), int(visitors)) for site, marked, visitors, _ in rows}
    assert found == plain(*columns)
    worst = max(found, key=lambda site: found[site][0] / found[site][1])
    print(f"{len(found)} sites; of {found[worst][1]} visitors of site {worst}, {found[worst][0]} were flagged")
