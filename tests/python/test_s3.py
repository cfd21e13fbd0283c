"""The S3 door as the tools that people have use it, unpatched: boto3, the AWS command line, pyarrow, rclone and s3cmd."""

import base64
import hashlib
import io
import os
import random
import subprocess
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError
from pyarrow import fs as arrow_fs
from services import gateway, run

import sector

MIB = 1 << 20


class Door:
    """A gateway that speaks S3, and a user's access key."""

    def __init__(self, url: str, key: str, secret: str) -> None:
        self.url, self.key, self.secret = url, key, secret

    def client(self, **changes: Any) -> Any:
        """boto3 with as little set as a user sets."""
        wanted = {"aws_access_key_id": self.key, "aws_secret_access_key": self.secret}
        return boto3.client("s3", **{"endpoint_url": self.url, "region_name": "us-east-1", **wanted, **changes})

    @property
    def environment(self) -> dict[str, str]:
        """For programs that take the key from there, and nothing of what this machine has set for others."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.url,
        }


def new_key(cloud: sector.LocalCloud, *user: str) -> tuple[str, str]:
    lines = run(cloud, "user", "key", "add", *user).split()
    return lines[0].removeprefix("AWS_ACCESS_KEY_ID="), lines[1].removeprefix("AWS_SECRET_ACCESS_KEY=")


@pytest.fixture(scope="module")
def door(cloud: sector.LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    folder = tmp_path_factory.mktemp("gateway")
    run(cloud, "group", "add", "gateways")
    run(cloud, "user", "add", "s3-door", "--service", "--group", "gateways")
    run(cloud, "user", "token", "add", "s3-door", "gateway", "--write-profile", str(folder / "door.toml"))
    with gateway(cloud, folder, 's3_profile = "door.toml"\ns3_domain = "s3.test"\n') as url:
        yield Door(url, *new_key(cloud))


@pytest.fixture
def s3(door: Door) -> Any:
    return door.client()


@pytest.fixture
def bucket(s3: Any, request: pytest.FixtureRequest) -> str:
    """A bucket that only this test uses, with a name that Amazon allows."""
    name = "t-" + hashlib.md5(request.node.nodeid.encode()).hexdigest()[:12]
    s3.create_bucket(Bucket=name)
    return name


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(ClientError) as error:
        call()
    return str(error.value.response["Error"]["Code"])


def tool(door: Door, *program: str) -> Callable[..., str]:
    """A program with the key in its environment; gives what it prints."""

    def run_it(*words: str) -> str:
        command = [*program, *words]
        return subprocess.run(command, env=door.environment, check=True, capture_output=True, text=True).stdout

    return run_it


def keys(s3: Any, bucket: str, **more: Any) -> list[str]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, **more)
    return [found["Key"] for page in pages for found in page.get("Contents", [])]


def test_an_object_is_a_file_and_a_file_is_an_object(cloud: sector.LocalCloud, s3: Any, bucket: str) -> None:
    made = s3.put_object(
        Bucket=bucket, Key="a/b c+ü.txt", Body=b"hello", ContentType="text/plain", Metadata={"who": "ann"}
    )
    assert made["ETag"] == f'"{hashlib.md5(b"hello").hexdigest()}"'
    assert cloud.read_bytes(f"/{bucket}/a/b c+ü.txt") == b"hello"
    got = s3.get_object(Bucket=bucket, Key="a/b c+ü.txt")
    assert (got["Body"].read(), got["ContentType"], got["Metadata"]) == (b"hello", "text/plain", {"who": "ann"})
    head = s3.head_object(Bucket=bucket, Key="a/b c+ü.txt")
    assert (head["ContentLength"], head["ETag"]) == (5, made["ETag"])
    # What came in another way has a tag that no client takes for an MD5.
    cloud.write_bytes(f"/{bucket}/plain", b"from elsewhere")
    tag = s3.head_object(Bucket=bucket, Key="plain")["ETag"].strip('"')
    assert tag.endswith("-0") and s3.get_object(Bucket=bucket, Key="plain", IfMatch=tag)["Body"].read()
    assert bucket in [found["Name"] for found in s3.list_buckets()["Buckets"]]


@pytest.mark.parametrize("size", [0, 1, 4 * MIB, 4 * MIB + 1, 11 * MIB + 7])
def test_bytes_come_back_as_they_were_at_every_size(s3: Any, bucket: str, size: int) -> None:
    content = hashlib.shake_256(str(size).encode()).digest(size)
    made = s3.put_object(Bucket=bucket, Key="x", Body=content)
    assert made["ETag"] == f'"{hashlib.md5(content).hexdigest()}"' == s3.head_object(Bucket=bucket, Key="x")["ETag"]
    assert s3.get_object(Bucket=bucket, Key="x", ChecksumMode="ENABLED")["Body"].read() == content
    if size > 3:
        part = s3.get_object(Bucket=bucket, Key="x", Range=f"bytes=1-{size - 2}")
        assert part["Body"].read() == content[1:-1] and part["ContentRange"] == f"bytes 1-{size - 2}/{size}"
        assert s3.get_object(Bucket=bucket, Key="x", Range="bytes=-3")["Body"].read() == content[-3:]
    if size == 0:
        assert refused(lambda: s3.get_object(Bucket=bucket, Key="x", Range="bytes=-5")) == "InvalidRange"
    assert refused(lambda: s3.get_object(Bucket=bucket, Key="x", Range=f"bytes={size}-")) == "InvalidRange"


def test_lists_are_in_the_order_of_keys_however_they_are_divided(s3: Any, bucket: str) -> None:
    names = ["a", "a-b", "a.b/x", "a/1", "a/2/deep", "a0", "b/c/d", "b/c-d", "zz/ü", "B"]
    # A name is a file or a folder.
    names.remove("a")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: s3.put_object(Bucket=bucket, Key=name, Body=b"x"), names))
    s3.put_object(Bucket=bucket, Key="empty/")
    names = sorted([*names, "empty/"])
    for size in (1, 2, 3, 1000):
        assert keys(s3, bucket, PaginationConfig={"PageSize": size}) == names, size
    for prefix in ("a", "a/", "a/2", "b/c", "z", "zz/ü", "none", "empty/", "a//", "../"):
        for after in ("", "a-b", "a/1", "a/", "b/c-d", "zzz"):
            expected = [name for name in names if name.startswith(prefix) and name > after]
            assert keys(s3, bucket, Prefix=prefix, StartAfter=after) == expected, (prefix, after)
    for prefix in ("", "a", "a/", "b/", "b/c"):
        rest = [name[len(prefix) :] for name in names if name.startswith(prefix)]
        folders = sorted({prefix + name[: name.index("/") + 1] for name in rest if "/" in name})
        files = [prefix + name for name in rest if "/" not in name]
        for size in (1, 2, 1000):
            pages = s3.get_paginator("list_objects_v2").paginate(
                Bucket=bucket, Prefix=prefix, Delimiter="/", PaginationConfig={"PageSize": size}
            )
            found = list(pages)
            prefixes = [entry["Prefix"] for page in found for entry in page.get("CommonPrefixes", [])]
            objects = [entry["Key"] for page in found for entry in page.get("Contents", [])]
            assert (prefixes, objects) == (folders, files), (prefix, size)
    old = s3.get_paginator("list_objects").paginate(Bucket=bucket, PaginationConfig={"PageSize": 2})
    assert [entry["Key"] for page in old for entry in page.get("Contents", [])] == names
    assert refused(lambda: s3.list_objects_v2(Bucket=bucket, Delimiter="-")) == "NotImplemented"


def as_listed(names: list[str], prefix: str, after: str, delimiter: str) -> list[str]:
    """What a list shows of these keys, as S3 says it."""
    found: list[str] = []
    for name in names:
        rest = name.removeprefix(prefix)
        if not name.startswith(prefix) or name.encode() <= after.encode():
            continue
        shown = prefix + rest.split("/")[0] + "/" if delimiter and "/" in rest else name
        if shown not in found and not (shown.endswith("/") and shown == after):
            found.append(shown)
    return sorted(found, key=str.encode)


def test_any_list_of_any_keys_is_what_a_model_says(s3: Any, bucket: str) -> None:
    rng = random.Random(7)

    def name() -> str:
        return "".join(rng.choice(" !-0abü") for _ in range(rng.randint(1, 3)))

    names: set[str] = set()
    while len(names) < 60:
        key = "/".join(name() for _ in range(rng.randint(1, 3)))
        # A key cannot be a file and a folder.
        if not any(f"{known}/".startswith(f"{key}/") or f"{key}/".startswith(f"{known}/") for known in names):
            s3.put_object(Bucket=bucket, Key=key, Body=b"")
            names.add(key)
    ordered = sorted(names, key=str.encode)
    for _ in range(150):
        prefix = rng.choice(["", name(), rng.choice(ordered)[: rng.randint(0, 4)]])
        after = rng.choice(["", rng.choice(ordered), rng.choice(ordered)[: rng.randint(0, 4)], f"{name()}/"])
        delimiter, size = rng.choice(["", "/"]), rng.choice([1, 2, 3, 7, 1000])
        pages = s3.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=prefix, StartAfter=after, Delimiter=delimiter, PaginationConfig={"PageSize": size}
        )
        shown = [
            (entry.get("Key") or entry["Prefix"])
            for page in pages
            for entry in sorted(
                page.get("Contents", []) + page.get("CommonPrefixes", []),
                key=lambda entry: (entry.get("Key") or entry["Prefix"]).encode(),
            )
        ]
        assert shown == as_listed(ordered, prefix, after, delimiter), (prefix, after, delimiter, size)


def test_conditions_are_checked_with_the_change(s3: Any, bucket: str) -> None:
    first = s3.put_object(Bucket=bucket, Key="x", Body=b"1", IfNoneMatch="*")["ETag"]
    assert refused(lambda: s3.put_object(Bucket=bucket, Key="x", Body=b"2", IfNoneMatch="*")) == "PreconditionFailed"
    second = s3.put_object(Bucket=bucket, Key="x", Body=b"2", IfMatch=first)["ETag"]
    assert refused(lambda: s3.put_object(Bucket=bucket, Key="x", Body=b"3", IfMatch=first)) == "PreconditionFailed"
    assert refused(lambda: s3.get_object(Bucket=bucket, Key="x", IfMatch=first)) == "PreconditionFailed"
    assert refused(lambda: s3.get_object(Bucket=bucket, Key="x", IfNoneMatch=second)) == "304"
    changed = s3.head_object(Bucket=bucket, Key="x")["LastModified"]
    assert refused(lambda: s3.get_object(Bucket=bucket, Key="x", IfModifiedSince=changed)) == "304"
    assert s3.get_object(Bucket=bucket, Key="x", IfUnmodifiedSince=changed)["Body"].read() == b"2"

    # Of many who would be first, one is.
    def claim(number: int) -> bool:
        try:
            s3.put_object(Bucket=bucket, Key="claim", Body=str(number), IfNoneMatch="*")
            return True
        except ClientError:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(claim, range(8))) == 1
    # Without a condition the last one counts, and nobody is refused.
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: s3.put_object(Bucket=bucket, Key="both", Body=str(number)), range(8)))


def test_what_goes_leaves_no_empty_folder_behind(cloud: sector.LocalCloud, s3: Any, bucket: str) -> None:
    for key in ("a/b/c/1", "a/b/2", "3"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    assert refused(lambda: s3.delete_bucket(Bucket=bucket)) == "BucketNotEmpty"
    s3.delete_object(Bucket=bucket, Key="a/b/c/1")
    s3.delete_object(Bucket=bucket, Key="a/b/c/1")
    s3.delete_object(Bucket=bucket, Key="never/was")
    assert keys(s3, bucket) == ["3", "a/b/2"] and not cloud.exists(f"/{bucket}/a/b/c")
    many = [{"Key": key} for key in ("a/b/2", "3", "none", "a//b")]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": many})
    assert sorted(entry["Key"] for entry in answer["Deleted"]) == ["3", "a/b/2", "none"]
    assert [(entry["Key"], entry["Code"]) for entry in answer["Errors"]] == [("a//b", "InvalidArgument")]
    assert cloud.exists(f"/{bucket}") and not cloud.exists(f"/{bucket}/a")
    s3.delete_bucket(Bucket=bucket)
    assert refused(lambda: s3.list_objects_v2(Bucket=bucket)) == "NoSuchBucket"
    assert refused(lambda: s3.put_object(Bucket=bucket, Key="x", Body=b"")) == "NoSuchBucket"
    assert refused(lambda: s3.get_object(Bucket=bucket, Key="x")) == "NoSuchBucket"
    s3.create_bucket(Bucket=bucket)
    assert refused(lambda: s3.create_bucket(Bucket=bucket)) == "BucketAlreadyOwnedByYou"
    assert refused(lambda: s3.get_object(Bucket=bucket, Key="x")) == "NoSuchKey"


def test_a_folder_with_rights_of_its_own_outlives_its_objects(cloud: sector.LocalCloud, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="closed/a/x", Body=b"x")
    cloud.set_acl(f"/{bucket}/closed", {"user:admin": "rwxa"})
    s3.delete_object(Bucket=bucket, Key="closed/a/x")
    assert not cloud.exists(f"/{bucket}/closed/a") and cloud.acl(f"/{bucket}/closed").is_own
    assert keys(s3, bucket) == ["closed/"]
    assert refused(lambda: s3.put_object(Bucket=bucket, Key="closed", Body=b"x")) == "KeyIsFolder"
    s3.put_object(Bucket=bucket, Key="file", Body=b"x")
    assert refused(lambda: s3.put_object(Bucket=bucket, Key="file/below", Body=b"x")) == "ParentIsObject"
    assert refused(lambda: s3.put_object(Bucket=bucket, Key="x", Body=b"", ACL="public-read")) == "NotImplemented"


def test_uploads_in_parts_become_one_object(cloud: sector.LocalCloud, s3: Any, bucket: str, tmp_path: Path) -> None:
    content = hashlib.shake_256(b"parts").digest(17 * MIB)
    (tmp_path / "large").write_bytes(content)
    config = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=6 * MIB)
    s3.upload_file(str(tmp_path / "large"), bucket, "d/large", Config=config, ExtraArgs={"Metadata": {"k": "v"}})
    head = s3.head_object(Bucket=bucket, Key="d/large")
    digests = b"".join(hashlib.md5(content[at : at + 6 * MIB]).digest() for at in range(0, len(content), 6 * MIB))
    assert head["ETag"] == f'"{hashlib.md5(digests).hexdigest()}-3"' and head["Metadata"] == {"k": "v"}
    s3.download_file(bucket, "d/large", str(tmp_path / "back"), Config=config)
    assert (tmp_path / "back").read_bytes() == content
    assert not cloud.exists(f"/{bucket}/d/.s3-uploads"), "no part is left"
    # By hand, with all that may go wrong.
    upload = s3.create_multipart_upload(Bucket=bucket, Key="x", ContentType="image/fits")["UploadId"]
    of = {"Bucket": bucket, "Key": "x", "UploadId": upload}
    tags = {n: s3.upload_part(**of, PartNumber=n, Body=content[: 5 * MIB])["ETag"] for n in (2, 7)}
    s3.upload_part_copy(**of, PartNumber=9, CopySource=f"{bucket}/d/large", CopySourceRange="bytes=0-99")
    parts = s3.list_parts(**of)["Parts"]
    assert [(part["PartNumber"], part["Size"]) for part in parts] == [(2, 5 * MIB), (7, 5 * MIB), (9, 100)]
    assert not s3.list_parts(**of, MaxParts=0)["IsTruncated"]
    past = partial(s3.upload_part_copy, **of, PartNumber=9, CopySource=f"{bucket}/d/large")
    assert refused(lambda: past(CopySourceRange=f"bytes=0-{len(content)}")) == "InvalidRange"
    assert [found["Key"] for found in s3.list_multipart_uploads(Bucket=bucket)["Uploads"]] == ["x"]
    assert keys(s3, bucket) == ["d/large"], "what is unfinished is not listed"

    def complete(*parts: tuple[int, str]) -> None:
        named = [{"PartNumber": number, "ETag": tag} for number, tag in parts]
        s3.complete_multipart_upload(**of, MultipartUpload={"Parts": named})

    assert refused(lambda: complete((7, tags[7]), (2, tags[2]))) == "InvalidPartOrder"
    assert refused(lambda: complete((2, '"0"'))) == "InvalidPart"
    assert refused(lambda: complete((9, parts[2]["ETag"]), (10, tags[2]))) == "EntityTooSmall"
    complete((2, tags[2]), (9, parts[2]["ETag"]))
    made = s3.get_object(Bucket=bucket, Key="x")
    assert (made["Body"].read(), made["ContentType"]) == (content[: 5 * MIB] + content[:100], "image/fits")
    assert refused(lambda: s3.list_parts(**of)) == "NoSuchUpload"
    # The answer may have been lost: again is as good as once.
    complete((2, tags[2]), (9, parts[2]["ETag"]))
    other = s3.create_multipart_upload(Bucket=bucket, Key="y")["UploadId"]
    assert (
        refused(lambda: s3.upload_part(Bucket=bucket, Key="z", UploadId=other, PartNumber=1, Body=b""))
        == "NoSuchUpload"
    )
    s3.abort_multipart_upload(Bucket=bucket, Key="y", UploadId=other)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_what_is_said_of_the_whole_is_compared_before_parts_are_joined(s3: Any, bucket: str) -> None:
    upload = s3.create_multipart_upload(Bucket=bucket, Key="x", ChecksumAlgorithm="CRC32")["UploadId"]
    of = {"Bucket": bucket, "Key": "x", "UploadId": upload}
    body = hashlib.shake_256(b"whole").digest(6 * MIB)
    sizes = (body[: 5 * MIB], body[5 * MIB :])
    made = [s3.upload_part(**of, PartNumber=n, Body=part, ChecksumAlgorithm="CRC32") for n, part in enumerate(sizes, 1)]
    parts = [
        {"PartNumber": n, "ETag": part["ETag"], "ChecksumCRC32": part["ChecksumCRC32"]}
        for n, part in enumerate(made, 1)
    ]

    def complete(parts: list[dict[str, Any]], **more: Any) -> Any:
        return s3.complete_multipart_upload(**of, MultipartUpload={"Parts": parts}, **more)

    def sum_of(content: bytes) -> str:
        return base64.b64encode(zlib.crc32(content).to_bytes(4)).decode()

    sums = b"".join(base64.b64decode(part["ChecksumCRC32"]) for part in made)
    whole = {"ChecksumCRC32": sum_of(body), "ChecksumType": "FULL_OBJECT"}
    wrong = {"ChecksumCRC32": sum_of(b""), "ChecksumType": "FULL_OBJECT"}
    assert refused(lambda: complete([parts[0], {**parts[1], "ChecksumCRC32": sum_of(b"")}])) == "InvalidPart"
    assert refused(lambda: complete(parts, **wrong)) == "BadDigest"
    assert refused(lambda: complete(parts, ChecksumCRC32=sum_of(b""), ChecksumType="COMPOSITE")) == "BadDigest"
    assert refused(lambda: complete(parts, MpuObjectSize=77)) == "InvalidRequest"
    s3.put_object(Bucket=bucket, Key="x", Body=b"first")
    assert refused(lambda: complete(parts, IfNoneMatch="*")) == "PreconditionFailed"
    assert s3.get_object(Bucket=bucket, Key="x")["Body"].read() == b"first"
    complete(parts, MpuObjectSize=len(body), **whole)
    got = s3.get_object(Bucket=bucket, Key="x", ChecksumMode="ENABLED")
    assert got["Body"].read() == body and got["ChecksumCRC32"] == whole["ChecksumCRC32"]
    of["UploadId"] = s3.create_multipart_upload(Bucket=bucket, Key="x", ChecksumAlgorithm="CRC32")["UploadId"]
    for n, part in enumerate(sizes, 1):
        s3.upload_part(**of, PartNumber=n, Body=part, ChecksumAlgorithm="CRC32")
    complete(parts, ChecksumCRC32=sum_of(sums), ChecksumType="COMPOSITE")


def test_conditions_hold_for_copies_and_removals_too(s3: Any, bucket: str) -> None:
    old = s3.put_object(Bucket=bucket, Key="x", Body=b"1")["ETag"]
    new = s3.put_object(Bucket=bucket, Key="x", Body=b"2")["ETag"]
    s3.put_object(Bucket=bucket, Key="source", Body=b"source")
    copy = partial(s3.copy_object, Bucket=bucket, Key="x", CopySource=f"{bucket}/source")
    assert refused(lambda: copy(IfNoneMatch="*")) == "PreconditionFailed"
    assert refused(lambda: copy(IfMatch=old)) == "PreconditionFailed"
    assert refused(lambda: s3.delete_object(Bucket=bucket, Key="x", IfMatch=old)) == "PreconditionFailed"
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "x", "ETag": old}, {"Key": "source"}]})
    assert [error["Code"] for error in answer["Errors"]] == ["PreconditionFailed"] and len(answer["Deleted"]) == 1
    assert s3.get_object(Bucket=bucket, Key="x")["Body"].read() == b"2"
    # Of a removal and a write that both want the same object, one is done.
    for _ in range(20):
        with ThreadPoolExecutor(2) as pool:
            removed = pool.submit(s3.delete_object, Bucket=bucket, Key="x", IfMatch=new)
            written = pool.submit(s3.put_object, Bucket=bucket, Key="x", Body=b"3", IfMatch=new)
        assert sum(done.exception() is None for done in (removed, written)) == 1
        new = s3.put_object(Bucket=bucket, Key="x", Body=b"2")["ETag"]
    s3.delete_object(Bucket=bucket, Key="x", IfMatch=new)
    assert keys(s3, bucket) == []


@pytest.mark.parametrize("size", [5, 2 * MIB])
def test_what_is_appended_otherwise_is_not_what_was_summed(
    cloud: sector.LocalCloud, s3: Any, bucket: str, size: int
) -> None:
    before = s3.put_object(Bucket=bucket, Key="x", Body=b"f" * size, ChecksumAlgorithm="CRC32")["ETag"]
    with cloud.open(f"/{bucket}/x", "ab") as file:
        file.write(b"more")
    got = s3.get_object(Bucket=bucket, Key="x", ChecksumMode="ENABLED")
    assert got["Body"].read() == b"f" * size + b"more" and "ChecksumCRC32" not in got
    assert (
        got["ETag"].strip('"').endswith("-0")
        and refused(lambda: s3.put_object(Bucket=bucket, Key="x", Body=b"", IfMatch=before)) == "PreconditionFailed"
    )


def test_parts_have_the_rights_of_what_they_become(cloud: sector.LocalCloud, door: Door, bucket: str) -> None:
    run(cloud, "user", "add", "s3-carol", "--service")
    for folder, carol in (("closed", ""), ("own", ",user:s3-carol:rwx")):
        run(cloud, "mkdir", f"/{bucket}/{folder}")
        run(cloud, "acl", "set", f"/{bucket}/{folder}", f"user:admin:rwxa{carol}")
    run(cloud, "acl", "set", f"/{bucket}", "user:admin:rwxa,user:s3-carol:rx")
    key, secret = new_key(cloud, "s3-carol")
    admin, carol = door.client(), door.client(aws_access_key_id=key, aws_secret_access_key=secret)
    upload = admin.create_multipart_upload(Bucket=bucket, Key="closed/x")["UploadId"]
    of = {"Bucket": bucket, "Key": "closed/x", "UploadId": upload}
    admin.upload_part(**of, PartNumber=1, Body=b"secret")
    for call in (
        partial(carol.upload_part, **of, PartNumber=1, Body=b"other"),
        partial(carol.list_parts, **of),
        partial(carol.abort_multipart_upload, **of),
        partial(carol.create_multipart_upload, Bucket=bucket, Key="closed/y"),
        partial(carol.create_multipart_upload, Bucket=bucket, Key="y"),
    ):
        assert refused(call) == "AccessDenied", call
    assert "Uploads" not in carol.list_multipart_uploads(Bucket=bucket)
    assert [found["Key"] for found in admin.list_multipart_uploads(Bucket=bucket)["Uploads"]] == ["closed/x"]
    # Where she may write, she may in parts.
    config = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB)
    carol.upload_fileobj(io.BytesIO(b"c" * 6 * MIB), bucket, "own/z", Config=config)
    assert carol.head_object(Bucket=bucket, Key="own/z")["ContentLength"] == 6 * MIB
    admin.abort_multipart_upload(**of)
    assert cloud.exists(f"/{bucket}/closed") and not cloud.ls(f"/{bucket}/closed")


def test_what_would_be_ignored_is_refused(door: Door, s3: Any, bucket: str) -> None:
    for name, more in (("ACL", "public-read"), ("ObjectLockEnabledForBucket", True), ("GrantRead", "id=x")):
        assert refused(partial(s3.create_bucket, Bucket=f"{bucket}-2", **{name: more})) == "NotImplemented"
    put = partial(s3.put_object, Bucket=bucket, Key="x", Body=b"")
    for tags in ("a=1&a=2", "&".join(f"k{n}=v" for n in range(11))):
        assert refused(partial(put, Tagging=tags)) == "InvalidTag"
    assert refused(partial(put, ServerSideEncryption="AES256")) == "NotImplemented"
    assert refused(partial(put, ExpectedBucketOwner="999999999999")) == "NotImplemented"
    folder = partial(s3.put_object, Bucket=bucket, Key="f/", Body=b"")
    folder()
    assert refused(partial(folder, IfNoneMatch="*")) == "PreconditionFailed"
    assert refused(partial(folder, Metadata={"k": "v"})) == "NotImplemented"
    assert refused(partial(folder, ContentMD5="AAAAAAAAAAAAAAAAAAAAAA==")) == "BadDigest"
    assert refused(partial(s3.head_object, Bucket=bucket, Key="f/", PartNumber=2)) == "501"
    form = s3.generate_presigned_post(bucket, "form")
    lines = "".join(
        f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in {**form["fields"], "file": "x"}.items()
    )
    headers = {"Content-Type": "multipart/form-data; boundary=b", "x-amz-foo": "1"}
    posted = urllib.request.Request(form["url"], f"{lines}--b--\r\n".encode(), headers)
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(posted)
    assert error.value.code == 501 and keys(s3, bucket) == ["f/"]


def test_copies_and_tags_change_what_is_said_of_an_object(s3: Any, bucket: str) -> None:
    tag = s3.put_object(Bucket=bucket, Key="a", Body=b"abc", Metadata={"k": "v"}, Tagging="t=1&u=2")["ETag"]
    s3.copy_object(Bucket=bucket, Key="d/b", CopySource={"Bucket": bucket, "Key": "a"})
    head = s3.head_object(Bucket=bucket, Key="d/b")
    assert (head["ETag"], head["Metadata"]) == (tag, {"k": "v"})
    replaced = {"MetadataDirective": "REPLACE", "Metadata": {"new": "1"}, "ContentType": "text/csv"}
    s3.copy_object(Bucket=bucket, Key="a", CopySource=f"/{bucket}/a", **replaced)
    head = s3.head_object(Bucket=bucket, Key="a")
    assert (head["Metadata"], head["ContentType"], head["ETag"]) == ({"new": "1"}, "text/csv", tag)
    assert refused(lambda: s3.copy_object(Bucket=bucket, Key="a", CopySource=f"/{bucket}/a")) == "InvalidRequest"
    assert refused(lambda: s3.copy_object(Bucket=bucket, Key="c", CopySource=f"/{bucket}/none")) == "NoSuchKey"

    def tags(key: str) -> dict[str, str]:
        found = s3.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
        return {tag["Key"]: tag["Value"] for tag in found}

    assert tags("a") == tags("d/b") == {"t": "1", "u": "2"}
    s3.put_object_tagging(Bucket=bucket, Key="a", Tagging={"TagSet": [{"Key": "x y", "Value": "=&"}]})
    assert tags("a") == {"x y": "=&"}
    s3.delete_object_tagging(Bucket=bucket, Key="a")
    assert tags("a") == {} and s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"abc"


def test_everyone_has_the_rights_of_their_own_key(cloud: sector.LocalCloud, door: Door, bucket: str) -> None:
    run(cloud, "user", "add", "s3-bob", "--service")
    run(cloud, "mkdir", f"/{bucket}/closed")
    run(cloud, "acl", "set", f"/{bucket}/closed", "user:s3-door:r")
    cloud.write_bytes(f"/{bucket}/closed/x", b"secret")
    key, secret = new_key(cloud, "s3-bob")
    bob = door.client(aws_access_key_id=key, aws_secret_access_key=secret)
    assert refused(lambda: bob.get_object(Bucket=bucket, Key="closed/x")) == "AccessDenied"
    assert refused(lambda: bob.put_object(Bucket=bucket, Key="closed/y", Body=b"")) == "AccessDenied"
    forged = door.client(aws_access_key_id=key, aws_secret_access_key=door.secret)
    assert refused(lambda: forged.list_buckets()) == "SignatureDoesNotMatch"
    unknown = door.client(aws_access_key_id="SKAAAAAAAAAAAAAAAAAA")
    assert refused(lambda: unknown.list_buckets()) == "InvalidAccessKeyId"
    assert key in run(cloud, "user", "key", "list", "s3-bob")
    run(cloud, "user", "key", "remove", key, "s3-bob")
    assert key not in run(cloud, "user", "key", "list", "s3-bob")


# Of its own, boto3 signs addresses in the old way.
@pytest.mark.parametrize("version", [None, "s3v4"])
def test_signed_addresses_work_for_who_has_them_and_nothing_else_does(
    door: Door, bucket: str, version: str | None
) -> None:
    s3 = door.client(config=Config(signature_version=version))
    s3.put_object(Bucket=bucket, Key="x y", Body=b"shared")

    def signed(what: str, key: str, life: int, **more: str) -> str:
        return str(s3.generate_presigned_url(what, {"Bucket": bucket, "Key": key, **more}, ExpiresIn=life))

    address = signed("get_object", "x y", 60)
    assert urllib.request.urlopen(address).read() == b"shared"

    def status(address: str, headers: dict[str, str] | None = None) -> int:
        try:
            return int(urllib.request.urlopen(urllib.request.Request(address, headers=headers or {})).status)
        except urllib.error.HTTPError as error:
            return error.code

    assert status(address.replace("x%20y", "x")) == 403
    assert status(signed("get_object", "x y", 8 * 86_400)) == 400
    assert status(f"{door.url}/{bucket}/x", {"x-amz-date": "20261127T000000Z"}) == 403, "nobody has signed it"
    assert status(f"{door.url}/{bucket}/x", {"authorization": f"AWS {door.key}:c2ln"}) == 400
    # The page is where it was.
    assert status(f"{door.url}/") == 200
    # The type is signed, too.
    address, headers = signed("put_object", "put", 60, ContentType="text/plain"), {"Content-Type": "text/plain"}
    urllib.request.urlopen(urllib.request.Request(address, b"by put", headers, method="PUT"))
    assert s3.get_object(Bucket=bucket, Key="put")["Body"].read() == b"by put"


def test_other_bytes_than_were_signed_or_summed_are_never_an_object(s3: Any, door: Door, bucket: str) -> None:
    wrong = {"ContentMD5": "1B2M2Y8AsgTpgAmY7PhCfg=="}
    assert refused(lambda: s3.put_object(Bucket=bucket, Key="x", Body=b"other", **wrong)) == "BadDigest"
    wrong = {"ChecksumSHA256": "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="}
    assert refused(lambda: s3.put_object(Bucket=bucket, Key="x", Body=b"other", **wrong)) == "BadDigest"
    assert keys(s3, bucket) == []
    for algorithm in ("CRC32", "SHA1", "SHA256"):
        s3.put_object(Bucket=bucket, Key="x", Body=io.BytesIO(b"x" * 70_000), ChecksumAlgorithm=algorithm)
        got = s3.get_object(Bucket=bucket, Key="x", ChecksumMode="ENABLED")
        assert got["Body"].read() == b"x" * 70_000 and got[f"Checksum{algorithm}"]
    # Names that are no paths are refused, and lead nowhere.
    for key in ("a//b", "../x", "a/../../x", "./x", ".s3-uploads/x"):
        put = partial(s3.put_object, Bucket=bucket, Key=key, Body=b"")
        assert refused(put) == "InvalidArgument", key
    assert refused(lambda: s3.put_bucket_policy(Bucket=bucket, Policy="{}")) == "NotImplemented"


def test_a_bucket_may_be_a_host(door: Door, bucket: str) -> None:
    host = door.url.removeprefix("http://")
    named = door.client(endpoint_url="http://s3.test", config=Config(s3={"addressing_style": "virtual"}))
    # Names are not resolved here: the connection goes to the door, with the host in the header.
    named.meta.events.register("before-send.s3.*", lambda request, **_: forward(request, host))
    named.put_object(Bucket=bucket, Key="k", Body=b"by host")
    assert named.get_object(Bucket=bucket, Key="k")["Body"].read() == b"by host"


def forward(request: Any, host: str) -> None:
    """Sends a signed request to another address than it was signed for, as a name server would."""
    asked = request.url.split("/")[2]
    request.headers["Host"] = asked
    request.url = request.url.replace(asked, host, 1)


def test_the_aws_command_line_works_unpatched(door: Door, bucket: str, tmp_path: Path) -> None:
    aws = tool(door, "aws", "s3")
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "a.txt").write_text("a")
    (tmp_path / "tree" / "sub" / "large").write_bytes(b"l" * 9 * MIB)
    for file in (tmp_path / "tree").rglob("*"):
        # Dates of objects are whole seconds: what is as new as its object would be sent again.
        os.utime(file, (1_700_000_000, 1_700_000_000))
    aws("sync", str(tmp_path / "tree"), f"s3://{bucket}/t")
    assert "sub/" in aws("ls", f"s3://{bucket}/t/") and "a.txt" in aws("ls", f"s3://{bucket}/t/")
    assert aws("sync", str(tmp_path / "tree"), f"s3://{bucket}/t") == "", "again sends nothing"
    aws("cp", "--recursive", f"s3://{bucket}/t", str(tmp_path / "back"))
    assert (tmp_path / "back" / "sub" / "large").read_bytes() == b"l" * 9 * MIB
    aws("mv", f"s3://{bucket}/t/a.txt", f"s3://{bucket}/moved")
    aws("rm", "--recursive", f"s3://{bucket}")
    assert aws("ls", "--recursive", f"s3://{bucket}") == ""
    aws("mb", f"s3://{bucket}-2")
    aws("rb", f"s3://{bucket}-2")


def test_pyarrow_reads_and_writes_tables(door: Door, bucket: str) -> None:
    host = door.url.removeprefix("http://")
    system = arrow_fs.S3FileSystem(
        access_key=door.key, secret_key=door.secret, endpoint_override=host, scheme="http", region="us-east-1"
    )
    system.create_dir(f"{bucket}/d/e")
    with system.open_output_stream(f"{bucket}/d/e/x") as out:
        out.write(b"arrow" * 3 * MIB)
    found = system.get_file_info(arrow_fs.FileSelector(f"{bucket}/d", recursive=True))
    assert {(info.path, info.size) for info in found if info.is_file} == {(f"{bucket}/d/e/x", 15 * MIB)}
    with system.open_input_file(f"{bucket}/d/e/x") as file:
        file.seek(5 * MIB)
        assert file.read(5) == (b"arrow" * 3 * MIB)[5 * MIB : 5 * MIB + 5]
    system.move(f"{bucket}/d/e/x", f"{bucket}/d/y")
    system.delete_dir(f"{bucket}/d")
    assert not system.get_file_info(f"{bucket}/d/y").is_file


def test_rclone_works_unpatched(door: Door, bucket: str, tmp_path: Path) -> None:
    rclone = tool(door, "rclone", "--s3-provider=Other", "--s3-env-auth", f"--s3-endpoint={door.url}", "--config=")
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "sub" / "b").write_bytes(b"b" * 7 * MIB)
    (tmp_path / "tree" / "a").write_text("a")
    rclone("sync", str(tmp_path / "tree"), f":s3:{bucket}/t")
    rclone("check", str(tmp_path / "tree"), f":s3:{bucket}/t")
    (tmp_path / "tree" / "a").unlink()
    rclone("sync", str(tmp_path / "tree"), f":s3:{bucket}/t")
    assert rclone("lsf", "-R", "--files-only", f":s3:{bucket}/t").split() == ["sub/b"]
    rclone("copyto", f":s3:{bucket}/t/sub/b", f":s3:{bucket}/copy")
    assert subprocess.run(["cmp", "-", tmp_path / "tree/sub/b"], input=b"b" * 7 * MIB, check=True).returncode == 0
    rclone("purge", f":s3:{bucket}/t")
    assert rclone("lsf", "-R", f":s3:{bucket}").split() == ["copy"]


def test_s3cmd_works_unpatched(door: Door, bucket: str, tmp_path: Path) -> None:
    host = door.url.removeprefix("http://")
    s3cmd = tool(door, "s3cmd", "--no-ssl", f"--host={host}", f"--host-bucket={host}", "-c", "/dev/null")
    (tmp_path / "x").write_bytes(b"s" * 16 * MIB)
    s3cmd("put", str(tmp_path / "x"), f"s3://{bucket}/x")
    s3cmd("get", f"s3://{bucket}/x", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == b"s" * 16 * MIB
    assert f"s3://{bucket}/x" in s3cmd("ls", f"s3://{bucket}")
    s3cmd("del", f"s3://{bucket}/x")
    assert s3cmd("ls", f"s3://{bucket}") == ""
