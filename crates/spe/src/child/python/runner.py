"""What runs in the Python of an SPE: it takes segments from the process that started it, calls the user's function over
each, and gives back what that emits. Serves the path *job*; the other end is `crates/spe/src/child/python.rs`, where the
frames are described.

`sector.test` runs the same code in a process of the user's, as the module `sector._runner`, which is a link to this file.

It needs nothing but the standard library of Python 3.9; NumPy and pyarrow are imported by who asks for them. It opens no
file but what it is handed, and decides nothing: what a function raises is told, and the next segment is waited for.
"""

import array
import gc
import itertools
import json
import mmap
import operator
import os
import socket
import struct
import sys
import time
import types

HEAD = struct.Struct("<4sIQQ")  # kind, a small number, two large ones: their meaning is the kind's
FROM_SPE = struct.Struct("<III")  # kind, bytes of JSON, bytes after it
LOAD, SEGMENT = 1, 2
BATCH_RECORDS = 8192  # records after which a batch goes out
BATCH_BYTES = 512 * 1024  # bytes after which it does
ALONE_BYTES = 64 * 1024  # records of this length are not gathered
CHUNK_BYTES = 1024 * 1024  # lines are split in pieces of about this length
TELL_SECONDS = 0.5  # between two signs of life
COUNTERS_MAX = 64  # names under which a stage counts
DESCRIPTORS_MAX = 16  # that come with one word: a file and its index for each stream, or side files
FRAMES_MAX = 8  # innermost frames that come with an error
NO_KEY = 0xFFFF_FFFF
NO_RECORD = 0xFFFF_FFFF_FFFF_FFFF
NOTHING = memoryview(b"")


