"""The WebDAV door as people's programs use it, unpatched (litmus, rclone, cadaver, davix), and third-party copies with another
storage element, XRootD, in both directions."""

import base64
import hashlib
import http.client
import http.server
import os
import random
import re
import shutil
import socket
import ssl
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

import pytest
from services import gateway, run

import sector

DAV = "{DAV:}"
LOCK = (
    b'<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype>'
    b"<D:owner><D:href>ann's desk</D:href></D:owner></D:lockinfo>"
)


@dataclass
class Answer:
    """What a door answered."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class Door:
    """A gateway, and a user's name and token."""

    url: str
    user: str
    token: str

    @property
    def basic(self) -> str:
        return "Basic " + base64.b64encode(f"{self.user}:{self.token}".encode()).decode()

    @property
    def bearer(self) -> str:
        return f"Bearer {self.user}.{self.token}"

    def ask(self, method: str, path: str, *body: bytes, **headers: str) -> Answer:
        """A request to a path below `/dav`. The names of headers are those of Python. A door without a user is a visitor's."""
        login = {"authorization": self.basic} if self.user else {}
        return ask(self.url, method, quote(f"/dav{path}"), *body, **login | headers)

    def put(self, path: str, body: bytes, **headers: str) -> Answer:
        return self.ask("PUT", path, body, **headers)

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)


def ask(url: str, method: str, target: str, *body: bytes, **headers: str) -> Answer:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, target, b"".join(body), named)
    answer = connection.getresponse()
    said = Answer(answer.status, answer.headers, answer.read())
    connection.close()
    return said


def token_of(cloud: sector.LocalCloud, user: str, name: str) -> str:
    return run(cloud, "user", "token", "add", user, name).strip().splitlines()[-1]


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
    with gateway(cloud, tmp_path_factory.mktemp("gateway"), settings) as url:
        yield Door(url, "admin", token_of(cloud, "admin", "webdav"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[sector.LocalCloud, Door]]:
    """Another cloud of ours."""
    with sector.up(nodes=1, sites=1, data=tmp_path_factory.mktemp("other")) as cloud:
        settings = 'transfer_hosts = ["127.0.0.1"]\ntransfers_max = 2\n'
        with gateway(cloud, tmp_path_factory.mktemp("other-gateway"), settings) as url:
            yield cloud, Door(url, "admin", token_of(cloud, "admin", "webdav"))


def some_bytes(seed: int, length: int) -> bytes:
    return random.Random(seed).randbytes(length)


def adler32(content: bytes) -> str:
    return f"adler32={zlib.adler32(content):08x}"


def in_base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def responses(answer: Answer) -> dict[str, dict[str, list[ElementTree.Element]]]:
    """By address and status, the properties of an answer about several resources."""
    assert answer.status == 207, answer.text
    found: dict[str, dict[str, list[ElementTree.Element]]] = {}
    for response in ElementTree.fromstring(answer.body).iter(f"{DAV}response"):
        href = response.findtext(f"{DAV}href")
        assert href is not None
        for part in response.iter(f"{DAV}propstat"):
            status = (part.findtext(f"{DAV}status") or "").split()[1]
            properties = part.find(f"{DAV}prop")
            assert properties is not None
            found.setdefault(href, {})[status] = list(properties)
    return found


# What people's programs do.


def test_litmus_finds_nothing_wrong(door: Door, folder: str, tmp_path: Path) -> None:
    words = ["litmus", "-k", f"{door.url}/dav{folder}/", door.user, door.token]
    said = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True).stdout
    assert not re.findall(r".*FAIL.*", said), said
    assert re.findall(r"of (\d+) tests run: (\d+) passed", said) == [
        ("16", "16"),
        ("13", "13"),
        ("30", "30"),
        ("41", "41"),
        ("4", "4"),
    ]


