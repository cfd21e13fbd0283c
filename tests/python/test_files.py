"""Files and names, as Python's own files behave; and where a cloud's are better, as the docstrings say."""

import errno
import io
import os
import signal
import subprocess
import sys
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

import sector
from sector import local

MIB = 1024 * 1024


def pattern(size_bytes: int, seed: int = 1) -> bytes:
    """Bytes in which no two blocks are alike."""
    import random

    return random.Random(seed).randbytes(size_bytes)


def test_what_is_written_is_read_back_and_counted(cloud: sector.Cloud, folder: str) -> None:
    path = f"{folder}/deep/below/a.bin"
    with cloud.open(path, "wb") as file:
        assert file.write(b"hello ") == 6
        file.write(memoryview(b"world"))
        assert file.tell() == 11
        assert not cloud.exists(path), "nothing appears before the close"
    entry = cloud.stat(path)
    assert (entry.path, entry.name, entry.kind, entry.size_bytes, entry.owner) == (path, "a.bin", "file", 11, "admin")
    assert entry.digest is not None and len(entry.digest) == 64
    assert entry.copies and all(copy.node and copy.site for copy in entry.copies)
    assert entry.modified.tzinfo is not None
    assert cloud.read_bytes(path) == b"hello world"


@pytest.mark.parametrize("size_bytes", [0, 1, MIB - 1, MIB, 4 * MIB + 1, 23 * MIB + 7])
def test_files_of_every_length_come_back(cloud: sector.Cloud, folder: str, size_bytes: int) -> None:
    content = pattern(size_bytes)
    with cloud.open(f"{folder}/x", "wb") as file:
        for begin in range(0, size_bytes, 777_777):
            file.write(content[begin : begin + 777_777])
    assert cloud.stat(f"{folder}/x").size_bytes == size_bytes
    with cloud.open(f"{folder}/x", "rb") as file:
        assert file.read() == content
        file.seek(0)
        pieces = iter(lambda: file.read(100_001), b"")
        assert b"".join(pieces) == content, "in small reads, which are read ahead of"


def test_a_reader_seeks_like_a_file_of_pythons(cloud: sector.Cloud, folder: str, tmp_path: Path) -> None:
    content = pattern(3 * MIB + 11)
    (tmp_path / "x").write_bytes(content)
    cloud.put(tmp_path / "x", f"{folder}/x")
    with cloud.open(f"{folder}/x", "rb") as ours, (tmp_path / "x").open("rb") as theirs:
        assert ours.seekable() and ours.readable() and not ours.writable()
        for offset, whence, length in [
            (5, 0, 10),
            (-7, 2, 100),
            (100, 1, 3),
            (2 * MIB - 5, 0, 10),
            (-9, 1, 4),
            (9**9, 0, 1),
        ]:
            assert ours.seek(offset, whence) == theirs.seek(offset, whence)
            assert ours.read(length) == theirs.read(length)
            assert ours.tell() == theirs.tell()
        buffer = bytearray(17)
        ours.seek(-10, 2)
        assert isinstance(ours, io.BufferedIOBase) and ours.readinto(buffer) == 10
        assert bytes(buffer[:10]) == content[-10:]
        with pytest.raises(ValueError):
            ours.seek(-1)
    with pytest.raises(ValueError):
        ours.read(1)


