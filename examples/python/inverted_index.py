"""Which words stand in which files: a job of two stages over Python's own sources, in a cloud of one's own.

Run it with a folder of text files, or without: `python inverted_index.py [FOLDER]`.
"""

import asyncio
import sys
from pathlib import Path

import sector

folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(asyncio.__file__).parent

with sector.up(nodes=2) as cloud:
    for file in sorted(folder.glob("*")):
        if file.is_file():
            cloud.put(file, f"/text/{file.name}", records="lines")
    job = cloud.stream("/text").map("words", buckets=4).map("index").to("/index")
    job.run()
    lines = sorted(line for path in job.outputs for line in cloud.open(path))
    print(f"{len(lines)} words in {len(cloud.ls('/text'))} files; the first and the last:")
    print(lines[0], lines[-1], sep="")