def test_rclone_copies_a_tree_and_finds_it_again(door: Door, folder: str, tmp_path: Path) -> None:
    (tmp_path / "tree/below").mkdir(parents=True)
    (tmp_path / "tree/a b+ü.txt").write_bytes(b"hello")
    (tmp_path / "tree/below/large").write_bytes(some_bytes(1, 3_000_000))

    def rclone(*words: str) -> str:
        secret = subprocess.run(
            ["rclone", "obscure", door.token], check=True, capture_output=True, text=True
        ).stdout.strip()
        remote = f":webdav,url='{door.url}/dav{folder}',user={door.user},pass={secret}:"
        typed = ["rclone", "--config", "/dev/null", *(word.replace("REMOTE", remote) for word in words)]
        return subprocess.run(typed, check=True, capture_output=True, text=True).stdout

    rclone("sync", str(tmp_path / "tree"), "REMOTEtree")
    rclone("check", "--download", str(tmp_path / "tree"), "REMOTEtree")
    assert sorted(rclone("lsf", "-R", "REMOTEtree").splitlines()) == ["a b+ü.txt", "below/", "below/large"]
    rclone("moveto", "REMOTEtree/below/large", "REMOTEtree/moved")
    rclone("purge", "REMOTEtree/below")
    assert sorted(rclone("lsf", "-R", "REMOTEtree").splitlines()) == ["a b+ü.txt", "moved"]


def test_cadaver_and_davix_read_and_write(door: Door, cloud: sector.LocalCloud, folder: str, tmp_path: Path) -> None:
    host = urlsplit(door.url).hostname
    (tmp_path / ".netrc").write_text(f"machine {host}\nlogin {door.user}\npassword {door.token}\n")
    (tmp_path / ".netrc").chmod(0o600)
    (tmp_path / "here.txt").write_text("hello")
    script = (
        f"open {door.url}/dav{folder}/\nmkcol sub\ncd sub\nput {tmp_path}/here.txt one\ncopy one two\nmove two three\n"
        "lock three\nunlock three\npropset three colour red\npropget three colour\ndelete one\nls\nquit\n"
    )
    home = {**os.environ, "HOME": str(tmp_path)}
    said = subprocess.run(["cadaver"], input=script, env=home, capture_output=True, text=True, timeout=60).stdout
    assert "failed" not in said.lower(), said
    assert [entry.name for entry in cloud.ls(f"{folder}/sub")] == ["three"]
    # davix gives a login over TLS alone, or as a header.
    login = ["-H", f"Authorization: {door.bearer}"]
    content = some_bytes(2, 2_500_000)
    (tmp_path / "large").write_bytes(content)
    subprocess.run(
        ["davix-put", *login, str(tmp_path / "large"), f"{door.url}/dav{folder}/large"], check=True, capture_output=True
    )
    got = subprocess.run(["davix-get", *login, f"{door.url}/dav{folder}/large"], check=True, capture_output=True).stdout
    assert got == content == cloud.read_bytes(f"{folder}/large")
    listed = subprocess.run(
        ["davix-ls", *login, f"{door.url}/dav{folder}/"], check=True, capture_output=True
    ).stdout.decode()
    assert listed.split() == ["large", "sub"]


# Reading.


def test_parts_sums_and_conditions_of_a_download(door: Door, folder: str) -> None:
    content = some_bytes(3, 1_000_000)
    path = f"{folder}/a.txt"
    made = door.put(path, content)
    assert made.status == 201 and re.fullmatch(r'"[0-9a-f]{32}"', made.headers["etag"])
    whole = door.get(path)
    assert (whole.body, whole.headers["etag"], whole.headers["content-type"]) == (
        content,
        made.headers["etag"],
        "text/plain",
    )
    assert "sandbox" in whole.headers["content-security-policy"]
    one = door.get(path, range="bytes=10-19")
    assert (one.status, one.body, one.headers["content-range"]) == (206, content[10:20], "bytes 10-19/1000000")
    several = door.get(path, range="bytes=0-3,500000-500009,-5")
    assert several.status == 206 and int(several.headers["content-length"]) == len(several.body)
    mime = message_from_bytes(b"Content-Type: " + several.headers["content-type"].encode() + b"\r\n" + several.body)
    parts = mime.get_payload()
    assert isinstance(parts, list)
    assert [part["content-range"] for part in parts if not isinstance(part, str)] == [
        "bytes 0-3/1000000",
        "bytes 500000-500009/1000000",
        "bytes 999995-999999/1000000",
    ]
    for part in (content[0:4], content[500_000:500_010], content[-5:]):
        assert b"\r\n\r\n" + part + b"\r\n--" in several.body
    assert door.get(path, range="bytes=2000000-").status == 416
    tag = made.headers["etag"]
    assert door.get(path, if_none_match=tag).status == 304
    assert door.get(path, if_match='"0"').status == 412
    assert door.get(path, range="bytes=0-3", if_range='"0"').status == 200
    for wanted, said in [
        ("adler32", adler32(content)),
        ("md5", "md5=" + in_base64(hashlib.md5(content).digest())),
        ("sha-256;q=1, md5;q=0.1", "sha-256=" + in_base64(hashlib.sha256(content).digest())),
        # A sum that is kept by now.
        ("md5", "md5=" + in_base64(hashlib.md5(content).digest())),
    ]:
        assert door.ask("HEAD", path, want_digest=wanted).headers["digest"] == said
    assert door.ask("HEAD", path, want_digest="unixsum").headers["digest"] is None