class Segment:
    """One segment: whole records of one file.

    buffer      all its bytes, read-only, where the kernel caches the file: nothing is copied
    path        the file's path in Sector
    offset      where in the file the segment begins, in bytes
    index       the segment's number in the stage's input, from 0
    format      how the bytes fall into records: "lines", "fixed", "index", "parquet" or "file"
    record_bytes  bytes of a record, where they are fixed; else 0
    starts      where in the file each record begins, and behind them where the last one ends, a memoryview of numbers;
                None unless the format is "index"
    row_group   which row group of a Parquet file it is, from 0; None for other formats
    rows        rows of that row group
    streams     what each of the job's input streams has of the segment; the first is the segment itself
    buckets     number of buckets of the output
    parameters  what was given with the job, a dict of texts
    side        the side files, a dict of read-only memoryviews: the same in every call, and nothing is copied
    """

    def __init__(self, word, part, files, given, tell):
        self.buffer = view(files[0], part["from"], part["until"])
        self.path = part["path"]
        self.offset = part["from"]
        self.index = word["segment"]
        self.format = part["format"]
        self.record_bytes = part["record_bytes"]
        self.starts = view(files[1], *part["index"]).cast("Q") if part["index"] else None
        self.row_group, self.rows, self._whole = part["row_group"] or (None, None, None)
        if self._whole is not None:
            # What describes the row groups stands at the file's end.
            self._whole = view(files[0], 0, self._whole)
        self.streams = (self,)
        self.buckets = word["buckets"]
        self.parameters, self.side = given
        self._tell = tell
        # The record that is worked on: records before the pieces at hand, and an iterator that knows how many are left.
        self._before, self._pieces, self._count = 0, None, 0

    def __len__(self):
        """Bytes of the segment."""
        return len(self.buffer)

    def __iter__(self):
        raise TypeError("a segment has records: write `for record in segment.records()`, or `for line in segment.lines()`")

    def __repr__(self):
        return f"<segment {self.index} of {self.path}, {len(self.buffer)} bytes from {self.offset}>"

    def records(self):
        """The records, each a memoryview; lines come without their line end. The rows of Parquet come by `arrow()`."""
        if self.format == "parquet":
            raise ValueError("the rows of a Parquet file come as a table: use arrow()")
        if self.format == "lines":
            return map(memoryview, self.lines())
        return itertools.chain.from_iterable(self._view_pieces())

    def lines(self):
        """The records as bytes: the quickest way through text. A segment that is no text is split at line ends too."""
        if self.format == "index":
            return map(bytes, self.records())
        return itertools.chain.from_iterable(self._line_pieces())

    def aligned(self):
        """Tuples of records, one of each stream, for input streams that are aligned by record."""
        return zip(*(stream.records() for stream in self.streams))

    def numpy(self, dtype="uint8"):
        """The bytes as a NumPy array, without a copy. Its length must be a multiple of the type's."""
        import numpy

        return numpy.frombuffer(self.buffer, dtype=dtype) if len(self.buffer) else numpy.empty(0, dtype)

    def arrow(self):
        """The segment as a pyarrow.RecordBatch.

        A row group of Parquet, and a whole Parquet or Arrow file, come with their own columns. Fixed records are one column
        `record` over the segment's own memory, and so are those of an index; lines are one column `line` of texts, or of bytes
        where they are not UTF-8.
        """
        import pyarrow

        if self._whole is not None:
            import pyarrow.parquet

            source = pyarrow.BufferReader(pyarrow.py_buffer(self._whole))
            return _one_batch(pyarrow, pyarrow.parquet.ParquetFile(source).read_row_group(self.row_group))
        if self.format == "index":
            import numpy

            starts = numpy.frombuffer(self.starts, dtype="<i8") - self.offset
            buffers = [None, pyarrow.py_buffer(starts), self._memory(pyarrow)]
            column = pyarrow.Array.from_buffers(pyarrow.large_binary(), len(starts) - 1, buffers)
            return pyarrow.record_batch([column], names=["record"])

        if bytes(self.buffer[:4]) == b"PAR1":
            import pyarrow.parquet

            return _one_batch(pyarrow, pyarrow.parquet.read_table(pyarrow.BufferReader(self._memory(pyarrow))))
        if bytes(self.buffer[:6]) == b"ARROW1":
            return _one_batch(pyarrow, pyarrow.ipc.open_file(self._memory(pyarrow)).read_all())
        if self.format == "fixed":
            kind = pyarrow.binary(self.record_bytes)
            count = len(self.buffer) // self.record_bytes
            column = pyarrow.Array.from_buffers(kind, count, [None, self._memory(pyarrow)])
            return pyarrow.record_batch([column], names=["record"])
        if self.format == "lines":
            return pyarrow.record_batch([_line_column(pyarrow, self._memory(pyarrow))], names=["line"])
        raise ValueError("a segment of whole files is a record batch only where it is a Parquet or an Arrow file")

    def _memory(self, pyarrow):
        return pyarrow.py_buffer(self.buffer)

    def _line_pieces(self):
        # Split by the interpreter's own loop, some at a time; the last line may lack its end.
        buffer, size, at, before = self.buffer, len(self.buffer), 0, 0
        while at < size:
            end = min(at + CHUNK_BYTES, size)
            piece = bytes(buffer[at:end])
            while end < size:
                cut = piece.rfind(b"\n")
                if cut >= 0:
                    piece, end = piece[:cut + 1], at + cut + 1
                    break
                end = min(end + CHUNK_BYTES, size)
                piece = bytes(buffer[at:end])
            lines = piece.split(b"\n")
            if not lines[-1]:
                lines.pop()
            self._tell(at)
            yield self._counted(lines, before)
            at, before = end, before + len(lines)
        self._pieces = None

    def _counted(self, records, before):
        self._before, self._count, self._pieces = before, len(records), iter(records)
        return self._pieces

    def _view_pieces(self):
        buffer, size = self.buffer, self.record_bytes
        if self.format == "file":
            yield self._counted([buffer], 0)
        elif self.format == "index":
            # The interpreter's own loops again: what begins at a start ends at the next.
            begun = self._counted(range(len(self.starts) - 1), 0)
            base = itertools.repeat(self.offset)
            begins = map(operator.sub, map(self.starts.__getitem__, begun), base)
            ends = map(operator.sub, itertools.islice(self.starts, 1, None), base)
            yield map(buffer.__getitem__, map(slice, begins, ends))
        else:
            # Both ranges move together; that of the starts knows how far it is.
            starts = self._counted(range(0, len(buffer), size), 0)
            yield map(buffer.__getitem__, map(slice, starts, range(size, len(buffer) + size, size)))
        self._pieces = None

    def _record(self):
        if self._pieces is None:
            return None
        begun = self._count - self._pieces.__length_hint__()
        return self._before + begun - 1 if begun else None


