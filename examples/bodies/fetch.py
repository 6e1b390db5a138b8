#!/usr/bin/env python3
"""Gives a consumer the whole message, also where the relay has put the body into a store.

    from fetch import body_of
    content_type, body = body_of(message_body, store="s3://shop-bodies/orders/")

s3: needs boto3, which takes keys, region and endpoint from its usual places
(AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT_URL).  As a program it reads lines of JSON as
`wherry relay … stdout:` writes them, and writes the bodies:

    wherry relay sqlite:shop.db stdout: --set relay.body_store=file:/var/lib/wherry/bodies \\
      --set relay.body_store_above=64KB | fetch.py file:///var/lib/wherry/bodies/
"""
import hashlib
import json
import sys
import urllib.parse


def read(url):
    """The bytes of an object."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "file":
        with open(parts.path, "rb") as file:
            return file.read()
    import boto3
    answer = boto3.client("s3").get_object(Bucket=parts.netloc, Key=parts.path.lstrip("/"))
    return answer["Body"].read()


def body_of(body, store):
    """The content type and body of a message; the type is None if the message has its body.

    `store` is the beginning of the URLs that may be read.  Without this check, a producer
    could make the consumer read any file or bucket.
    """
    if len(body) > 4096 or not body.startswith(b'{"wherry_body":'):
        return None, body
    pointer = json.loads(body)["wherry_body"]
    name = pointer["url"].removeprefix(store)
    if not store.endswith("/") or name == pointer["url"] or "/" in name:
        raise ValueError("the message points outside of " + store)
    stored = read(pointer["url"])
    if len(stored) != pointer["length"] or hashlib.sha256(stored).hexdigest() != pointer["sha256"]:
        raise ValueError(pointer["url"] + " is not the body that was sent")
    return pointer["content_type"], stored


if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        content_type, content = body_of(json.dumps(message["body"], separators=(",", ":")).encode(),
                                        sys.argv[1])
        print(message["message_id"], content_type or "-", len(content))