def test_sums_are_never_those_of_other_bytes(door: Door, cloud: sector.LocalCloud, folder: str, tmp_path: Path) -> None:
    path = f"{folder}/log"
    door.put(path, b"first\n")
    assert door.ask("HEAD", path, want_digest="adler32").headers["digest"] == adler32(b"first\n")
    (tmp_path / "more").write_text("second\n")
    run(cloud, "put", "--append", str(tmp_path / "more"), path)
    both = b"first\nsecond\n"
    # A new sum of one kind does not make an old one of another kind right again.
    md5 = "md5=" + in_base64(hashlib.md5(both).digest())
    assert door.ask("HEAD", path, want_digest="md5").headers["digest"] == md5
    assert door.ask("HEAD", path, want_digest="adler32").headers["digest"] == adler32(both)


def test_what_is_asked_of_a_folder(door: Door, cloud: sector.LocalCloud, folder: str) -> None:
    cloud.mkdir(f"{folder}/d e")
    for at in range(30):
        door.put(f"{folder}/{at:02}&<.bin", bytes(at))
    below = responses(door.ask("PROPFIND", folder, depth="1"))
    assert len(below) == 32
    assert next(iter(below)) == f"/dav{folder}/" and f"/dav{folder}/d%20e/" in below
    file = {found.tag: found for found in below[f"/dav{folder}/07%26%3C.bin"]["200"]}
    assert file[f"{DAV}getcontentlength"].text == "7"
    assert file[f"{DAV}getetag"].text == door.ask("HEAD", f"{folder}/07&<.bin").headers["etag"]
    question = (
        b'<D:propfind xmlns:D="DAV:" xmlns:c="http://www.dcache.org/2013/webdav"><D:prop><c:Checksums/><D:getetag/>'
        b"<D:quota-used-bytes/><c:Nothing/></D:prop></D:propfind>"
    )
    asked = responses(door.ask("PROPFIND", f"{folder}/07&<.bin", question, depth="0"))
    properties = asked[f"/dav{folder}/07%26%3C.bin"]
    found = {element.tag: element.text for element in properties["200"]}
    assert found["{http://www.dcache.org/2013/webdav}Checksums"] == adler32(bytes(7))
    assert int(found[f"{DAV}quota-used-bytes"] or 0) >= 7
    assert [element.tag for element in properties["404"]] == ["{http://www.dcache.org/2013/webdav}Nothing"]
    assert door.ask("PROPFIND", folder, depth="infinity").status == 403
    assert door.ask("PROPFIND", folder, depth="2").status == 400
    page = door.get(f"{folder}/")
    assert (
        page.status == 200 and "07&amp;&lt;.bin" in page.text and "sandbox" in page.headers["content-security-policy"]
    )


# Writing.


