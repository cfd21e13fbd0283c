"""What is looked after in a cloud: rights, policies, quotas, the trash, copies."""

from datetime import timedelta

import pytest

import sector


def test_rights_are_given_added_to_and_taken_back(cloud: sector.Cloud, folder: str) -> None:
    cloud.write_bytes(f"{folder}/a", b"a")
    before = cloud.acl(f"{folder}/a")
    assert (before.owner, before.is_own, before.mine) == ("admin", False, "rwxa")
    for unknown in ("user:alice", "group:astro"):
        with pytest.raises(FileNotFoundError, match=f"there is no {unknown.replace(':', ' `')}`"):
            cloud.set_acl(folder, {unknown: "rw"})
    cloud.set_acl(folder, {"user:alice": "rw"}, unknown=True)
    cloud.add_acl(folder, {"everyone": "r"})
    with pytest.raises(FileNotFoundError, match="there is no user `nobody`"):
        cloud.add_acl(folder, {"user:nobody": "r"})
    below = cloud.acl(f"{folder}/a")
    assert (below.rights, below.is_own, below.source) == ({"user:alice": "rw", "everyone": "r"}, False, folder)
    assert cloud.set_acl(folder, None) == before
    for none in ({}, {"user:alice": "colour"}):
        with pytest.raises(ValueError, match="rights"):
            cloud.set_acl(folder, none)
    with pytest.raises(FileNotFoundError):
        cloud.acl(f"{folder}/none")


def test_a_policy_is_changed_by_its_names_and_warns(cloud: sector.Cloud, folder: str) -> None:
    cloud.set_policy(folder, copies=1, lifetime_seconds=86_400, quota_files=7)
    policies = cloud.set_policy(folder, lifetime_seconds=None, quota_bytes=1000)
    assert policies == cloud.policy(folder)
    assert policies.own == sector.Policy(copies=1, quota_bytes=1000, quota_files=7)
    assert policies.own.sites == () == cloud.set_policy(folder, sites=None).own.sites
    cloud.mkdir(f"{folder}/below")
    below = cloud.policy(f"{folder}/below")
    assert (below.own, below.effective.copies) == (sector.Policy(), 1)
    [quota] = [quota for quota in cloud.quotas() if quota.folder == folder]
    assert (quota.user, quota.max_bytes, quota.max_files, quota.used_bytes) == (None, 1000, 7, 0)
    with pytest.warns(UserWarning, match="9 copies"):
        cloud.set_policy(folder, copies=9)
    site = cloud.nodes()[0].site
    assert cloud.set_policy(folder, copies=1, forbidden_sites=["mars"], sites=[site]).own[:4] == (
        1,
        None,
        (site,),
        ("mars",),
    )
    with pytest.raises(ValueError, match="no `colour`"):
        cloud.set_policy(folder, colour=1)


def test_a_users_quota_is_set_and_holds(cloud: sector.Cloud, folder: str) -> None:
    with pytest.raises(FileNotFoundError, match="there is no user `nobody`"):
        cloud.set_quota("nobody", max_bytes=1, max_files=None)
    cloud.set_quota("nobody", max_bytes=1, max_files=None, unknown=True)
    cloud.set_quota("nobody", max_bytes=None, max_files=None)
    cloud.set_quota("admin", max_bytes=None, max_files=1)
    try:
        [quota] = [quota for quota in cloud.quotas() if quota.user == "admin"]
        assert (quota.folder, quota.max_bytes, quota.max_files) == (None, None, 1)
        with pytest.raises(OSError, match="quota"):
            for name in "ab":
                cloud.write_bytes(f"{folder}/{name}", b"a")
    finally:
        cloud.set_quota("admin", max_bytes=None, max_files=None)
    cloud.write_bytes(f"{folder}/b", b"a")


