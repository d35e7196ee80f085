"""Short sessions of an S3 store that reach some folders and nothing else, for clients that move files themselves.

    sessions = Sessions("s3://bucket/lake", options, role="arn:aws:iam::123456789012:role/readers")
    found = sessions.open("ada", ["s3://bucket/lake/tables/0a1b"])
    found.options                      # storage options for Lance, obstore or DuckDB, until `found.expires`

The store's token service is asked to assume a role with a policy of its own (AssumeRole), so a session can do what both
allow: the role bounds what may ever be given away, and the policy names the folders. AWS has it, and MinIO and Ceph.
"""

from __future__ import annotations

import json
import os
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from quire.errors import InvalidInput, ServerUnavailable, TooLarge, Unsupported
from quire.store import clock
from quire.store.address import parse
from quire.store.aws_signature import Keys, signed

Access = Literal["read", "stage"]
"""`stage` also puts files that nobody sees before they are published; it deletes nothing and moves no version."""

STAGED = ("data/*", "_transactions/*", "_indices/*", "_deletions/*", "_versions/*.manifest-*", "_batches/*")
"""Below a table, what clients of Lance write before the server publishes it."""
LONGEST_POLICY = 2048
"""Characters of a session's policy, on AWS."""
SHORTEST, LONGEST = 900, 43_200
SECONDS = 10.0
KEPT = 1_000
_KEYS = {
    "access": ("aws_access_key_id", "access_key_id"),
    "secret": ("aws_secret_access_key", "secret_access_key"),
    "token": ("aws_session_token", "session_token", "aws_token", "token"),
}
_REGION = ("aws_region", "region", "aws_default_region", "default_region")
_ENDPOINT = ("aws_endpoint", "endpoint", "aws_endpoint_url", "endpoint_url")
_ADDRESSING = ("allow_http", "aws_allow_http", "aws_virtual_hosted_style_request", "virtual_hosted_style_request")


@dataclass(frozen=True)
class Session:
    """Credentials of one session, as storage options."""

    options: Mapping[str, str]
    expires: datetime

    def __repr__(self) -> str:
        return f"Session(expires={self.expires.isoformat()})"