def test_an_upload_appears_whole_or_not_at_all(door: Door, cloud: sector.LocalCloud, folder: str) -> None:
    content = some_bytes(4, 3_000_000)
    path = f"{folder}/up"
    for sums in (
        {"digest": "adler32=00000001"},
        {"content_md5": in_base64(hashlib.md5(b"else").digest())},
        {"oc_checksum": "ADLER32:00000001"},
        {"repr_digest": f"sha-256=:{in_base64(hashlib.sha256(b'else').digest())}:"},
    ):
        refused = door.put(path, content, **sums)
        assert refused.status == 400 and "another" in refused.text, refused
        assert not cloud.exists(path)
    good = {"digest": f"{adler32(content)},md5={in_base64(hashlib.md5(content).digest())}"}
    assert door.put(path, content, **good).status == 201
    # A connection that breaks leaves what was there.
    place = urlsplit(door.url)
    with socket.create_connection((place.hostname, place.port)) as broken:
        head = f"PUT /dav{path} HTTP/1.1\r\nHost: a\r\nAuthorization: {door.basic}\r\nContent-Length: 3000000\r\n\r\n"
        broken.sendall(head.encode() + bytes(1_500_000))
    assert door.get(path).body == content
    assert door.put(path, b"x", if_none_match="*").status == 412
    long = ask(
        door.url, "PUT", f"/dav{quote(path)}-long", b"longer", authorization=door.basic, x_expected_entity_length="3"
    )
    assert long.status == 201 and cloud.read_bytes(f"{path}-long") == b"longer"
    assert door.put(path, b"x", if_match='"0"').status == 412
    tag = door.ask("HEAD", path).headers["etag"]
    assert door.put(path, b"new", if_match=f'"0", {tag}').status == 204
    assert door.put(path, b"x", if_match=tag).status == 412
    assert cloud.read_bytes(path) == b"new"
    missing = door.put(f"{folder}/no/where", b"x")
    assert missing.status == 409 and missing.text.strip()
    assert door.put(folder, b"x").status == 405
    part = door.put(path, b"x", content_range="bytes 0-0/3")
    assert part.status == 501 and "whole" in part.text


def test_one_of_many_who_write_if_nothing_changed_wins(door: Door, cloud: sector.LocalCloud, folder: str) -> None:
    path = f"{folder}/raced"
    door.put(path, b"begin")
    for round_ in range(5):
        tag = door.ask("HEAD", path).headers["etag"]
        with ThreadPoolExecutor(6) as pool:
            tries = [pool.submit(door.put, path, b"%d of %d" % (who, round_), if_match=tag) for who in range(6)]
        statuses = sorted(tried.result().status for tried in tries)
        assert statuses[0] == 204 and set(statuses[1:]) <= {412, 423}, statuses


def test_what_is_replaced_or_removed_can_be_had_back(door: Door, cloud: sector.LocalCloud, folder: str) -> None:
    for name in ("a", "b"):
        door.put(f"{folder}/{name}", name.encode())
    url = f"{door.url}/dav{folder}/b"
    assert door.ask("MOVE", f"{folder}/a", destination=url, overwrite="F").status == 412
    assert door.ask("MOVE", f"{folder}/a", destination=url).status == 204
    assert cloud.read_bytes(f"{folder}/b") == b"a" and not cloud.exists(f"{folder}/a")
    assert f"{folder}/b" in run(cloud, "versions", f"{folder}/b")
    cloud.mkdir(f"{folder}/tree")
    for at in range(20):
        door.put(f"{folder}/tree/{at}", b"x")
    assert door.ask("COPY", f"{folder}/tree", destination=f"/dav{folder}/copy/").status == 201
    assert len(cloud.ls(f"{folder}/copy")) == 20
    door.put(f"{folder}/copy/more", b"x")
    assert door.ask("COPY", f"{folder}/tree", destination=f"/dav{folder}/copy").status == 204
    assert len(cloud.ls(f"{folder}/copy")) == 20, "what was there was replaced, not mixed"
    # A file makes way for a folder, and a folder for a file.
    assert door.ask("MOVE", f"{folder}/tree", destination=f"/dav{folder}/b").status == 204
    assert len(cloud.ls(f"{folder}/b")) == 20
    door.put(f"{folder}/f", b"f")
    assert door.ask("MOVE", f"{folder}/f", destination=f"/dav{folder}/b").status == 204
    assert cloud.read_bytes(f"{folder}/b") == b"f"
    assert door.ask("DELETE", f"{folder}/copy").status == 204
    run(cloud, "trash", "restore", f"{folder}/copy")
    assert len(cloud.ls(f"{folder}/copy")) == 20


# Who may do what.


@pytest.fixture(scope="module")
def ann(cloud: sector.LocalCloud, door: Door) -> Door:
    run(cloud, "user", "add", "ann", "--service")
    return Door(door.url, "ann", token_of(cloud, "ann", "webdav"))


