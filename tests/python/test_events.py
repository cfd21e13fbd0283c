"""What happened in a cloud, as an iterator, and as a webhook to the receiver that the page on events shows."""

import re
import subprocess
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pages import ROOT, blocks

import sector
from sector.local import binary


def test_events_are_those_of_a_place_and_go_on_where_one_was(cloud: sector.Cloud, folder: str) -> None:
    follower = cloud.events(path=f"{folder}/*.txt", follow=True)
    before = datetime.now(UTC) - timedelta(seconds=1)
    cloud.write_bytes(f"{folder}/a.txt", b"one")
    cloud.write_bytes(f"{folder}/b.csv", b"not asked for")
    cloud.write_bytes(f"{folder}/a.txt", b"two")
    first, second = next(follower), next(follower)
    assert (first.kind, first.subject) == ("file_published", f"{folder}/a.txt")
    assert (first.fields["bytes"], first.fields["user"], len(first.fields["digest"])) == (3, "admin", 64)
    assert first.time is not None and before <= first.time <= datetime.now(UTC) + timedelta(seconds=1)
    assert second.kind == "file_replaced" and second.number > first.number
    cloud.remove(f"{folder}/a.txt")
    assert next(follower).kind == "entry_removed"
    after = list(cloud.events(since=first.number, path=folder))
    assert [event.kind for event in after] == ["file_published", "file_replaced", "entry_removed"]
    assert [event.subject for event in after] == [f"{folder}/b.csv", f"{folder}/a.txt", f"{folder}/a.txt"]
    assert list(cloud.events(since=timedelta(minutes=10), path=folder, kinds=["file_replaced"])) == [second]
    assert list(cloud.events(since=datetime.now(UTC) + timedelta(hours=1), path=folder)) == []


def test_what_cannot_be_asked_for_is_refused_and_a_gap_is_told(cloud: sector.Cloud, folder: str) -> None:
    with pytest.raises(ValueError, match="file_published"):
        cloud.events(kinds=["file_publisht"])
    gap = next(cloud.events(since=1))
    assert (gap.kind, gap.time, gap.fields) == ("gap", None, {"after": 1})
    cloud.write_bytes(f"{folder}/a", b"a")
    assert next(cloud.events(since=gap.number)).number == gap.number + 1


def test_the_receiver_of_the_page_takes_what_a_gateway_sends_and_nothing_else(
    cloud: sector.LocalCloud, folder: str, tmp_path: Path
) -> None:
    page = blocks((ROOT / "docs/howto/events.md").read_text())
    [receiver] = [block.text for block in page if block.name == "receiver.py"]
    shown = 'HTTPServer(("127.0.0.1", 8099), Receiver).serve_forever()'
    free = (
        'HTTPServer(("127.0.0.1", 0), Receiver)\n    print(server.server_port, flush=True)\n    server.serve_forever()'
    )
    assert shown in receiver
    (tmp_path / "receiver.py").write_text(receiver.replace(f"http.server.{shown}", f"server = http.server.{free}"))
    (tmp_path / "index.secret").write_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
    started = [sys.executable, "receiver.py"]
    with subprocess.Popen(started, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as receiving:
        try:
            assert receiving.stdout is not None
            port = int(receiving.stdout.readline())
            false = urllib.request.Request(f"http://127.0.0.1:{port}/", b"{}")
            for name, value in (("id", "a"), ("timestamp", "1"), ("signature", "v1,AAAA")):
                false.add_header(f"webhook-{name}", value)
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(false)
            with gateway(cloud, folder, tmp_path, port) as serving:
                try:
                    assert serving.stdout is not None and serving.stdout.readline().startswith("ready ")
                    place = tmp_path / "state/webhook-index.json"
                    while not place.exists():
                        assert serving.poll() is None
                        cloud.exists(folder)
                    cloud.write_bytes(f"{folder}/a", b"a")
                    number, kind, subject = receiving.stdout.readline().split()
                    assert (kind, subject) == ("file_published", f"{folder}/a")
                    assert next(cloud.events(since=int(number) - 1)).subject == subject
                finally:
                    serving.terminate()
        finally:
            receiving.terminate()


def gateway(cloud: sector.LocalCloud, folder: str, where: Path, port: int) -> subprocess.Popen[str]:
    """A gateway with a webhook, which uses the settings of the page."""
    page = (ROOT / "docs/howto/events.md").read_text()
    found = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert found is not None
    settings = found[1].replace("/var/lib/sector/gateway", "state").replace(":8099/", f":{port}/")
    settings = settings.replace('"index.profile"', f'"{cloud.profile}"').replace('"/data"', f'"{folder}"')
    authority = cloud.folder / "security/authority.pem"
    head = f'listen = "127.0.0.1:0"\nmaster = "{cloud.address}"\nauthority = "{authority}"\n'
    (where / "gateway.toml").write_text(head + settings)
    return subprocess.Popen(
        [binary(), "gateway", "--config", "gateway.toml"], cwd=where, stdout=subprocess.PIPE, text=True
    )
