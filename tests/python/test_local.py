"""A cloud of one's own: it starts, keeps what it had where that is wished, and never outlives who started it."""

import importlib.metadata
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sector
import sector.local


def is_alive(process: int) -> bool:
    """Whether a process runs (and is not merely waited for)."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_cloud_in_a_given_folder_has_again_what_it_had(tmp_path: Path) -> None:
    with sector.up(nodes=1, data=tmp_path / "cloud") as cloud:
        assert [node.state for node in cloud.nodes()] == ["up"]
        cloud.write_bytes("/kept.txt", b"kept")
    with sector.up(nodes=1, data=tmp_path / "cloud") as cloud:
        assert cloud.read_bytes("/kept.txt") == b"kept"
        with sector.connect(cloud.profile) as other:
            assert other.exists("/kept.txt") and other.user == "admin"
        with pytest.raises(ValueError, match="closed"):
            other.ls("/")


def test_a_cloud_without_a_folder_leaves_nothing_behind() -> None:
    cloud = sector.up(nodes=1)
    folder, process = cloud.folder, cloud._process.pid
    assert folder.exists()
    cloud.close()
    cloud.close()
    assert not folder.exists() and not is_alive(process)


# Promise 61.
@pytest.mark.parametrize("ending", ["os.kill(os.getpid(), 9)", "pass", "raise SystemExit(3)"])
def test_a_cloud_ends_with_the_process_that_started_it(ending: str, tmp_path: Path) -> None:
    program = f"""
import os, sector
cloud = sector.up(nodes=1, data={str(tmp_path / "cloud")!r})
print(cloud._process.pid, flush=True)
{ending}
"""
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=120)
    # Its standard output is that of nobody else, so that it was closed; the cloud's process may take a moment more.
    process = int(done.stdout)
    try:
        pidfd = os.pidfd_open(process)
    except ProcessLookupError:
        return
    import select

    assert select.select([pidfd], [], [], 60)[0], "the cloud did not end"
    os.close(pidfd)


def test_what_keeps_a_cloud_from_starting_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cloud").mkdir()
    (tmp_path / "cloud/master").write_text("a file where a folder should be")
    with pytest.raises(OSError, match="did not start"):
        sector.up(nodes=1, data=tmp_path / "cloud")
    # Also where the folder with the log goes at once.
    with pytest.raises(OSError, match="99 is not in") as caught:
        sector.up(nodes=99)
    assert "99 is not in" in caught.value.__notes__[0] and caught.value.__notes__[0].startswith("its log ended:\n")
    monkeypatch.setenv("SECTOR_BINARY", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match="SECTOR_BINARY"):
        sector.up(nodes=1)


def test_a_cloud_is_pickled_by_its_profile_alone(
    cloud: sector.LocalCloud, folder: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cloud.write_bytes(f"{folder}/a", b"a")
    monkeypatch.setenv("SECTOR_PROFILE", os.path.relpath(cloud.profile))
    token = tomllib.loads(cloud.profile.read_text())["token"].encode()
    with sector.connect() as other, multiprocessing.get_context("spawn").Pool(1) as pool:
        # The pickle means the same elsewhere.
        monkeypatch.setenv("SECTOR_PROFILE", str(tmp_path / "none.toml"))
        for each in (cloud, other):
            pickled = pickle.dumps(each)
            assert str(cloud.profile).encode() in pickled and token not in pickled
            with pickle.loads(pickled) as again:
                assert type(again) is sector.Cloud and again.read_bytes(f"{folder}/a") == b"a"
            assert pool.apply(sector.Cloud.read_bytes, (each, f"{folder}/a")) == b"a"
    # Whoever unpickles a cloud of `up` does not end it.
    assert cloud.read_bytes(f"{folder}/a") == b"a"


def test_a_missing_or_broken_profile_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.toml"):
        sector.connect(tmp_path / "none.toml")
    (tmp_path / "broken.toml").write_text("address = 3")
    with pytest.raises(ValueError, match=r"broken\.toml"):
        sector.connect(tmp_path / "broken.toml")


def test_a_master_that_is_gone_is_unavailable(tmp_path: Path) -> None:
    cloud = sector.up(nodes=1, data=tmp_path / "cloud")
    profile = cloud.profile.read_text()
    cloud._process.send_signal(signal.SIGTERM)
    cloud._process.wait()
    (tmp_path / "gone.toml").write_text(profile)
    with pytest.raises(sector.UnavailableError):
        sector.connect(tmp_path / "gone.toml")
    assert issubclass(sector.UnavailableError, ConnectionError)


def test_the_version_and_the_modules_are_reached_by_the_package_alone() -> None:
    said = "import sector; print(sector.__version__, sector.aio.connect.__name__, sector.filesystem.__name__)"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True)
    assert done.stdout.split() == [importlib.metadata.version("sector-sphere"), "connect", "sector.filesystem"], done
    # Who names neither does not wait for them.
    said = "import sector, sys; print(*{'sector.aio', 'sector.filesystem', 'fsspec'} & {*sys.modules})"
    assert subprocess.check_output([sys.executable, "-c", said], text=True).strip() == ""
    assert {"__version__", "aio"} <= {*dir(sector)}
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = sector.colour  # type: ignore[attr-defined]


def test_the_package_brings_what_nearly_everyone_uses() -> None:
    needed = {requirement.split(">")[0] for requirement in importlib.metadata.requires("sector-sphere") or []}
    assert {"cloudpickle", "fsspec"} <= needed
