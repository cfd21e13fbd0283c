"""Third-party copies: with another storage element, XRootD, in both directions, between clouds of ours, and with servers that
are wrong."""

import http.client
import http.server
import re
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from dav_support import Door, copied, dav_door, gives, plain_server, responses, some_bytes

import sector


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for this machine, and its key beside it."""
    folder = tmp_path_factory.mktemp("tls")
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run([*made.split(), *names, *files], check=True, capture_output=True)
    return folder / "cert.pem"


@pytest.fixture(scope="module")
def door(cloud: sector.LocalCloud, tmp_path_factory: pytest.TempPathFactory, trust: Path) -> Iterator[Door]:
    settings = f'transfer_hosts = ["127.0.0.1", "localhost"]\ntransfer_authority = "{trust}"\n'
    with dav_door(cloud, tmp_path_factory.mktemp("gateway"), settings) as door:
        yield door


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[sector.LocalCloud, Door]]:
    """Another cloud of ours."""
    settings = 'transfer_hosts = ["127.0.0.1"]\ntransfers_max = 2\n'
    folders = [tmp_path_factory.mktemp(name) for name in ("other", "other-gateway")]
    with sector.up(nodes=1, sites=1, data=folders[0]) as cloud, dav_door(cloud, folders[1], settings) as door:
        yield cloud, door


@pytest.mark.parametrize("login", ["basic", "bearer"])
def test_copies_between_two_clouds_of_ours(
    door: Door, other: tuple[sector.LocalCloud, Door], cloud: sector.LocalCloud, folder: str, login: str
) -> None:
    there, elsewhere = other
    content = some_bytes(5, 9_000_000)
    door.put(f"{folder}/big ü", content)
    # It is kept there from now on. A copy by HTTP would not have it.
    assert door.ask("HEAD", f"{folder}/big ü", want_digest="md5").headers["digest"]
    source = f"{door.url}/dav{quote(folder)}/{quote('big ü')}"
    ours = {"transferheaderauthorization": getattr(door, login)}
    pulled = elsewhere.ask("COPY", f"/in/{login}/pulled", source=source, requirechecksumverification="true", **ours)
    assert copied(pulled) == "success: Created"
    assert there.read_bytes(f"/in/{login}/pulled") == content
    question = b'<D:propfind xmlns:D="DAV:" xmlns:c="http://www.dcache.org/2013/webdav"><D:prop><c:Checksums/></D:prop></D:propfind>'
    sums = responses(elsewhere.ask("PROPFIND", f"/in/{login}/pulled", question, depth="0"))[f"/dav/in/{login}/pulled"]
    assert "md5=" in (sums["200"][0].text or ""), "the nodes copied what the other cloud keeps with the file"
    assert (
        copied(
            door.ask(
                "COPY",
                f"{folder}/big ü",
                destination=f"{elsewhere.url}/dav/in/{login}/pushed",
                transferheaderauthorization=getattr(elsewhere, login),
            )
        )
        == "success: Created"
    )
    assert there.read_bytes(f"/in/{login}/pushed") == content
    for condition in ({"overwrite": "F"}, {"if_none_match": "*"}, {"if_match": '"0"'}):
        kept = elsewhere.ask("COPY", f"/in/{login}/pulled", source=source, **condition, **ours)
        assert kept.status == 412, condition
    # Without a login there, and with a wrong one.
    assert "401" in copied(elsewhere.ask("COPY", "/in/none", source=source))
    assert "401" in copied(elsewhere.ask("COPY", "/in/none", source=source, transferheaderauthorization="Bearer x"))
    assert not there.exists("/in/none")
    assert door.ask("COPY", f"{folder}/missing", destination=f"{elsewhere.url}/dav/x").status == 404
    assert elsewhere.ask("COPY", "/in", destination=f"{door.url}/dav{folder}/x").status == 405


def test_copies_from_and_to_xrootd(
    door: Door, cloud: sector.LocalCloud, folder: str, tmp_path: Path, trust: Path
) -> None:
    content = some_bytes(6, 6_000_000)
    with xrootd(tmp_path, trust) as (url, data):
        (data / "there.bin").write_bytes(content)
        checked = {"requirechecksumverification": "true"}
        assert copied(door.ask("COPY", f"{folder}/pulled", source=f"{url}/there.bin", **checked)) == "success: Created"
        assert cloud.read_bytes(f"{folder}/pulled") == content
        assert (
            copied(door.ask("COPY", f"{folder}/pulled", destination=f"{url}/pushed.bin", **checked))
            == "success: Created"
        )
        assert (data / "pushed.bin").read_bytes() == content
        # It makes the copy, and we are the other side.
        trusted = ssl.create_default_context(cafile=str(trust))
        place = urlsplit(url)
        for headers in (
            {"Source": f"{door.url}/dav{folder}/pulled"},
            {"Destination": f"{door.url}/dav{folder}/came"},
        ):
            connection = http.client.HTTPSConnection(place.hostname or "", place.port, context=trusted, timeout=60)
            path = "/fetched.bin" if "Source" in headers else "/there.bin"
            connection.request("COPY", path, headers=headers | {"TransferHeaderAuthorization": door.bearer})
            answer = connection.getresponse()
            assert answer.read().decode().rstrip().endswith("success: Created")
            connection.close()
        assert (data / "fetched.bin").read_bytes() == content == cloud.read_bytes(f"{folder}/came")


@contextmanager
def xrootd(folder: Path, trust: Path) -> Iterator[tuple[str, Path]]:
    """XRootD with its HTTP door, over TLS; its address and the folder that it serves. It will not run as root."""
    # A folder of its own, since those above a test's are closed to others.
    place = Path(subprocess.run(["mktemp", "-d"], check=True, capture_output=True, text=True).stdout.strip())
    data = place / "data"
    data.mkdir()
    shutil.copy(trust, place / "cert.pem")
    shutil.copy(trust.parent / "key.pem", place / "key.pem")
    with socket.socket() as free, socket.socket() as also_free:
        for probe in (free, also_free):
            probe.bind(("127.0.0.1", 0))
        port, own = free.getsockname()[1], also_free.getsockname()[1]
    (place / "x.cfg").write_text(
        f"xrd.port {own}\nxrd.protocol XrdHttp:{port} libXrdHttp.so\nhttp.exthandler xrdtpc libXrdHttpTPC.so\nall.export /\n"
        f"all.adminpath {place}/admin\nall.pidpath {place}/admin\noss.localroot {data}\nxrootd.chksum max 2 adler32\n"
        f"http.cert {place}/cert.pem\nhttp.key {place}/key.pem\nhttp.cafile {place}/cert.pem\nhttp.httpsmode manual\n"
    )
    (place / "key.pem").chmod(0o400)
    subprocess.run(["chown", "-R", "xrootd", str(place)], check=True)
    # What is written into it from here is for its own user to read.
    data.chmod(0o777)
    words = ["xrootd", "-R", "xrootd", "-c", str(place / "x.cfg")]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        said = ""
        while not re.search(r"xrootd \S+ initialization completed", said):
            line = process.stderr.readline()
            assert line, said
            said += line
        # It stops when nobody reads what it says.
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield f"https://localhost:{port}", data
    finally:
        process.kill()
        process.wait()
    shutil.rmtree(place)


def test_a_copy_by_plain_http_is_whole_and_has_its_sum(door: Door, cloud: sector.LocalCloud, folder: str) -> None:
    content = some_bytes(7, 300_000)
    with plain_server(gives(content)) as (url, _):
        assert copied(door.ask("COPY", f"{folder}/a", source=f"{url}/a")) == "success: Created"
        assert cloud.read_bytes(f"{folder}/a") == content
        needs = door.ask("COPY", f"{folder}/b", source=f"{url}/a", requirechecksumverification="true")
        assert "says no sum" in copied(needs)
    with plain_server(gives(content, digest="adler32=00000001")) as (url, _):
        assert "another adler32" in copied(door.ask("COPY", f"{folder}/b", source=f"{url}/a"))
    with plain_server(gives(content, content_length="400000", connection="close")) as (url, _):
        assert copied(door.ask("COPY", f"{folder}/b", source=f"{url}/a")).startswith("failure: ")
    assert [entry.name for entry in cloud.ls(folder)] == ["a"]


def test_another_side_that_is_wrong_is_never_believed(door: Door, cloud: sector.LocalCloud, folder: str) -> None:
    content = some_bytes(8, 9_000_000)
    small = b"small"

    def answering(
        status: int, body: bytes = b"", **headers: str
    ) -> Callable[[http.server.BaseHTTPRequestHandler], None]:
        def answer(request: http.server.BaseHTTPRequestHandler) -> None:
            request.send_response(status)
            for name, value in ({"content_length": str(len(body))} | headers).items():
                if value:
                    request.send_header(name.replace("_", "-"), value)
            request.end_headers()
            if request.command != "HEAD":
                request.wfile.write(body)
            request.close_connection = True

        return answer

    def by_method(
        **answers: Callable[[http.server.BaseHTTPRequestHandler], None],
    ) -> Callable[[http.server.BaseHTTPRequestHandler], None]:
        def answer(request: http.server.BaseHTTPRequestHandler) -> None:
            length = int(request.headers.get("content-length") or 0)
            request.rfile.read(length)
            answers[request.command](request)

        return answer

    parts = {"etag": '"1"', "accept_ranges": "bytes"}
    head = answering(200, content, **parts)
    first = content[: 4 << 20]
    for what, answer in {
        "another part": by_method(
            HEAD=head, GET=answering(206, first, content_range=f"bytes 0-{len(first) - 1}/9000000")
        ),
        "changed": by_method(
            HEAD=head, GET=answering(206, first, etag='"2"', content_range=f"bytes 0-{len(first) - 1}/9000000")
        ),
        "status 200": by_method(HEAD=head, GET=answering(200, content)),
        "changed during": by_method(HEAD=answering(200, small, **parts), GET=answering(200, small, etag='"2"')),
        "another adler32": by_method(HEAD=answering(405), GET=answering(200, small, digest="adler32=00000001")),
        "neither length nor sum": by_method(
            HEAD=answering(405), GET=answering(200, small, content_length="", connection="close")
        ),
        "gzip": by_method(HEAD=answering(200, small), GET=answering(200, small, content_encoding="gzip")),
    }.items():
        with plain_server(answer) as (url, _):
            said = copied(door.ask("COPY", f"{folder}/a", source=f"{url}/a"))
            assert said.startswith("failure: ") and what in said, (what, said)
    assert not cloud.exists(f"{folder}/a")
    door.put(f"{folder}/b", small)
    for what, answer in {
        "does not have": by_method(PUT=answering(201), HEAD=answering(404)),
        "4 of 5 bytes": by_method(PUT=answering(201), HEAD=answering(200, b"smal")),
        "another adler32": by_method(PUT=answering(201), HEAD=answering(200, small, digest="adler32=00000001")),
        "status 507": by_method(PUT=answering(507, b"full"), HEAD=answering(404)),
    }.items():
        with plain_server(answer) as (url, _):
            said = copied(door.ask("COPY", f"{folder}/b", destination=f"{url}/b"))
            assert said.startswith("failure: ") and what in said, (what, said)


def test_a_login_goes_to_the_host_that_it_is_for(door: Door, folder: str) -> None:
    with plain_server(gives(b"moved here", sector_cloud="/.well-known/sector")) as (url, asked):

        def moved(request: http.server.BaseHTTPRequestHandler) -> None:
            request.send_response(307)
            request.send_header("location", f"{url}/b")
            request.send_header("content-length", "0")
            request.end_headers()

        with plain_server(moved) as (first, asked_first):
            theirs = {"transferheaderauthorization": "Bearer theirs", "transferheaderx-other": "along"}
            assert copied(door.ask("COPY", f"{folder}/a", source=f"{first}/a", **theirs)) == "success: Created"
            assert all(
                (headers["Authorization"], headers["X-Other"]) == ("Bearer theirs", "along")
                for _, headers in asked_first
            )
    assert asked and all("Authorization" not in headers and "X-Other" not in headers for _, headers in asked)
    assert not any(door.token in str(headers) for _, headers in asked + asked_first), "ours goes nowhere"


def test_a_copy_reaches_only_what_it_may(door: Door, cloud: sector.LocalCloud, folder: str) -> None:
    with plain_server(gives(b"inside")) as (url, asked):
        port = urlsplit(url).port
        inside = copied(door.ask("COPY", f"{folder}/a", source=f"https://127.0.0.2:{port}/a"))
        assert "no public address" in inside
        assert "readable" in copied(door.ask("COPY", f"{folder}/a", source=f"http://127.0.0.2:{port}/a"))
        assert not asked

        def leads(request: http.server.BaseHTTPRequestHandler) -> None:
            request.send_response(302)
            request.send_header(
                "location", f"http://127.0.0.2:{port}/a" if "in" in request.path else "ftp://127.0.0.1/a"
            )
            request.send_header("content-length", "0")
            request.end_headers()

        with plain_server(leads) as (leading, _):
            assert "127.0.0.2" in copied(door.ask("COPY", f"{folder}/a", source=f"{leading}/in"))
            assert "another scheme" in copied(door.ask("COPY", f"{folder}/a", source=f"{leading}/out"))
        assert not asked
    for wrong in (
        {"source": "file:///etc/passwd"},
        {"source": url, "credential": "gridsite"},
        {"source": url, "destination": url},
    ):
        assert door.ask("COPY", f"{folder}/a", **wrong).status == 400
    assert not cloud.exists(f"{folder}/a")


def test_who_hangs_up_ends_the_copy_and_there_are_not_too_many(other: tuple[sector.LocalCloud, Door]) -> None:
    there, elsewhere = other
    ended, waiting = threading.Event(), threading.Semaphore(0)

    def drips(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("content-length", "1000000000")
        request.end_headers()
        if request.command == "HEAD":
            return
        waiting.release()
        try:
            while not ended.wait(0.05):
                request.wfile.write(bytes(100_000))
        except ConnectionError:
            waiting.release()

    with plain_server(drips) as (url, _):
        place = urlsplit(elsewhere.url)
        held = []
        for at in range(2):
            connection = socket.create_connection((place.hostname, place.port))
            head = f"COPY /dav/slow-{at} HTTP/1.1\r\nHost: a\r\nAuthorization: {elsewhere.basic}\r\nSource: {url}/a\r\n\r\n"
            connection.sendall(head.encode())
            held.append(connection)
            assert waiting.acquire(timeout=60)
        full = elsewhere.ask("COPY", "/slow-more", source=f"{url}/a")
        assert (full.status, full.headers["retry-after"]) == (503, "5")
        for connection in held:
            connection.close()
        assert all(waiting.acquire(timeout=60) for _ in held), "the other side sees that nobody listens"
        ended.set()
    assert not any(entry.name.startswith("slow") for entry in there.ls("/"))