class Output:
    """Where results go.

    scratch     a folder for temporary files, which is gone with the SPE
    """

    def __init__(self, segment, link, scratch):
        self.scratch = scratch
        self._link, self._index = link, segment.index
        self._buckets, self._records, self._bytes = [], [], 0
        self._counts = {}

    def emit(self, record, bucket=None):
        """Adds one record: bytes or anything with a buffer.

        bucket      a number, taken modulo the number of buckets; or bytes or a text, whose hash decides, so that equal
                    keys meet; nothing is the segment's own number
        """
        if type(record) is not bytes:
            record = _plain(record)
        if type(bucket) is not bytes and type(bucket) is not int:
            bucket = self._bucket(bucket)
        self._records.append(record)
        self._buckets.append(bucket)
        self._bytes += len(record)
        if self._bytes >= BATCH_BYTES or len(self._records) >= BATCH_RECORDS:
            self._flush()

    def write(self, buffer, bucket=None, records=1):
        """Adds many records at once, whose bytes follow each other: the quick way for whole arrays and texts."""
        self._flush()
        self._send_one(self._bucket(bucket), _flat(buffer), records)

    def progress(self, bytes_done=0):
        """Says that work goes on, and how many bytes of the segment are done."""
        self._link.send(HEAD.pack(b"life", 0, bytes_done, 0))

    def count(self, name, n=1):
        """Adds to one of the job's counters: a whole number, 0 or more. A stage has 64 of them at most."""
        n = operator.index(n)
        if n < 0:
            raise ValueError(f"a counter only grows: {n} cannot be added to {name!r}")
        counted = self._counts.get(name)
        if counted is None:
            if not isinstance(name, str):
                raise TypeError(f"the name of a counter is a text, and not {name!r}")
            if len(self._counts) >= COUNTERS_MAX:
                raise ValueError(f"there are more than {COUNTERS_MAX} counters: emit what has many names as results instead")
            counted = 0
        self._counts[name] = counted + n

    def _end(self):
        self._flush()
        for name, count in self._counts.items():
            data = name.encode("utf-8", "replace")
            self._link.send(HEAD.pack(b"cntr", len(data), count % 2**64, 0), data)

    def _bucket(self, bucket):
        if bucket is None:
            return self._index
        if isinstance(bucket, str):
            return bucket.encode()
        if isinstance(bucket, (bytes, bytearray, memoryview)):
            return bytes(bucket)
        try:
            return operator.index(bucket)
        except TypeError:
            raise TypeError(f"a bucket is a number, bytes or a text, and not {bucket!r}") from None

    def _flush(self):
        records, buckets = self._records, self._buckets
        if not records:
            return
        self._records, self._buckets, self._bytes = [], [], 0
        kinds = set(map(type, buckets))
        if len(kinds) == 1 and max(map(len, records)) < ALONE_BYTES:
            if int in kinds:
                return self._send_numbered(buckets, records)
            if max(map(len, buckets)) < ALONE_BYTES // 16:
                return self._send_keyed(buckets, records)
        for bucket, record in zip(buckets, records):
            self._send_one(bucket, record, 1)

    def _send_numbered(self, buckets, records):
        try:
            numbers = array.array("Q", buckets)
        except OverflowError:
            numbers = array.array("Q", [bucket % 2**64 for bucket in buckets])
        lengths, payload = array.array("I", map(len, records)), b"".join(records)
        self._link.send(HEAD.pack(b"numb", len(records), 0, len(payload)), numbers.tobytes(), lengths.tobytes(), payload)

    def _send_keyed(self, buckets, records):
        key_lengths, lengths = array.array("I", map(len, buckets)), array.array("I", map(len, records))
        keys, payload = b"".join(buckets), b"".join(records)
        head = HEAD.pack(b"keys", len(records), len(keys), len(payload))
        self._link.send(head, key_lengths.tobytes(), lengths.tobytes(), keys, payload)

    def _send_one(self, bucket, record, records):
        if isinstance(bucket, bytes):
            head = HEAD.pack(b"one ", len(bucket), records, len(record)) + bucket
        else:
            head = HEAD.pack(b"one ", NO_KEY, records, len(record)) + struct.pack("<Q", bucket % 2**64)
        self._link.send(head, record)


