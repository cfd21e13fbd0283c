"""What people look after in a cloud: rights, policies, quotas, the trash and copies. `Cloud` has the calls."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from sector import _native


class Acl(NamedTuple):
    """Who may do what with a file or folder."""

    owner: str
    rights: dict[str, str]
    """What is in effect: letters of `rwxa` for `user:NAME`, `group:NAME` and `everyone`."""
    is_own: bool
    """Whether the entry has a list of its own."""
    source: str | None
    """The entry that the list comes from; `None`: the cloud's settings."""
    mine: str
    """What the asking user may do."""

    @classmethod
    def of(cls, row: tuple[str, str, bool, str | None, str]) -> Self:
        """From what the native half says."""
        owner, text, is_own, source, mine = row
        rights = dict(each.rsplit(":", 1) for each in text.split(",") if ":" in each)
        return cls(owner, rights, is_own, source, mine)


class Policy(NamedTuple):
    """What is wanted of a file, or of all that a folder holds. `None`, or no site: nothing is said."""

    copies: int | None = None
    sync_copies: int | None = None
    """Copies on disk before a write is answered."""
    sites: tuple[str, ...] = ()
    """Sites that must each have a copy."""
    forbidden_sites: tuple[str, ...] = ()
    lifetime_seconds: int | None = None
    """Files go so long after they were last written."""
    together: bool | None = None
    """A folder's files lie on the same nodes."""
    quota_bytes: int | None = None
    quota_files: int | None = None
    versions_seconds: int | None = None
    """Content that was replaced can be had back for so long; 0: not at all."""

    @classmethod
    def of(cls, row: _native.PolicyRow) -> Self:
        """From what the native half says."""
        copies, sync_copies, sites, forbidden_sites, lifetime_seconds, together, *rest = row
        return cls(copies, sync_copies, tuple(sites), tuple(forbidden_sites), lifetime_seconds, together, *rest)


class Policies(NamedTuple):
    """The policy of a file or folder."""

    own: Policy
    """What it says itself."""
    effective: Policy
    """What holds, with what its folders and the cloud's settings say."""


class Quota(NamedTuple):
    """How much a user or a folder keeps, and may keep."""

    user: str | None
    folder: str | None
    used_bytes: int
    used_files: int
    max_bytes: int | None
    max_files: int | None


class TrashItem(NamedTuple):
    """Something that was removed and can be restored."""

    user: str
    path: str
    """Where it was."""
    at: str
    """Where it is in the trash."""
    until: datetime
    """When it goes for good, in UTC."""
    size_bytes: int | None
    """Length of a file; `None` for a folder."""

    @classmethod
    def of(cls, row: tuple[str, str, str, int, int | None]) -> Self:
        """From what the native half says."""
        user, path, at, millis, size_bytes = row
        return cls(user, path, at, datetime.fromtimestamp(millis / 1000, UTC), size_bytes)


class Link(NamedTuple):
    """A link between two sites in one direction, at a moment. `None`: it is not known."""

    from_site: str
    to_site: str
    """The same one for what goes between nodes of a site."""
    round_trip_seconds: float | None
    sent_bytes_per_second: int | None
    """Bytes of files."""
    loss: float | None
    """The share of packets that were lost."""
    retransmitted_bytes_per_second: int | None
    limit_bytes_per_second: int | None
    """The limit of the topology, both directions together."""


class Mark(NamedTuple):
    """A node, a disk or a link that is used less than its peers, or that counts as any other whatever is measured."""

    kind: str
    """`node`, `disk` or `link`."""
    names: tuple[str, ...]
    """The node; the node and its folder; or the two sites."""
    state: str
    """`slow` or `ignored`."""
    by: str | None
    """The administrator who has decided it; `None` where it was measured."""
    reason: str
    since: datetime
    """In UTC."""
    until: datetime | None
    """When it ends without further evidence, in UTC; `None` where an administrator has decided it."""

    @classmethod
    def of(cls, row: _native.MarkRow) -> Self:
        """From what the native half says."""
        kind, names, state, by, reason, *times = row
        since, until = (None if millis is None else datetime.fromtimestamp(millis / 1000, UTC) for millis in times)
        assert since is not None
        return cls(kind, tuple(names), state, by, reason, since, until)


class FileVersion(NamedTuple):
    """Content of a file that was replaced and can be had back."""

    at: str
    """Where it is in the trash: `cloud.copy(at, path)` brings it back."""
    version: int
    size_bytes: int
    user: str
    """Whose it is."""
    replaced: datetime
    """When it was replaced, in UTC."""
    replaced_by: str
    until: datetime
    """When it goes for good, in UTC."""

    @classmethod
    def of(cls, row: _native.VersionRow) -> Self:
        """From what the native half says."""
        at, version, size_bytes, user, replaced, replaced_by, until = row
        dates = [datetime.fromtimestamp(millis / 1000, UTC) for millis in (replaced, until)]
        return cls(at, version, size_bytes, user, dates[0], replaced_by, dates[1])


class CheckedCopy(NamedTuple):
    """One copy of a file, read and compared with its digest where it lies."""

    node: str | None
    """`None` where no copy is known at all."""
    result: str
    """`ok`, `corrupt`, `missing` or `unreachable`."""
    why: str
    """Empty where it is good."""


def list_of(rights: dict[str, str]) -> str:
    """An access list as the cloud writes it."""
    return ",".join(f"{who}:{what}" for who, what in rights.items())


def changed(own: Policy, changes: dict[str, Any]) -> Policy:
    """A policy with changes. Raises `ValueError` for what no policy has."""
    unknown = [name for name in changes if name not in Policy._fields]
    if unknown:
        raise ValueError(f"a policy has no `{unknown[0]}`; it has {', '.join(Policy._fields)}")
    for name in ("sites", "forbidden_sites"):
        if name in changes:
            changes = {**changes, name: tuple(changes[name] or ())}
    return own._replace(**changes)