def test_everyone_has_their_own_rights(door: Door, ann: Door, cloud: sector.LocalCloud, folder: str) -> None:
    door.put(f"{folder}/secret", b"x")
    run(cloud, "acl", "set", f"{folder}/secret", "user:admin:rw")
    asked = Door(door.url, "", "").ask("PROPFIND", folder, depth="1")
    assert asked.status == 401 and asked.headers["www-authenticate"].startswith("Basic")
    assert ann.get(f"{folder}/secret").status == 403
    assert ann.put(f"{folder}/secret", b"y").status == 403
    assert ann.ask("DELETE", f"{folder}/secret").status == 403
    assert ann.ask("COPY", f"{folder}/secret", destination=f"/dav{folder}/mine").status == 403
    assert f"/dav{folder}/secret" not in responses(ann.ask("PROPFIND", folder, depth="1"))
    refused = ann.ask("LOCK", f"{folder}/secret", LOCK)
    assert refused.status == 403, "who may not write keeps nobody from it"
    assert Door(door.url, "ann", "0" * 64).get(f"{folder}/secret").status == 401
    assert ask(door.url, "GET", f"/dav{folder}/secret", authorization=door.bearer).body == b"x"


def test_a_lock_holds_until_it_is_given_back(door: Door, ann: Door, cloud: sector.LocalCloud, folder: str) -> None:
    run(cloud, "acl", "set", folder, "user:ann:rw,user:admin:rw")
    path = f"{folder}/shared"
    taken = ann.ask("LOCK", path, LOCK, timeout="Infinite")
    assert taken.status == 201 and cloud.read_bytes(path) == b"", "a lock of what is not there makes it"
    assert "Second-600" in taken.text, "none lasts for ever"
    lock = taken.headers["lock-token"]
    assert door.put(path, b"mine").status == 423 and door.ask("DELETE", folder).status == 423
    assert ann.put(path, b"hers").status == 423, "without the token it may be another program of hers"
    assert ann.put(path, b"hers", **{"if": f"({lock})"}).status == 204
    found = responses(door.ask("PROPFIND", path, depth="0"))[f"/dav{path}"]["200"]
    assert "ann's desk" in "".join(text for element in found for text in element.itertext())
    assert lock.strip("<>") not in "".join(text for element in found for text in element.itertext()), "it is hers"
    assert door.ask("UNLOCK", path, lock_token=lock).status == 403
    assert ann.ask("LOCK", folder, LOCK, depth="infinity").status == 403, "others have files in it"
    with plain_server(gives(b"from elsewhere")) as (url, _):
        assert door.ask("COPY", path, source=f"{url}/a").status == 423
        assert copied(ann.ask("COPY", path, source=f"{url}/a", **{"if": f"({lock})"})) == "success: Created"
    assert ann.ask("UNLOCK", path, lock_token=lock).status == 204
    assert door.put(path, b"mine").status == 204


def test_a_cookie_of_the_page_counts_for_nothing(door: Door, cloud: sector.LocalCloud, folder: str) -> None:
    door.put(f"{folder}/a", b"x")
    words = ["sector", "user", "add", "bea", "--password-stdin"]
    environment = {**os.environ, "SECTOR_PROFILE": str(cloud.profile)}
    subprocess.run(words, input="correct horse\n", env=environment, text=True, check=True, capture_output=True)
    login = b'{"user": "bea", "password": "correct horse"}'
    said = ask(door.url, "POST", "/api/v1/login", login, x_sector_request="1")
    assert said.status == 200, said.text
    cookie = said.headers["set-cookie"].split(";")[0]
    assert ask(door.url, "GET", "/api/v1/session", cookie=cookie).status == 200
    for method in ("GET", "DELETE"):
        assert ask(door.url, method, f"/dav{folder}/a", cookie=cookie, x_sector_request="1").status == 401
    assert cloud.exists(f"{folder}/a")


def test_visitors_of_a_public_door_only_read(cloud: sector.LocalCloud, folder: str, tmp_path: Path) -> None:
    cloud.write_bytes(f"{folder}/open", b"for all")
    run(cloud, "user", "add", "visitors", "--service")
    run(cloud, "user", "token", "add", "visitors", "door", "--write-profile", str(tmp_path / "public.toml"))
    with gateway(cloud, tmp_path, 'public_profile = "public.toml"\n') as url:
        visitor = Door(url, "", "")
        assert visitor.ask("GET", f"{folder}/open").body == b"for all"
        assert len(responses(visitor.ask("PROPFIND", folder, depth="1"))) == 2
        before = cloud.stat(f"{folder}/open")
        assert visitor.ask("HEAD", f"{folder}/open", want_digest="md5").headers["digest"]
        run(cloud, "acl", "set", f"{folder}/open", "everyone:rw")
        assert visitor.ask("HEAD", f"{folder}/open", want_digest="sha-256").headers["digest"]
        asked = b'<D:propfind xmlns:D="DAV:" xmlns:c="http://www.dcache.org/2013/webdav"><D:prop><c:Checksums/></D:prop></D:propfind>'
        kept = responses(visitor.ask("PROPFIND", f"{folder}/open", asked, depth="0"))[f"/dav{folder}/open"]
        assert "200" not in kept and cloud.stat(f"{folder}/open").version == before.version, (
            "nothing is kept for visitors"
        )
        for method in ("PUT", "DELETE", "MKCOL", "LOCK", "PROPPATCH", "COPY", "MOVE"):
            assert visitor.ask(method, f"{folder}/open", destination="/dav/x").status == 401, method