def test_libraries_that_seek_and_write_in_pieces_work(cloud: sector.Cloud, folder: str) -> None:
    with cloud.open(f"{folder}/a.zip", "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("one.txt", "1" * 100_000)
        archive.writestr("two.bin", pattern(200_000))
    with cloud.open(f"{folder}/a.zip", "rb") as file, zipfile.ZipFile(file) as archive:
        assert archive.read("two.bin") == pattern(200_000)
        assert archive.testzip() is None


def test_text_is_utf_8_and_lines_come_one_by_one(cloud: sector.Cloud, folder: str) -> None:
    with cloud.open(f"{folder}/t.txt", "w") as file:
        file.write("größe\nzweite Zeile\n")
        print("dritte", file=file)
    with cloud.open(f"{folder}/t.txt") as file:
        assert list(file) == ["größe\n", "zweite Zeile\n", "dritte\n"]
    assert cloud.read_bytes(f"{folder}/t.txt").startswith("größe".encode())
    with cloud.open(f"{folder}/t.txt", "a", encoding="latin-1") as file:
        file.write("ü")
    assert cloud.read_bytes(f"{folder}/t.txt").endswith(b"dritte\n\xfc")


# Promise 57.
@pytest.mark.parametrize("mode", ["wb", "xb", "w"])
@pytest.mark.parametrize("size_bytes", [3, 5 * MIB])
def test_nothing_appears_when_an_exception_leaves_the_with(
    cloud: sector.Cloud, folder: str, mode: str, size_bytes: int
) -> None:
    with pytest.raises(ZeroDivisionError), cloud.open(f"{folder}/x", mode) as file:
        file.write(("a" * size_bytes).encode() if "b" in mode else "a" * size_bytes)
        raise ZeroDivisionError
    assert cloud.ls(folder) == []
    cloud.write_bytes(f"{folder}/x", b"the place is free at once")


# Promise 57.
def test_a_failed_rewrite_leaves_what_was_there(cloud: sector.Cloud, folder: str) -> None:
    cloud.write_bytes(f"{folder}/x", b"first")
    with pytest.raises(ZeroDivisionError), cloud.open(f"{folder}/x", "wb") as file:
        file.write(pattern(3 * MIB))
        raise ZeroDivisionError
    assert cloud.read_bytes(f"{folder}/x") == b"first"


# Promise 57.
def test_a_writer_that_is_forgotten_publishes_nothing_and_says_so(cloud: sector.Cloud, folder: str) -> None:
    file = cloud.open(f"{folder}/x", "wb")
    file.write(pattern(2 * MIB))
    with pytest.warns(ResourceWarning, match="never closed"):
        del file
    text = cloud.open(f"{folder}/y", "w")
    text.write("lines")
    with pytest.warns(ResourceWarning, match="never closed"):
        del text
    assert cloud.ls(folder) == []


def test_a_reader_keeps_the_version_it_opened(cloud: sector.Cloud, folder: str) -> None:
    cloud.write_bytes(f"{folder}/x", pattern(MIB, 1))
    with cloud.open(f"{folder}/x", "rb", buffering=0) as file:
        assert file.read(10) == pattern(MIB, 1)[:10]
        cloud.write_bytes(f"{folder}/x", pattern(MIB, 2))
        try:
            rest = file.read()
        except OSError as error:
            assert isinstance(error, sector.UnavailableError)
        else:
            assert rest == pattern(MIB, 1)[10:]
    assert cloud.read_bytes(f"{folder}/x") == pattern(MIB, 2)


def test_errors_are_pythons_own_with_a_sentence(cloud: sector.Cloud, folder: str) -> None:
    cloud.write_bytes(f"{folder}/file", b"x")
    cloud.mkdir(f"{folder}/full/er", parents=True)
    cases: list[tuple[type[OSError], int, object]] = [
        (FileNotFoundError, errno.ENOENT, lambda: cloud.open(f"{folder}/none")),
        (FileNotFoundError, errno.ENOENT, lambda: cloud.ls(f"{folder}/none")),
        (FileNotFoundError, errno.ENOENT, lambda: cloud.remove(f"{folder}/none")),
        (FileNotFoundError, errno.ENOENT, lambda: cloud.mkdir(f"{folder}/no/ne")),
        (FileNotFoundError, errno.ENOENT, lambda: cloud.rename(f"{folder}/none", f"{folder}/b")),
        (IsADirectoryError, errno.EISDIR, lambda: cloud.open(folder)),
        (IsADirectoryError, errno.EISDIR, lambda: cloud.open(folder, "wb")),
        (IsADirectoryError, errno.EISDIR, lambda: cloud.copy(folder, f"{folder}/b")),
        (NotADirectoryError, errno.ENOTDIR, lambda: cloud.write_bytes(f"{folder}/file/below", b"x")),
        (NotADirectoryError, errno.ENOTDIR, lambda: cloud.mkdir(f"{folder}/file/below")),
        (FileExistsError, errno.EEXIST, lambda: cloud.open(f"{folder}/file", "xb")),
        (FileExistsError, errno.EEXIST, lambda: cloud.mkdir(f"{folder}/full")),
        (OSError, errno.ENOTEMPTY, lambda: cloud.remove(f"{folder}/full")),
        (PermissionError, errno.EPERM, lambda: cloud.remove("/", recursive=True)),
    ]
    for kind, number, call in cases:
        with pytest.raises(OSError) as caught:
            call()  # type: ignore[operator]
        assert (caught.type, caught.value.errno) == (kind, number), caught.value
        assert folder in str(caught.value) or "/" in str(caught.value)
    with pytest.raises(ValueError, match="must start with"):
        cloud.ls("relative")


def test_what_is_full_or_busy_has_an_error_of_its_own(cloud: sector.LocalCloud, folder: str) -> None:
    cloud.mkdir(f"{folder}/small")
    command = [str(local.binary()), "--profile", str(cloud.profile)]
    subprocess.run([*command, "policy", "set", f"{folder}/small", "quota=10kB"], check=True, timeout=120)
    with pytest.raises(OSError, match="quota") as caught:
        cloud.write_bytes(f"{folder}/small/large", bytes(20_000))
    assert (caught.type, caught.value.errno) == (OSError, errno.EDQUOT)
    with cloud.open(f"{folder}/busy", "wb") as first:
        # More than what gathers before an upload begins.
        first.write(bytes(8 * MIB))
        with pytest.raises(sector.BusyError, match="is being written") as caught:
            cloud.write_bytes(f"{folder}/busy", b"second")
        assert caught.value.errno == errno.EBUSY
        with pytest.raises(sector.BusyError):
            cloud.write_bytes(f"{folder}/busy", b"second", wait=0.001)
        with ThreadPoolExecutor(1) as pool:
            second = pool.submit(cloud.write_bytes, f"{folder}/busy", b"second", wait=True)
            first.close()
            assert second.result().size_bytes == 6
    with cloud.open(f"{folder}/other", "wb") as first:
        first.write(bytes(8 * MIB))
        with ThreadPoolExecutor(1) as pool:
            copied = pool.submit(cloud.copy, f"{folder}/busy", f"{folder}/other", wait=timedelta(hours=1))
            first.close()
            assert copied.result().size_bytes == 6
    with pytest.raises(ValueError, match="wait"):
        cloud.write_bytes(f"{folder}/busy", b"third", wait=-1)
    with pytest.raises(ValueError, match="mode"):
        cloud.open(f"{folder}/file", "rw")


def test_an_exclusive_write_that_loses_the_race_is_told_at_its_end(cloud: sector.Cloud, folder: str) -> None:
    file = cloud.open(f"{folder}/x", "xb")
    cloud.write_bytes(f"{folder}/x", b"faster")
    with pytest.raises(FileExistsError):
        file.close()
    assert file.closed
    assert cloud.read_bytes(f"{folder}/x") == b"faster"


def test_names_are_listed_walked_matched_renamed_copied_and_removed(cloud: sector.Cloud, folder: str) -> None:
    for name in ["a.txt", "b.csv", "sub/c.txt", "sub/deep/d.txt"]:
        cloud.write_bytes(f"{folder}/{name}", name.encode())
    assert [entry.name for entry in cloud.ls(folder)] == ["a.txt", "b.csv", "sub"]
    assert [entry.path for entry in cloud.ls(f"{folder}/a.txt")] == [f"{folder}/a.txt"]
    assert cloud.glob(f"{folder}/*.txt") == [f"{folder}/a.txt"]
    assert cloud.glob(f"{folder}/**/d.*") == [f"{folder}/sub/deep/d.txt"]
    assert cloud.glob(f"{folder}/*.none") == []
    assert list(cloud.walk(folder)) == [
        (folder, ["sub"], ["a.txt", "b.csv"]),
        (f"{folder}/sub", ["deep"], ["c.txt"]),
        (f"{folder}/sub/deep", [], ["d.txt"]),
    ]
    cloud.rename(f"{folder}/sub", f"{folder}/moved")
    assert cloud.is_folder(f"{folder}/moved") and not cloud.exists(f"{folder}/sub")
    assert cloud.copy(f"{folder}/a.txt", f"{folder}/new/copy.txt").size_bytes == 5
    assert cloud.read_bytes(f"{folder}/new/copy.txt") == b"a.txt" and cloud.is_file(f"{folder}/a.txt")
    cloud.remove(f"{folder}/moved", recursive=True)
    cloud.remove(f"{folder}/a.txt", now=True)
    assert [entry.name for entry in cloud.ls(folder)] == ["b.csv", "new"]


def test_folders_go_up_and_come_down_whole(cloud: sector.Cloud, folder: str, tmp_path: Path) -> None:
    contents = {f"part-{number}/{name}": pattern(number * 70_000) for number in range(5) for name in ("a", "b")}
    for name, content in contents.items():
        (tmp_path / "up" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "up" / name).write_bytes(content)
    with pytest.raises(IsADirectoryError):
        cloud.put(tmp_path / "up", f"{folder}/up")
    entries = cloud.put(tmp_path / "up", f"{folder}/up", recursive=True, records="lines", copies=1)
    assert len(entries) == 10 and {entry.records for entry in entries} == {"lines"}
    assert {entry.copies_wanted for entry in entries} == {1}
    with pytest.raises(IsADirectoryError):
        cloud.get(f"{folder}/up", tmp_path / "down")
    assert len(cloud.get(f"{folder}/up", tmp_path / "down", recursive=True)) == 10
    for name, content in contents.items():
        assert (tmp_path / "down" / name).read_bytes() == content
    here = tmp_path / "down/part-1/a"
    assert cloud.get(f"{folder}/up/part-1/a", here, overwrite=False) == [here], "it has the bytes already"
    here.write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        cloud.get(f"{folder}/up/part-1/a", here, overwrite=False)
    assert here.read_bytes() == b"mine"
    cloud.get(f"{folder}/up", tmp_path / "down", recursive=True)
    assert here.read_bytes() == contents["part-1/a"]
    with pytest.raises(FileNotFoundError):
        cloud.put(tmp_path / "none", f"{folder}/none")


def test_a_folder_that_goes_up_again_sends_only_what_is_new(cloud: sector.Cloud, folder: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"first")
    (tmp_path / "b").write_bytes(b"second")
    before = {entry.name: entry.version for entry in cloud.put(tmp_path, f"{folder}/up", recursive=True)}
    (tmp_path / "b").write_bytes(b"changed")
    (tmp_path / "link").symlink_to("a")
    with pytest.warns(UserWarning, match="link"):
        after = {entry.name: entry.version for entry in cloud.put(tmp_path, f"{folder}/up", recursive=True)}
    assert set(after) == {"a", "b"} and after["a"] == before["a"] and after["b"] != before["b"]


def test_a_folder_goes_by_the_rule_of_the_command_line(cloud: sector.Cloud, folder: str, tmp_path: Path) -> None:
    (tmp_path / "empty" / "inner").mkdir(parents=True)
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "tab\tname").write_bytes(b"b")
    for _ in range(2):
        with pytest.raises(ValueError, match="control"):
            cloud.put(tmp_path, f"{folder}/up", recursive=True, follow=True)
    assert sorted(entry.name for entry in cloud.ls(f"{folder}/up")) == ["a", "empty", "link"]
    assert cloud.stat(f"{folder}/up/empty/inner").is_folder
    cloud.get(f"{folder}/up", tmp_path / "down", recursive=True)
    assert (tmp_path / "down" / "empty" / "inner").is_dir() and (tmp_path / "down" / "link").read_bytes() == b"a"