class Sessions:
    """What gives sessions of one store. Safe to share between threads; it asks nobody until it is used."""

    def __init__(
        self,
        uri: str,
        options: Mapping[str, str],
        role: str,
        *,
        endpoint: str | None = None,
        seconds: int = 3600,
        external_id: str | None = None,
    ) -> None:
        """`endpoint` is the token service: that of the store, or of AWS, when it is not given."""
        if parse(uri).scheme != "s3":
            raise Unsupported(
                "Only lakes in S3 can give sessions of their store.",
                next="Leave out the sessions of this lake.",
                uri=uri,
            )
        if not SHORTEST <= seconds <= LONGEST:
            raise InvalidInput(f"A session lasts {SHORTEST} to {LONGEST} seconds, not {seconds}.", next="Correct it.")
        self._role, self._seconds, self._external_id = role, seconds, external_id
        self._options = {name.lower(): value for name, value in options.items()}
        region = self._setting(_REGION) or "us-east-1"
        self._region, self._endpoint = region, endpoint or self._setting(_ENDPOINT) or _service(region)
        self._partition = role.split(":")[1] if role.startswith("arn:") else "aws"
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], Session] = OrderedDict()

    def open(self, name: str, folders: Sequence[str], access: Access = "read") -> Session:
        """A session that reaches these folders, by their addresses, for at least half of the time of a new one.

        `name` stands in the logs of the store. The same session is given again while enough of it is left.
        """
        session_name = re.sub(r"[^A-Za-z0-9_=,.@-]", "-", name)[:64].ljust(2, "-")
        key = (session_name, tuple(folders), access)
        with self._lock:
            found = self._kept.get(key)
        if found is not None and (found.expires - clock.now()).total_seconds() > self._seconds / 2:
            return found
        found = self._asked(session_name, policy(folders, access, self._partition))
        with self._lock:
            self._kept[key] = found
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found

    def _asked(self, name: str, rights: str) -> Session:
        asked = {
            "Action": "AssumeRole",
            "Version": "2011-06-15",
            "RoleArn": self._role,
            "RoleSessionName": name,
            "DurationSeconds": str(self._seconds),
            "Policy": rights,
        }
        if self._external_id is not None:
            asked["ExternalId"] = self._external_id
        body = urllib.parse.urlencode(asked).encode()
        headers = signed(self._keys(), self._endpoint, body, service="sts", region=self._region)
        request = urllib.request.Request(self._endpoint, body, headers, method="POST")
        try:
            with urllib.request.build_opener(_Here).open(request, timeout=SECONDS) as answer:
                said = answer.read(1 << 20)
        except urllib.error.HTTPError as error:
            with error:
                raise _refused(error.code, error.read(1 << 20)) from None
        except OSError as error:
            raise _failed(f"it cannot be reached ({type(error).__name__})") from None
        return self._session(said)

    def _session(self, said: bytes) -> Session:
        found = {name: _text(said, name) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")}
        if not all(found.values()):
            raise _failed("its answer holds no credentials")
        try:
            expires = datetime.fromisoformat(found["Expiration"])
        except ValueError:
            raise _failed("its answer names no time") from None
        options = {
            "aws_access_key_id": found["AccessKeyId"],
            "aws_secret_access_key": found["SecretAccessKey"],
            "aws_session_token": found["SessionToken"],
            "aws_region": self._region,
        }
        store = self._setting(_ENDPOINT)
        if store:
            options["aws_endpoint"] = store
        options |= {name: self._options[name] for name in _ADDRESSING if name in self._options}
        return Session(options, expires if expires.tzinfo is not None else expires.replace(tzinfo=UTC))

    def _keys(self) -> Keys:
        """What the server itself reaches the store with, as it is now."""
        access, secret = self._setting(_KEYS["access"]), self._setting(_KEYS["secret"])
        if not access or not secret:
            raise Unsupported(
                "The server has no keys of its own to ask for sessions with.",
                next="Whoever runs it should set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or storage options.",
            )
        return Keys(access, secret, self._setting(_KEYS["token"]))

    def _setting(self, names: Sequence[str]) -> str | None:
        given = (self._options.get(name) for name in names)
        inherited = (os.environ.get(name.upper()) for name in names if name.startswith("aws_"))
        return next((value for value in (*given, *inherited) if value), None)


class _Here(urllib.request.HTTPRedirectHandler):
    """A signed request goes nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


def policy(folders: Sequence[str], access: Access, partition: str = "aws") -> str:
    """The rights of a session on folders of one or more buckets, as IAM has them."""
    objects, lists, puts = [], [], []
    for folder in folders:
        address = parse(folder)
        if address.scheme != "s3":
            raise Unsupported("This table does not lie in S3.", next="Read it through the server.")
        bucket, path = f"arn:{partition}:s3:::{address.container}", _literal(address.path)
        objects.append(f"{bucket}/{path}/*")
        lists.append((bucket, f"{path}/*"))
        puts += [f"{bucket}/{path}/{name}" for name in STAGED]
    statements: list[dict[str, Any]] = [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": objects}]
    for bucket in sorted({bucket for bucket, _ in lists}):
        below = {"StringLike": {"s3:prefix": [path for where, path in lists if where == bucket]}}
        statements.append({"Effect": "Allow", "Action": "s3:ListBucket", "Resource": bucket, "Condition": below})
    if access == "stage":
        writes = ["s3:PutObject", "s3:AbortMultipartUpload"]
        statements.append({"Effect": "Allow", "Action": writes, "Resource": puts})
    text = json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))
    if len(text) > LONGEST_POLICY:
        raise TooLarge(
            f"The rights on {len(folders)} folders do not fit into one session.", next="Ask for fewer tables at once."
        )
    return text


def _literal(path: str) -> str:
    """A path in which IAM takes every sign for itself."""
    return re.sub(r"[*?$]", lambda sign: "${" + sign[0] + "}", path)


def _service(region: str) -> str:
    return f"https://sts.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"


def _text(said: bytes, name: str) -> str:
    """The text of the one element of a name, whatever its namespace."""
    if b"<!" in said:  # no answer of a token service declares anything
        return ""
    try:
        found = [one.text for one in ElementTree.fromstring(said).iter() if one.tag.rpartition("}")[2] == name]
    except ElementTree.ParseError:
        return ""
    return (found[0] or "").strip() if len(found) == 1 else ""


def _refused(status: int, said: bytes) -> ServerUnavailable:
    code = _text(said, "Code")
    return _failed(f"it answered {code if code.isalnum() else status}")


def _failed(why: str) -> ServerUnavailable:
    """The error for a client: nothing of what was sent or answered but a code."""
    return ServerUnavailable(
        f"The token service of the store gave no session: {why}.",
        next="Whoever runs the server should check the role of its sessions and what the role trusts.",
    )
