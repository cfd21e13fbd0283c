"""What makes the Python environment of a job, as a function in the sandbox of an SPE. Its one segment is an archive of
wheels. They are installed by the node's own pip, which has no index to ask there, and the result is emitted as an archive.
Serves the path *job*; the node's side is `crates/node/src/task/environments.rs`.

Nothing of the user's is run: wheels are unpacked, and nothing is built.
"""

import compileall
import os
import py_compile
import runpy
import sys
import tarfile
from contextlib import redirect_stderr, redirect_stdout

ARCHIVE, FAULT = 0, 1  # buckets: what was made, or why nothing was
LINES_MAX = 6  # of what pip said


class Bytes:
    """A file over memory, read forward."""

    def __init__(self, memory):
        self.memory, self.at = memory, 0

    def read(self, count):
        begin, self.at = self.at, min(self.at + count, len(self.memory))
        return bytes(self.memory[begin : self.at])


class Results:
    """A file whose bytes are results."""

    def __init__(self, out):
        self.out = out

    def write(self, data):
        self.out.write(bytes(data), bucket=ARCHIVE)
        return len(data)


def make(segment, out):
    """Emits the environment, or why there is none."""
    os.makedirs("wheels")
    with tarfile.open(fileobj=Bytes(segment.buffer), mode="r|") as archive:
        for item in archive:
            name = os.path.basename(item.name)
            if item.isfile() and name.endswith(".whl"):
                with open(os.path.join("wheels", name), "wb") as wheel:
                    wheel.write(archive.extractfile(item).read())
    with open("requirements.txt", "w", encoding="utf-8") as file:
        file.write(segment.parameters["requirements"])
    fault = install()
    if fault:
        out.write(fault.encode(), bucket=FAULT)
        return
    # Here once, since the folder is for reading alone where it is used. Times may change on the way.
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir("environment", quiet=2, invalidation_mode=unchecked)
    with tarfile.open(fileobj=Results(out), mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for folder, folders, names in os.walk("environment"):
            folders.sort()
            for name in sorted(names):
                place = os.path.join(folder, name)
                if os.path.isfile(place) and not os.path.islink(place):
                    add(archive, place)


def add(archive, place):
    """Adds a file by its path below the environment, and whether it may be run."""
    status = os.stat(place)
    item = tarfile.TarInfo(os.path.relpath(place, "environment"))
    item.size, item.mode = status.st_size, 0o755 if status.st_mode & 0o100 else 0o644
    with open(place, "rb") as file:
        archive.addfile(item, file)


def install():
    """Installs what is required; what pip said where that failed."""
    words = "--isolated install --no-index --find-links wheels --only-binary :all: --target environment --no-compile"
    words += " --no-cache-dir --disable-pip-version-check --no-input --quiet -r requirements.txt"
    sys.argv = ["pip", *words.split()]
    with open("pip.log", "w", encoding="utf-8") as log, redirect_stdout(log), redirect_stderr(log):
        try:
            runpy.run_module("pip", run_name="__main__")
            code = 0
        except SystemExit as ended:
            code = ended.code
        except ImportError as error:
            return f"the Python of this node has no pip: {error}"
    os.makedirs("environment", exist_ok=True)
    if not code:
        return ""
    with open("pip.log", encoding="utf-8", errors="replace") as log:
        lines = [line.strip() for line in log if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines
    return " / ".join(errors[-LINES_MAX:]) or f"pip ended with {code}"
