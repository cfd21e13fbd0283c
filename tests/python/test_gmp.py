"""Services of one's own over GMP: `sector.gmp`."""

import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sector import UnavailableError, gmp


@pytest.fixture
def group(tmp_path: Path) -> Path:
    file = tmp_path / "group.pem"
    gmp.make_group(file, "test")
    return file


@pytest.fixture
def service(group: Path) -> Iterator[gmp.Instance]:
    """One that answers in capitals, and does not like questions."""

    def handle(message: gmp.Message) -> bytes | None:
        if message.body == b"?":
            raise ValueError("no questions")
        return message.body.upper() if message.is_request else None

    with gmp.Instance(group, "127.0.0.1:0") as instance:
        serving = threading.Thread(target=instance.serve, args=(handle,))
        serving.start()
        yield instance
    serving.join()


def test_a_request_is_answered_and_a_group_hears_one_request(group: Path, service: gmp.Instance) -> None:
    with gmp.Instance(group, "127.0.0.1:0") as client:
        assert client.request(service.address, b"hello", 60) == b"HELLO"
        # Its port is taken, so that no other program gets it, and nobody listens there.
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            gone = f"127.0.0.1:{taken.getsockname()[1]}"
            replies = client.request_each([service.address, gone], b"all", 60)
        assert list(replies) == [service.address, gone]
        assert replies[service.address] == b"ALL"
        assert isinstance(replies[gone], UnavailableError)


def test_an_error_of_a_handler_ends_neither_the_service_nor_the_asker(
    group: Path, service: gmp.Instance, caplog: pytest.LogCaptureFixture
) -> None:
    with gmp.Instance(group, "127.0.0.1:0") as client:
        with pytest.raises(TimeoutError):
            client.request(service.address, b"?", 0.5)
        assert client.request(service.address, b"go on", 60) == b"GO ON"
    assert "no questions" in caplog.text


def test_a_notice_is_taken_by_receive_and_answered_by_nobody(group: Path) -> None:
    with gmp.Instance(group, "127.0.0.1:0") as one, gmp.Instance(group, "127.0.0.1:0") as other:
        with pytest.raises(TimeoutError):
            one.receive(0.01)
        other.notify(one.address, b"look", 60)
        message = one.receive(60)
        assert message is not None
        assert (message.body, message.sender, message.is_request) == (b"look", other.address, False)
        message.reply(b"nobody hears it")
        with pytest.raises(ValueError, match="answered already"):
            message.reply(b"twice")


def test_wrong_words_have_their_errors(group: Path, tmp_path: Path) -> None:
    assert stat.S_IMODE(group.stat().st_mode) == 0o600
    with pytest.raises(OSError, match="exists"):
        gmp.make_group(group, "again")
    with pytest.raises(OSError, match="cannot read the group's key"):
        gmp.Instance(tmp_path / "none.pem")
    with pytest.raises(ValueError, match="no address"):
        gmp.Instance(group, "everywhere")
    with gmp.Instance(group, "127.0.0.1:0") as instance:
        with pytest.raises(OSError, match="the port is in use"):
            gmp.Instance(group, instance.address)
        with pytest.raises(ValueError, match="no address"):
            instance.request("nowhere", b"")
        with pytest.raises(ValueError, match="seconds"):
            instance.request(instance.address, b"", -1.0)
        with pytest.raises(ValueError, match="longer than"):
            instance.request(instance.address, b"x" * (1 << 21))
    with pytest.raises(ValueError, match="closed"):
        instance.request(instance.address, b"")
