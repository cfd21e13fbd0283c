"""The WebDAV door as people's programs use it, unpatched (litmus, rclone, cadaver, davix), and by requests of our own."""

import hashlib
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from email import message_from_bytes
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from dav_support import (
    DAV,
    LOCK,
    Door,
    adler32,
    ask,
    copied,
    dav_door,
    gives,
    in_base64,
    plain_server,
    responses,
    some_bytes,
    token_of,
)
from services import gateway, run

import sector


@pytest.fixture(scope="module")
def door(cloud: sector.LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with dav_door(cloud, tmp_path_factory.mktemp("gateway"), 'transfer_hosts = ["127.0.0.1"]\n') as door:
        yield door


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
    # What she may only read is nothing that she keeps others from.
    door.put(f"{folder}/readable", b"x")
    run(cloud, "acl", "set", f"{folder}/readable", "user:admin:rw,user:ann:r")
    assert ann.get(f"{folder}/readable").status == 200
    assert ann.ask("LOCK", f"{folder}/readable", LOCK).status == 403
    assert door.put(f"{folder}/readable", b"y").status == 204
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
    # What a decoded name would lead to is there.
    with suppress(FileExistsError):
        cloud.mkdir("/a")
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