class Link:
    """The socket to the SPE."""

    def __init__(self, connection):
        self.connection, self.told = connection, 0.0

    def send(self, *parts):
        # What is long goes by itself, without another copy.
        if sum(map(len, parts)) < ALONE_BYTES:
            parts = [b"".join(parts)]
        for part in parts:
            self.connection.sendall(part)

    def tell(self, bytes_done):
        """A sign of life, unless there was one a moment ago."""
        now = time.monotonic()
        if now - self.told >= TELL_SECONDS:
            self.told = now
            self.send(HEAD.pack(b"life", 0, bytes_done, 0))

    def text(self, kind, number, text):
        data = text.encode("utf-8", "replace")
        self.send(HEAD.pack(kind, 0, number, len(data)), data)

    def receive(self):
        """The next word with the descriptors that came; None when the SPE is gone."""
        descriptors = []
        head = self._exactly(FROM_SPE.size, descriptors)
        if head is None:
            return None
        kind, json_bytes, more_bytes = FROM_SPE.unpack(head)
        body = self._exactly(json_bytes, descriptors)
        more = self._exactly(more_bytes, descriptors)
        return kind, json.loads(bytes(body)), more, descriptors

    def _exactly(self, count, descriptors):
        data = bytearray(count)
        view, filled = memoryview(data), 0
        while filled < count:
            got, came, _, _ = socket.recv_fds(self.connection, count - filled, DESCRIPTORS_MAX)
            if not got:
                return None
            view[filled:filled + len(got)] = got
            filled += len(got)
            descriptors.extend(came)
        return data


class Refused(Exception):
    """A function that cannot be loaded: a sentence for the person who sent it."""


def lay_modules(modules, code, scratch):
    """Puts the modules that stand behind a function's code where they are found first, and gives the code alone."""
    if not modules:
        return code
    folder = os.path.join(scratch, "modules")
    at = end = len(code) - sum(size for _, size in modules)
    for path, size in modules:
        place = os.path.join(folder, *path.split("/"))
        try:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "wb") as file:
                file.write(code[at:at + size])
        except OSError as error:
            raise Refused(
                f"the file `{path}` of the function's modules could not be written to its scratch folder "
                f"(`spe_scratch_bytes`): {error}"
            ) from None
        at += size
    sys.path.insert(0, folder)
    return code[:end]


def load(word, code):
    """The function that a word describes, wrapped so that it takes a segment and an output."""
    version = "%d.%d" % sys.version_info[:2]
    if word["python"] and word["python"] != version:
        raise Refused(
            f"`{word['name']}` was pickled by Python {word['python']}, and this node's functions run in Python {version}: "
            "use that version, have the node's `spe_python` name yours, or send the function as FILE.py:FUNCTION"
        )
    # Another version of it usually reads the pickle too, so only a failure tells that this one does not.
    pickled_by = dict(word["requires"]).get("cloudpickle") if word["python"] else None
    for name, wanted in word["requires"]:
        if name != "cloudpickle" or not word["python"]:
            check_module(word["name"], name, wanted)
    try:
        function = unpickle(code) if word["python"] else from_source(word, code)
    except ModuleNotFoundError as error:
        raise Refused(missing(word["name"], error.name)) from None
    except Refused:
        raise
    except BaseException as error:
        other = other_cloudpickle(pickled_by)
        raise Refused(f"`{word['name']}` could not be loaded: {describe(error)}{other}") from None
    if not callable(function):
        raise Refused(f"`{word['name']}` is no function")
    return adapt(word["name"], function)


