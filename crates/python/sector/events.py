"""What happened in a cloud, as events. `Cloud.events` gives them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from sector import _native


class Event(NamedTuple):
    """One thing that happened, or `gap`: what happened before is not kept any more."""

    number: int
    """Larger than that of every event before: `since=event.number` goes on after it."""
    time: datetime | None
    """When, in UTC; `None` for a gap."""
    kind: str
    """Such as `file_published`; `docs/events.md` has all of them."""
    subject: str
    """A path, a node, a job, or `cloud`."""
    fields: dict[str, Any]
    """What else is known: `user`, `version`, `bytes`, `digest`, `from` and so on."""

    @classmethod
    def of(cls, text: str) -> Self:
        """From what the native half says."""
        fields: dict[str, Any] = json.loads(text)
        number, kind, subject = fields.pop("number"), fields.pop("kind"), fields.pop("subject")
        time = fields.pop("time", None)
        return cls(number, datetime.fromisoformat(time) if time else None, kind, subject, fields)


def each(native: _native.Events) -> Iterator[Event]:
    """The events of a stream."""
    while (text := native.next(False)) is not None:
        yield Event.of(text)