@pytest.mark.parametrize(
    "target",
    [
        "/dav/%2e%2e/%2e%2e/etc/passwd",
        "/dav/a%00b",
        "/dav/a%2fb",
        "/dav//etc/passwd",
        "/dav/../api/v1/session",
        "/dav/a%0ab",
    ],
)
def test_no_path_leads_out_of_the_files(door: Door, cloud: sector.LocalCloud, target: str) -> None:
    if not cloud.exists("/a/b"):
        cloud.mkdir("/a", parents=True) if not cloud.exists("/a") else None
        cloud.write_bytes("/a/b", b"x")
    answer = ask(door.url, "GET", target, authorization=door.basic)
    assert answer.status in (400, 403, 404), answer.text


@pytest.mark.parametrize(
    "headers",
    [
        *({"if": wrong} for wrong in ("(<urn:x", '(["a"', "<", '([W/"a)', "(Not)", "x", '(["nomatch"]) x', "(Not)")),
        {"if_match": '"'},
        {"if_none_match": '"'},
        {"overwrite": "no"},
        {"depth": "7"},
    ],
)
def test_a_condition_that_cannot_be_read_is_refused(door: Door, folder: str, headers: dict[str, str]) -> None:
    door.put(f"{folder}/a", b"before")
    for method in ("PUT", "DELETE", "COPY", "MKCOL"):
        refused = door.ask(method, f"{folder}/a", destination=f"/dav{folder}/b", **headers)
        assert refused.status == 400, refused
    assert door.get(f"{folder}/a").body == b"before" and door.get(f"{folder}/b").status == 404


def test_bodies_that_would_grow_are_refused(door: Door, folder: str) -> None:
    question = b'<D:propfind xmlns:D="DAV:" xmlns:x="%b"><D:prop>%b</D:prop></D:propfind>'
    deep = question % (b"u", b"<a>" * 5_000 + b"</a>" * 5_000)
    wide = question % (b"u" * 16_000, b"<x:a/><x:b/>")
    for method in ("PROPFIND", "PROPPATCH", "LOCK"):
        assert door.ask(method, folder, deep, depth="0").status in (400, 413), method
    assert door.ask("PROPFIND", folder, wide, depth="0").status == 400
    assert door.ask("PROPFIND", folder, question % (b"u", b"x" * 70_000), depth="0").status == 413
    assert door.ask("PROPFIND", folder, b'<!DOCTYPE a [<!ENTITY b "c">]><a/>', depth="0").status == 400
    assert door.ask("PROPFIND", folder, depth="0").status == 207


def test_nothing_takes_the_place_of_what_holds_it(door: Door, cloud: sector.LocalCloud, folder: str) -> None:
    cloud.mkdir(f"{folder}/p/q", parents=True)
    door.put(f"{folder}/p/q/f", b"f")
    for method in ("MOVE", "COPY"):
        for source in ("p/q", "p/q/f", "p"):
            refused = door.ask(method, f"{folder}/{source}", destination=f"/dav{folder}/p")
            assert refused.status == 403, refused
        assert door.ask(method, f"{folder}/p", destination="/dav").status == 403
        assert door.ask(method, f"{folder}/p", destination=f"/dav{folder}/a b").status == 400
        away = door.ask("MOVE", f"{folder}/p", destination=f"https://elsewhere.example.org/dav{folder}/q")
        assert away.status == 502, away
    assert door.ask("DELETE", f"{folder}/p", depth="0").status == 409, "by itself alone, and it is not empty"
    assert cloud.read_bytes(f"{folder}/p/q/f") == b"f"