def check_module(function, name, wanted):
    import importlib.metadata
    import importlib.util

    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise Refused(missing(function, name))
    if wanted is not None:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            version = str(getattr(__import__(name), "__version__", "of no known version"))
        if version != wanted:
            raise Refused(
                f"`{function}` needs `{name}` {wanted}, and the Python of this node has {version}: install the same there "
                "(`spe_python`) or here"
            )


def other_cloudpickle(wanted):
    """What to say of a pickle that failed, where it was made by another version of `cloudpickle`."""
    import importlib.metadata

    try:
        found = importlib.metadata.version("cloudpickle")
    except importlib.metadata.PackageNotFoundError:
        found = "none"
    if wanted is None or found == wanted:
        return ""
    return (
        f"; it was pickled by cloudpickle {wanted}, and the Python of this node ({sys.executable}) has {found}: install "
        "the same there or here, or have the node's `spe_python` name the Python that pickled it"
    )


def missing(function, module):
    return (
        f"`{function}` needs the module `{module}`, which the Python of this node does not have: install it for "
        f"{sys.executable} on the nodes, or have `spe_python` name a Python that has it"
    )


def unpickle(code):
    try:
        import cloudpickle
    except ModuleNotFoundError:
        import pickle

        # A function of an installed module travels by name and needs no more than that.
        return pickle.loads(code)
    return cloudpickle.loads(code)


def from_source(word, code):
    import linecache

    file, text = word["file"], bytes(code).decode("utf-8")
    module = types.ModuleType(os.path.splitext(os.path.basename(file))[0])
    module.__file__ = file
    sys.modules[module.__name__] = module
    # For tracebacks: the file itself is elsewhere.
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    exec(compile(text, file, "exec"), module.__dict__)
    found = module
    for part in word["name"].split("."):
        found = getattr(found, part, None)
    if found is None:
        names = [name for name, value in vars(module).items() if isinstance(value, types.FunctionType)]
        others = f"; it has {', '.join(names)}" if names else ""
        raise Refused(f"`{file}` has no function `{word['name']}`{others}")
    return found


def adapt(name, function):
    import inspect

    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return function
    if binds(signature, 2):
        return function
    if not binds(signature, 1):
        raise Refused(f"`{name}` takes {signature}: a function takes (segment, out), or (segment) alone")

    def returning(segment, out):
        emit_all(function(segment), out)

    return returning


def binds(signature, count):
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def emit_all(results, out):
    """What a function of one argument returned: nothing, a record, or several; a pair is a key and its record."""
    if results is None:
        return
    if isinstance(results, (bytes, bytearray, memoryview)):
        results = [results]
    for result in results:
        if isinstance(result, tuple):
            key, record = result
            out.emit(record, bucket=key)
        else:
            out.emit(result)


def call(function, word, descriptors, link, given, scratch):
    """Runs the function over one segment and says how it ended; `given` is what all its segments have alike."""
    try:
        segment = open_segment(word, descriptors, link, given)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    out = Output(segment, link, scratch)
    try:
        function(segment, out)
        out._end()
    except BaseException as error:
        record = segment._record()
        flush_prints()
        return link.text(b"fail", NO_RECORD if record is None else record, describe(error))
    flush_prints()
    link.text(b"done", 0, "")


