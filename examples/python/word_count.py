"""How often each word stands in some files, in two stages: the first gives each word to its bucket, the second counts a bucket.

Run it with a folder of text files, or without: `python word_count.py [FOLDER]`.
"""

import asyncio
import sys
from collections import Counter
from pathlib import Path

import sector

folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(asyncio.__file__).parent


def words(segment, out):
    """Each word of a segment with how often it stands there; equal words meet in one bucket."""
    counts = Counter(word for line in segment.lines() for word in line.split())
    for word, count in counts.items():
        out.emit(b"%s\t%d\n" % (word, count), bucket=word)


def total(segment, out):
    """Adds up the counts of each word of a bucket."""
    totals = Counter()
    for line in segment.lines():
        word, count = line.rsplit(b"\t", 1)
        totals[word] += int(count)
    for word, count in totals.items():
        out.emit(b"%s\t%d\n" % (word, count))


with sector.up(nodes=2) as cloud:
    files = [file for file in sorted(folder.glob("*")) if file.is_file()]
    for file in files:
        cloud.put(file, f"/text/{file.name}", records="lines")
    job = cloud.stream("/text").map(words, buckets=4, records="lines").map(total, records="lines").to("/counts")
    job.run()
    counts = Counter(dict(line.rsplit(b"\t", 1) for path in job.outputs for line in cloud.open(path, "rb")))
    assert sum(map(int, counts.values())) == sum(len(file.read_bytes().split()) for file in files)
    print(f"{len(counts)} words; `def` stands {int(counts[b'def'])} times")