def test_a_move_that_fails_removes_nothing(door: Door, ann: Door, cloud: sector.LocalCloud, folder: str) -> None:
    for name, rights in (("hers", "user:ann:rwa,user:admin:rwa"), ("theirs", "user:ann:r,user:admin:rwa")):
        cloud.mkdir(f"{folder}/{name}")
        run(cloud, "acl", "set", f"{folder}/{name}", rights)
    cloud.mkdir(f"{folder}/hers/mine")
    door.put(f"{folder}/hers/mine/f", b"mine")
    door.put(f"{folder}/theirs/victim", b"theirs")
    assert ann.ask("MOVE", f"{folder}/theirs/victim", destination=f"/dav{folder}/hers/mine").status == 403
    assert cloud.read_bytes(f"{folder}/hers/mine/f") == b"mine" and cloud.exists(f"{folder}/theirs/victim")


def test_what_a_failed_copy_replaced_is_put_back(door: Door, ann: Door, cloud: sector.LocalCloud, folder: str) -> None:
    run(cloud, "acl", "set", folder, "user:ann:rwa,user:admin:rwa")
    door.put(f"{folder}/large", some_bytes(9, 1_000_000))
    assert ann.ask("MKCOL", f"{folder}/mine").status == 201
    assert ann.put(f"{folder}/mine/f", b"mine").status == 201
    cloud.set_quota("ann", max_bytes=500_000, max_files=None)
    try:
        assert ann.ask("COPY", f"{folder}/large", destination=f"/dav{folder}/mine").status == 507
    finally:
        cloud.set_quota("ann", max_bytes=None, max_files=None)
    assert cloud.read_bytes(f"{folder}/mine/f") == b"mine"


def test_copies_stay_within_the_cloud_over_http_2(door: Door, folder: str) -> None:
    door.put(f"{folder}/a", b"x")
    words = [
        "curl",
        "-s",
        "-o",
        "/dev/null",
        "-w",
        "%{http_version} %{http_code}",
        "--http2-prior-knowledge",
        "-X",
        "COPY",
    ]
    login = ["-H", f"Authorization: {door.basic}", "-H", f"Destination: {door.url}/dav{folder}/b"]
    said = subprocess.run(
        [*words, *login, f"{door.url}/dav{folder}/a"], check=True, capture_output=True, text=True
    ).stdout
    assert said == "2 201" and door.get(f"{folder}/b").body == b"x"


def test_a_property_stays_within_its_place(door: Door, cloud: sector.LocalCloud, folder: str) -> None:
    door.put(f"{folder}/a", b"x")
    forged = "urn:x y/&gt;&lt;/D:prop&gt;&lt;/D:propstat&gt;&lt;D:response&gt;&lt;D:href&gt;/dav/forged&lt;!--"
    value = "<D:set><D:prop><Z:p>v</Z:p></D:prop></D:set>"
    change = f'<D:propertyupdate xmlns:D="DAV:" xmlns:Z="{forged}">{value}</D:propertyupdate>'
    assert door.ask("PROPPATCH", f"{folder}/a", change.encode()).status == 207
    for question in (b"", b'<D:propfind xmlns:D="DAV:"><D:propname/></D:propfind>'):
        found = responses(door.ask("PROPFIND", folder, question, depth="1"))
        assert list(found) == [f"/dav{folder}/", f"/dav{folder}/a"]
        assert any(element.tag.endswith("}p") for element in found[f"/dav{folder}/a"]["200"])


# Third-party copies.


@contextmanager
def plain_server(
    answer: Callable[[http.server.BaseHTTPRequestHandler], None],
) -> Iterator[tuple[str, list[tuple[str, dict[str, str]]]]]:
    """A server that answers everything so; its address, and what it was asked."""
    asked: list[tuple[str, dict[str, str]]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            asked.append((f"{self.command} {self.path}", dict(self.headers.items())))
            with suppress(ConnectionError):
                answer(self)

        do_GET = do_HEAD = do_PUT = handle_any  # noqa: N815 - the names that the server looks for

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def gives(content: bytes, **headers: str) -> Callable[[http.server.BaseHTTPRequestHandler], None]:
    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        for name, value in ({"content-length": str(len(content))} | headers).items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(content)

    return answer


def copied(answer: Answer) -> str:
    """The last line of what a copy says of itself."""
    assert answer.status == 202, answer.text
    return answer.text.strip().splitlines()[-1]


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