def test_what_was_removed_is_restored_or_goes_for_good(cloud: sector.Cloud, folder: str) -> None:
    for name in "ab":
        cloud.write_bytes(f"{folder}/{name}", name.encode())
        cloud.remove(f"{folder}/{name}")
    mine = {item.path: item for item in cloud.trash() if item.path.startswith(folder)}
    assert sorted(mine) == [f"{folder}/a", f"{folder}/b"]
    item = mine[f"{folder}/a"]
    assert (item.user, item.size_bytes, item.at.startswith("/.trash/")) == ("admin", 1, True)
    assert cloud.restore(f"{folder}/a").path == f"{folder}/a"
    assert cloud.restore(mine[f"{folder}/b"].at, f"{folder}/c").path == f"{folder}/c"
    assert cloud.read_bytes(f"{folder}/c") == b"b"
    cloud.remove(f"{folder}/c")
    cloud.empty_trash()
    assert cloud.trash() == []
    with pytest.raises(FileNotFoundError):
        cloud.restore(f"{folder}/c")


def test_what_was_overwritten_is_listed_and_copied_back(cloud: sector.Cloud, folder: str) -> None:
    path = f"{folder}/a"
    for text in (b"old", b"newer"):
        cloud.write_bytes(path, text)
    [version] = cloud.versions(path)
    assert (version.size_bytes, version.user, version.replaced_by) == (3, "admin", "admin")
    assert version.at.startswith("/.trash/admin/") and version.version > 0
    assert version.until - version.replaced == timedelta(days=1)
    cloud.copy(version.at, path)
    assert cloud.read_bytes(path) == b"old"
    assert [version.size_bytes for version in cloud.versions(path)] == [3, 5]
    assert cloud.set_policy(folder, versions_seconds=0).effective.versions_seconds == 0
    cloud.write_bytes(path, b"newest")
    assert len(cloud.versions(path)) == 2
    with pytest.raises(FileNotFoundError):
        cloud.versions(f"{folder}/none")


def test_every_copy_is_checked(cloud: sector.LocalCloud, folder: str) -> None:
    cloud.write_bytes(f"{folder}/a", bytes(100_000), copies=1)
    [copy] = cloud.check(f"{folder}/a")
    assert (copy.result, copy.why) == ("ok", "") and copy.node in [node.id for node in cloud.nodes()]
    with pytest.raises(IsADirectoryError):
        cloud.check(folder)


def test_links_between_sites_are_measured(cloud: sector.LocalCloud, folder: str) -> None:
    cloud.write_bytes(f"{folder}/a", bytes(1 << 20), copies=2)

    def between() -> list[sector.Link]:
        # The copies lie at both sites: one went over the link.
        return [link for link in cloud.links() if link.from_site != link.to_site and link.loss is not None]

    # Nodes tell it a second later; a question takes a millisecond or more.
    link = next(found[0] for _ in range(20_000) if (found := between()))
    assert link.loss is not None and 0 <= link.loss < 1
    assert link.round_trip_seconds is not None and 0 < link.round_trip_seconds < 60
    assert None not in (link.sent_bytes_per_second, link.retransmitted_bytes_per_second)
    assert link.limit_bytes_per_second is None
    [earlier] = [each for each in cloud.links(23 * 3_600) if each[:2] == link[:2]]
    assert earlier[2:] == (None,) * 5, "there was no cloud then"
    with pytest.raises(ValueError, match="24 hours"):
        cloud.links(2 * 86_400)


def test_marks_are_listed_set_and_cleared(cloud: sector.LocalCloud, folder: str) -> None:
    node, sites = cloud.nodes()[0].id, sorted({node.site for node in cloud.nodes()})
    cloud.add_mark("node", node, reason="it rattles")
    [mark] = cloud.marks()
    assert mark[:5] == ("node", (node,), "slow", "admin", "it rattles")
    assert mark.since.tzinfo is not None and mark.until is None, "until it is cleared"
    cloud.ignore_mark(mark.kind, *mark.names)
    assert [(mark.state, mark.reason) for mark in cloud.marks()] == [("ignored", "")]
    cloud.clear_mark(mark.kind, *mark.names)
    assert cloud.marks() == []
    cloud.add_mark("link", *reversed(sites))
    assert [mark.names for mark in cloud.marks()] == [tuple(sites)]
    cloud.clear_mark("link", *sites)
    with pytest.raises(FileNotFoundError):
        cloud.clear_mark("node", node)
    with pytest.raises(FileNotFoundError):
        cloud.add_mark("node", "node-99")
    with pytest.raises(ValueError, match="link SITE SITE"):
        cloud.add_mark("rack", "rack-1")