def flush_prints():
    """Sends on what was printed without a line end. A function may have put anything in place of the streams."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


def open_segment(word, descriptors, link, given):
    """The segment, with what further streams have of it."""
    files = iter(descriptors)
    streams = []
    for part in word["parts"]:
        own = [next(files)] + ([next(files)] if part["index"] else [])
        streams.append(Segment(word, part, own, given, link.tell))
    for stream in streams:
        stream.streams = tuple(streams)
    return streams[0]


class SideFiles(dict):
    """Side files by name."""

    def __missing__(self, name):
        raise KeyError(f"there is no side file {name!r}: give it with `--side {name}=PATH`, or `side=` of `map`")


def open_side(files, descriptors):
    """The side files, whose names and lengths came with their descriptors."""
    try:
        return SideFiles((name, view(descriptor, 0, size)) for (name, size), descriptor in zip(files, descriptors))
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def view(descriptor, start, end):
    """These bytes of a file, where the kernel has them. The mapping lives as long as somebody holds the view."""
    if start == end:
        return NOTHING
    base = start - start % mmap.ALLOCATIONGRANULARITY
    # Private, since not every sandbox allows shared memory; nobody can write to it all the same.
    mapped = mmap.mmap(descriptor, end - base, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ, offset=base)
    return memoryview(mapped)[start - base:]


def describe(error):
    """What happened in one line, then where: the user's own frames, the innermost last."""
    import traceback

    what = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()
    first = what[-1] if what else type(error).__name__
    if isinstance(error, MemoryError):
        first += " (`spe_memory_bytes` of the node is the most an SPE may have)"
    if isinstance(error, SyntaxError):
        return f"{first} ({error.filename}, line {error.lineno})"
    walked = [place for place in traceback.walk_tb(error.__traceback__) if place[0].f_globals is not globals()]
    frames = traceback.StackSummary.extract(walked[-FRAMES_MAX:]).format()
    return "\n".join([first] + [frame.rstrip() for frame in frames])


def _plain(record):
    if isinstance(record, str):
        raise TypeError("a record is bytes, and not a text: encode it")
    shown = memoryview(record)
    # What may change under us is copied now, and what is not one run of bytes.
    return shown if shown.readonly and shown.c_contiguous and shown.format == "B" and shown.ndim == 1 else shown.tobytes()


def _flat(buffer):
    shown = memoryview(buffer)
    if not shown.nbytes:
        return NOTHING
    try:
        return shown.cast("B")
    except TypeError:
        # Strides, or numbers of another machine's order.
        return shown.tobytes()


def _one_batch(pyarrow, table):
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pyarrow.RecordBatch.from_pylist([], schema=table.schema)


def _line_column(pyarrow, memory):
    import pyarrow.compute

    size = memory.size
    if size and memory[size - 1:size].to_pybytes() == b"\n":
        memory, size = memory[:size - 1], size - 1
    elif not size:
        return pyarrow.array([], pyarrow.large_string())
    ends = pyarrow.py_buffer(struct.pack("<qq", 0, size))
    whole = pyarrow.Array.from_buffers(pyarrow.large_binary(), 1, [None, ends, memory])
    lines = pyarrow.compute.split_pattern(whole, b"\n").flatten()
    try:
        return lines.cast(pyarrow.large_string())
    except pyarrow.ArrowInvalid:
        return lines


def main():
    # What a function reads from its standard input must not be the SPE's words.
    connection = socket.socket(fileno=os.dup(0))
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="replace")
    link, function, given = Link(connection), None, ({}, {})
    while True:
        word = link.receive()
        if word is None:
            return
        kind, body, more, descriptors = word
        if kind == LOAD:
            given = body["parameters"], open_side(body["side"], descriptors)
            try:
                if body["environment"]:
                    # Before what the node has, and behind the user's own modules.
                    sys.path.insert(0, body["environment"])
                function = load(body, lay_modules(body["modules"], more, os.getcwd()))
            except Refused as refused:
                link.text(b"deny", 0, str(refused))
            else:
                # What is loaded stays: it need not be looked through again and again.
                gc.freeze()
                link.text(b"load", 0, "")
        elif kind == SEGMENT:
            call(function, body, descriptors, link, given, os.getcwd())


if __name__ == "__main__":
    main()