def test_a_program_can_be_run_where_it_comes_to(cloud: sector.Cloud, folder: str, tmp_path: Path) -> None:
    for name, mode in (("run.sh", 0o755), ("plain", 0o644)):
        (tmp_path / name).write_text("#!/bin/sh")
        (tmp_path / name).chmod(mode)
        cloud.put(tmp_path / name, f"{folder}/{name}")
        cloud.get(f"{folder}/{name}", tmp_path / f"back-{name}")
    assert [os.access(tmp_path / f"back-{name}", os.X_OK) for name in ("run.sh", "plain")] == [True, False]


def test_a_file_that_fails_holds_up_no_other_and_all_failures_are_told(
    cloud: sector.Cloud, folder: str, tmp_path: Path
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(name.encode())
    # Folders are where files are to go.
    cloud.mkdir(f"{folder}/up/a", parents=True)
    cloud.mkdir(f"{folder}/up/b")
    with pytest.raises(IsADirectoryError) as failed:
        cloud.put(tmp_path, f"{folder}/up", recursive=True)
    assert len(failed.value.__notes__) == 1
    assert cloud.read_bytes(f"{folder}/up/c") == b"c"


def test_arrays_of_any_type_are_written_as_their_bytes(cloud: sector.Cloud, folder: str) -> None:
    import array

    numbers = array.array("d", [1.5, 2.5, 3.5])
    with cloud.open(f"{folder}/x", "wb") as file:
        assert file.write(numbers) == 24
        assert file.write(memoryview(numbers)[::2]) == 16
    assert cloud.read_bytes(f"{folder}/x") == numbers.tobytes() + array.array("d", [1.5, 3.5]).tobytes()


def test_threads_share_a_cloud_and_a_file(cloud: sector.Cloud, folder: str) -> None:
    content = pattern(8 * MIB)
    cloud.write_bytes(f"{folder}/x", content)
    wrong: list[int] = []

    def read(number: int) -> None:
        with cloud.open(f"{folder}/x", "rb") as file:
            for at in range(number, len(content), 999_983):
                file.seek(at)
                if file.read(5) != content[at : at + 5]:
                    wrong.append(at)
        cloud.write_bytes(f"{folder}/{number}", b"%d" % number)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert [cloud.read_bytes(f"{folder}/{number}") for number in range(8)] == [b"%d" % number for number in range(8)]


# Promise 58.
def test_other_threads_run_while_a_call_waits(cloud: sector.Cloud, folder: str) -> None:
    """A pipe that nobody fills is put: the call waits until this thread lets it go on."""
    reading, writing = os.pipe()
    ended = threading.Event()

    def put() -> None:
        with open(f"/proc/self/fd/{reading}", "rb"):
            cloud.put(f"/proc/self/fd/{reading}", f"{folder}/pipe")
        ended.set()

    thread = threading.Thread(target=put)
    thread.start()
    assert cloud.ls(folder) == []
    assert not ended.is_set()
    os.write(writing, b"let go")
    os.close(writing)
    thread.join()
    os.close(reading)
    assert ended.is_set() and cloud.read_bytes(f"{folder}/pipe") == b"let go"


# Promise 59.
def test_a_child_made_by_fork_logs_in_for_itself(cloud: sector.LocalCloud, folder: str) -> None:
    cloud.write_bytes(f"{folder}/x", b"from the parent")
    program = f"""
import os, sector
cloud = sector.connect({str(cloud.profile)!r})
file = cloud.open("{folder}/x", "rb")
started = cloud.open("{folder}/parent", "wb")
assert file.read(4) == b"from"
child = os.fork()
if child == 0:
    try:
        assert cloud.read_bytes("{folder}/x") == b"from the parent"
        cloud.write_bytes("{folder}/child", b"from the child")
        for call in (lambda: file.raw.seek(0) or file.raw.read(4), lambda: started.write(b"no") and started.close()):
            try:
                call()
            except ValueError as error:
                assert "forked" in str(error), error
            else:
                os._exit(2)
    except BaseException as error:
        print(repr(error), flush=True)
        os._exit(1)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert cloud.read_bytes("{folder}/child") == b"from the child"
started.close()
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert cloud.exists(f"{folder}/parent")


# Promise 58.
def test_ctrl_c_ends_a_call_that_waits(cloud: sector.LocalCloud, folder: str) -> None:
    reading, writing = os.pipe()
    # Whoever runs in the background may have it ignored, and Python then leaves it so.
    program = f"""
import sector, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
cloud = sector.connect({str(cloud.profile)!r})
try:
    cloud.put("/proc/self/fd/{reading}", "{folder}/never")
except KeyboardInterrupt:
    cloud.write_bytes("{folder}/never", b"the place is free at once")
    print("interrupted", flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, pass_fds=[reading])
    os.close(reading)
    # More than a pipe and the client hold: once all is written, most of it was sent. So the upload has its lease, and the
    # child waits for more.
    os.write(writing, bytes(16 * MIB))
    child.send_signal(signal.SIGINT)
    assert child.stdout is not None
    assert child.stdout.readline() == "interrupted\n"
    os.close(writing)
    assert child.wait(60) == 0
    assert cloud.read_bytes(f"{folder}/never") == b"the place is free at once"


def test_a_raw_reader_is_an_ordinary_raw_file(cloud: sector.Cloud, folder: str) -> None:
    cloud.write_bytes(f"{folder}/x", pattern(MIB))
    with cloud.open(f"{folder}/x", "rb", buffering=0) as raw:
        assert isinstance(raw, io.RawIOBase)
        with io.BufferedReader(raw) as file:
            assert file.peek(4)[:4] == pattern(MIB)[:4]
            assert file.read() == pattern(MIB)


def test_a_folder_becomes_equal_to_another_in_both_directions(cloud: sector.Cloud, folder: str, tmp_path: Path) -> None:
    source, back, there = tmp_path / "src", tmp_path / "back", f"sector:/{folder}"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "a.txt").write_text("a")
    (source / "b.log").write_text("b")
    cloud.write_bytes(f"{folder}/old", b"old")
    would = cloud.sync(source, there, delete=True, exclude=["*.log"], dry_run=True)
    assert [(step.action, str(step.path)) for step in would] == [
        ("make-folder", "sub"),
        ("new", "sub/a.txt"),
        ("remove", "old"),
    ]
    assert cloud.exists(f"{folder}/old") and not cloud.exists(f"{folder}/sub")
    assert cloud.sync(source, there, delete=True, exclude=["*.log"]) == would
    assert cloud.sync(source, there, delete=True, exclude=["*.log"]) == [], "nothing is left to do"
    assert [entry.name for entry in cloud.ls(folder)] == ["sub"]
    cloud.sync(there, back, checksum=True)
    assert (back / "sub" / "a.txt").read_text() == "a" and not (back / "b.log").exists()
    with pytest.raises(ValueError, match="not a glob"):
        cloud.sync(source, there, include=["a["])
    with pytest.raises(ValueError, match="no file that could go"):
        cloud.sync(source, there, delete=True, include=["none"])
    with pytest.raises(FileNotFoundError):
        cloud.sync(tmp_path / "nowhere", there, delete=True)


