"""Sessions of a store, asked of a real token service, by clients that it holds to their rights."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from quire.errors import (
    InvalidInput,
    PermissionDenied,
    QuireError,
    ServerUnavailable,
    StorageError,
    TooLarge,
    Unsupported,
)
from quire.store import Store
from quire.store.aws_signature import Keys, signed
from quire.store.vended_credentials import Sessions, policy
from quire.testing.s3 import MinistackWithRights

ALL = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]})


@pytest.fixture(scope="module")
def rights() -> Iterator[MinistackWithRights]:
    with MinistackWithRights() as server:
        yield server


@pytest.fixture(scope="module")
def role(rights: MinistackWithRights) -> str:
    return rights.make_role("readers", ALL)


def put(server: MinistackWithRights, *keys: str) -> Store:
    store = Store.open(server.uri("lake"), server.options)
    for key in keys:
        store.put(key, key.encode())
    return store


def denied(call: object, *args: object) -> None:
    with pytest.raises(PermissionDenied):
        call(*args)  # type: ignore[operator]


def test_a_session_reads_its_folders_and_nothing_else(rights: MinistackWithRights, role: str) -> None:
    own = put(rights, "tables/a/data/1", "tables/ab/data/1", "tables/b/data/1", "_quire/log/1")
    sessions = Sessions(rights.uri("lake"), rights.options, role, seconds=900)
    found = sessions.open("ada", [rights.uri("lake/tables/a")])
    assert timedelta(minutes=14) < found.expires - datetime.now(UTC) <= timedelta(minutes=15, seconds=5)
    assert "SECRET" not in repr(found).upper()
    assert found.options["aws_secret_access_key"] not in repr(found)

    theirs = Store.open(rights.uri("lake"), found.options | {"allow_http": "true"})
    assert theirs.get("tables/a/data/1") == b"tables/a/data/1"
    assert [entry.key for entry in theirs.list("tables/a")] == ["tables/a/data/1"]
    for other in ("tables/ab/data/1", "tables/b/data/1", "_quire/log/1"):
        denied(theirs.get, other)
    with pytest.raises(StorageError, match="403"):
        list(theirs.list("tables/b"))
    denied(theirs.put, "tables/a/data/2", b"mine")
    denied(theirs.delete, "tables/a/data/1")
    assert own.get("tables/a/data/1") == b"tables/a/data/1"
    with pytest.raises(QuireError):  # a session gives no sessions
        Sessions(rights.uri("lake"), found.options, role).open("ada", [rights.uri("lake/tables/b")])


def test_a_session_that_stages_puts_what_nobody_sees_yet_and_destroys_nothing(
    rights: MinistackWithRights, role: str
) -> None:
    own = put(rights, "tables/a/data/1", "tables/a/_versions/1.manifest", "tables/b/data/1")
    sessions = Sessions(rights.uri("lake"), rights.options, role)
    found = sessions.open("ada", [rights.uri("lake/tables/a")], "stage")
    theirs = Store.open(rights.uri("lake"), found.options)
    for key in ("data/2.lance", "_transactions/1-a.txn", "_deletions/1.arrow", "_versions/2.manifest-0a"):
        theirs.put(f"tables/a/{key}", b"new")
    denied(theirs.put, "tables/a/_versions/1.manifest", b"other")
    denied(theirs.put, "tables/b/data/2", b"new")
    denied(theirs.delete, "tables/a/data/1")
    assert own.get("tables/a/_versions/1.manifest") == b"tables/a/_versions/1.manifest"


def test_a_session_is_given_again_while_most_of_it_is_left(rights: MinistackWithRights, role: str) -> None:
    sessions = Sessions(rights.uri("lake"), rights.options, role)
    folders = [rights.uri("lake/tables/a")]
    first = sessions.open("ada", folders)
    assert sessions.open("ada", folders) is first
    others = [sessions.open("bo", folders), sessions.open("ada", folders, "stage"), sessions.open("ada", folders * 2)]
    keys = [found.options["aws_access_key_id"] for found in (first, *others)]
    assert len(set(keys)) == 4


def test_what_the_role_may_not_do_no_session_may(rights: MinistackWithRights) -> None:
    put(rights, "tables/a/data/1")
    elsewhere = ALL.replace('"*"', '"arn:aws:s3:::lake/other/*"')
    role = rights.make_role("elsewhere", elsewhere)
    found = Sessions(rights.uri("lake"), rights.options, role).open("ada", [rights.uri("lake/tables/a")])
    denied(Store.open(rights.uri("lake"), found.options).get, "tables/a/data/1")


def test_a_service_that_refuses_is_told_without_secrets(rights: MinistackWithRights) -> None:
    role = "arn:aws:iam::000000000000:role/nobody"
    with pytest.raises(ServerUnavailable, match="it answered AccessDenied") as caught:
        Sessions(rights.uri("lake"), rights.options, role).open("ada", [rights.uri("lake/tables/a")])
    assert rights.options["aws_secret_access_key"] not in str(caught.value.to_dict())
    nobody = "http://127.0.0.1:1"
    with pytest.raises(ServerUnavailable, match="it cannot be reached"):
        Sessions("s3://b/l", rights.options, role, endpoint=nobody).open("ada", ["s3://b/l/t"])


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (200, b"", "no credentials"),
        (200, b"<a><AccessKeyId>x</AccessKeyId></a>", "no credentials"),
        (200, b'<!DOCTYPE a [<!ENTITY b "c">]><a><AccessKeyId>&b;</AccessKeyId></a>', "no credentials"),
        (
            200,
            b"<a><AccessKeyId>x</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>t</SessionToken>"
            b"<Expiration>soon</Expiration></a>",
            "names no time",
        ),
        (403, b"<a><Code>the secret!</Code></a>", "it answered 403"),
        (302, b"", "it answered 302"),
    ],
)
def test_answers_that_are_none(status: int, body: bytes, why: str) -> None:
    class Answers(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(status)
            self.send_header("location", "http://127.0.0.1:1/")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        options = {"aws_access_key_id": "key", "aws_secret_access_key": "hidden"}
        sessions = Sessions("s3://b/l", options, "role", endpoint=f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(ServerUnavailable, match=why) as caught:
            sessions.open("ada", ["s3://b/l/tables/a"])
    assert "secret" not in str(caught.value)


def test_the_rights_name_folders_literally_and_fit_into_a_session() -> None:
    said = json.loads(policy(["s3://b/odd*name/t", "s3://c/${x}"], "stage", "aws-cn"))
    assert said["Statement"][0]["Resource"] == ["arn:aws-cn:s3:::b/odd${*}name/t/*", "arn:aws-cn:s3:::c/${$}{x}/*"]
    assert [one["Resource"] for one in said["Statement"][1:3]] == ["arn:aws-cn:s3:::b", "arn:aws-cn:s3:::c"]
    assert "s3:DeleteObject" not in str(said)
    with pytest.raises(TooLarge):
        policy([f"s3://bucket/lake/tables/{n:032x}" for n in range(30)], "read")


def test_what_can_give_no_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Unsupported):
        Sessions("/tmp/lake", {}, "role")
    with pytest.raises(Unsupported, match="keys of its own"):
        Sessions("s3://b/l", {}, "role").open("ada", ["s3://b/l/t"])
    with pytest.raises(Unsupported):
        policy(["gs://b/l/t"], "read")
    with pytest.raises(InvalidInput):
        Sessions("s3://b/l", {}, "role", seconds=60)


def test_a_signature_is_that_of_another_signer() -> None:
    url, body = "https://sts.eu-central-1.amazonaws.com", b"Action=AssumeRole&Policy=%7B%7D"
    ours = signed(Keys("AKID", "secret", "token"), url, body, service="sts", region="eu-central-1")
    request = AWSRequest("POST", f"{url}/", {"content-type": ours["content-type"]}, body)
    request.context["timestamp"] = ours["x-amz-date"]
    signer = SigV4Auth(Credentials("AKID", "secret", "token"), "sts", "eu-central-1")
    request.headers["X-Amz-Date"] = ours["x-amz-date"]
    request.headers["X-Amz-Security-Token"] = "token"
    canonical = signer.canonical_request(request)
    expected = signer.signature(signer.string_to_sign(request, canonical), request)
    assert ours["authorization"].endswith(f"Signature={expected}")
