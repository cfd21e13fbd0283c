"""Makes a bucket that everyone may read and write: `minio_bucket.py HOST:PORT BUCKET`. Requests then need no signature."""

import json
import sys

from minio import Minio


def main(address: str, bucket: str) -> None:
    """Make it."""
    client = Minio(address, access_key="minioadmin", secret_key="minioadmin", secure=False)
    client.make_bucket(bucket)
    anyone = {"Effect": "Allow", "Principal": {"AWS": ["*"]}, "Resource": [f"arn:aws:s3:::{bucket}/*"]}
    allowed = {**anyone, "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]}
    client.set_bucket_policy(bucket, json.dumps({"Version": "2012-10-17", "Statement": [allowed]}))


main(*sys.argv[1:])
