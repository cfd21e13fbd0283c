"""What tests of WebDAV share: a door, requests to it, and other sides of third-party copies."""

import base64
import http.client
import http.server
import random
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

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


@contextmanager
def dav_door(cloud: sector.LocalCloud, folder: Path, settings: str = "") -> Iterator[Door]:
    """A gateway of a cloud with these settings, as its administrator."""
    with gateway(cloud, folder, settings) as url:
        yield Door(url, "admin", token_of(cloud, "admin", folder.name))


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
