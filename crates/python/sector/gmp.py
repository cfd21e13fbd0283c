"""GMP, Sector's group messaging protocol, for services of your own: sealed requests, replies and notices over UDP.

    from sector import gmp

    gmp.make_group("group.pem", "sensors")       # once; copy the file to every machine of the group

    with gmp.Instance("group.pem", "0.0.0.0:9000") as service:
        service.serve(lambda message: message.body.upper())

    with gmp.Instance("group.pem") as client:
        client.request("host:9000", b"hello")    # b"HELLO"

A message is delivered at most once, in no order with others, and has at most 1 MiB. A request that ends in an error was
handled once or not at all. Who does not hold the group's key can neither read nor send.
"""

import logging
from collections.abc import Callable, Iterable
from os import PathLike
from types import TracebackType
from typing import Self

from sector import _native
from sector._native import GmpMessage as Message
from sector._native import make_group

__all__ = ["Instance", "Message", "make_group"]

_log = logging.getLogger("sector.gmp")


class Instance:
    """One end of GMP: it sends to any instance of its group, and receives from any. Threads may share it."""

    def __init__(self, group: str | PathLike[str], address: str = "0.0.0.0:0") -> None:
        """Opens `address`, UDP and TCP of the same number; port 0 takes a free one. `group` is the file that
        `make_group` wrote."""
        self._native = _native.GmpInstance(group, address)

    @property
    def address(self) -> str:
        """Where it listens, with the port that was taken."""
        return self._native.address

    def request(self, to: str, body: bytes, timeout: float = 5.0) -> bytes:
        """The reply of the instance at `to`, `"host:port"`. `TimeoutError` when none came in time,
        `UnavailableError` when nobody listens there or it ended before it replied."""
        return self._native.request(to, body, timeout)

    def request_each(self, to: Iterable[str], body: bytes, timeout: float = 5.0) -> dict[str, bytes | Exception]:
        """Sends one request to all at the same time; each one's reply, or the error that it ended in."""
        return dict(self._native.request_each(list(to), body, timeout))

    def notify(self, to: str, body: bytes, timeout: float = 5.0) -> None:
        """Sends a message that expects no reply; that it arrives is likely, and not said."""
        self._native.notify(to, body, timeout)

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message from others, `None` once the instance is closed. `TimeoutError` when none came in time."""
        return self._native.receive(timeout)

    def serve(self, handler: Callable[[Message], bytes | None]) -> None:
        """Answers each message with what `handler` returns, one after the other, until the instance is closed or
        Ctrl-C. Where it returns `None`, nobody is answered now. An error of `handler` is logged; the one who asked
        waits until its timeout."""
        while (message := self.receive()) is not None:
            try:
                reply = handler(message)
                if reply is not None:
                    message.reply(reply)
            except Exception:
                _log.exception("a message from %s was not answered", message.sender)

    def close(self) -> None:
        """Ends it. Replies given before are still sent; who waits for another does so until the timeout."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