def test_a_folder_becomes_equal_to_one_of_another_cloud(
    cloud: sector.Cloud, folder: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    here = f"sector:/{folder}"
    cloud.write_bytes(f"{folder}/sub/a", b"a")
    cloud.write_bytes(f"{folder}/b", pattern(3 * MIB))
    with sector.up(nodes=1, data=tmp_path_factory.mktemp("other")) as other:
        other.write_bytes("/there/old", b"old")
        would = cloud.sync(here, "sector://there", to=other, delete=True, dry_run=True)
        assert [(step.action, str(step.path)) for step in would] == [
            ("make-folder", "sub"),
            ("new", "b"),
            ("new", "sub/a"),
            ("remove", "old"),
        ]
        assert cloud.sync(here, "sector://there", to=other, delete=True) == would
        assert cloud.sync(here, "sector://there", to=other, delete=True) == [], "nothing is left to do"
        assert other.read_bytes("/there/b") == pattern(3 * MIB)
        assert other.stat("/there/b").modified == cloud.stat(f"{folder}/b").modified
        with pytest.raises(FileNotFoundError, match=f"in the cloud `{other.address}`"):
            other.sync("sector://none", here, to=cloud)
        with pytest.raises(ValueError, match="lies in no cloud"):
            cloud.sync(here, "there", to=other)
        with pytest.raises(ValueError, match="names the cloud `west`"):
            cloud.sync(here, "sector://@west/there")
