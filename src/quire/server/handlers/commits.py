"""Writing in one request: statements on any number of tables that become one commit, once, whatever is sent again."""

from __future__ import annotations

import hashlib
import re
import uuid
from typing import Any, Literal

import msgspec

from quire.errors import InvalidInput, InvalidToken
from quire.lake import Lake, Receipt
from quire.lake.commit.tokens import Token, from_text
from quire.lake.handles import log_of
from quire.server import operations
from quire.server.calls import Answer, Call, etag
from quire.server.problems import HttpRefusal
from quire.server.uploads import Upload

MARK = "http."
"""What the server notes with a commit begins so; clients cannot write it."""
BODY = "http.body"


class NewCommit(msgspec.Struct, forbid_unknown_fields=True):
    """One transaction. `expect` and `if_head` are the client's own compare-and-swap."""

    operations: list[operations.Operation]
    message: str = ""
    branch: str = "main"
    expect: dict[str, int] = {}
    if_head: str | None = None
    isolation: Literal["snapshot", "serializable"] = "snapshot"
    timeout: float | None = None
    metadata: dict[str, str] = {}


class Restoring(msgspec.Struct, forbid_unknown_fields=True):
    """Bring tables back to what they were at a commit, a tag or a time."""

    at: str
    branch: str = "main"
    tables: list[str] | None = None
    message: str | None = None
    metadata: dict[str, str] = {}


class FastForwarding(msgspec.Struct, forbid_unknown_fields=True):
    """Bring a branch to the head of another that has everything it has."""

    source: str
    message: str | None = None
    metadata: dict[str, str] = {}


def commit(call: Call) -> Answer:
    """Run the statements and commit. The same key again gives the first receipt, and another body is refused."""
    upload = Upload(call)
    wanted = upload.statements(NewCommit)
    lake = call.lake(wanted.branch)
    tx = lake.transaction(
        wanted.message,
        author=call.actor.name,
        token=token_of(call),
        expect=wanted.expect,
        if_head=if_head(call, lake, wanted.if_head),
        isolation=wanted.isolation,
        timeout=wanted.timeout,
        metadata=noted(wanted.metadata),
    )
    results: list[Any] = []
    if tx.repeated() is None:
        with tx:
            for statement in wanted.operations:
                results.append(operations.run(tx, statement, upload.part))
            upload.finish()
            tx.metadata[BODY] = upload.digest
    first = tx.repeated()
    if first is not None:
        upload.drain()
        return _again(call, lake, first, upload.digest)
    return told(call, lake, tx.receipt, results)


def restore(call: Call) -> Answer:
    from quire.lake.handles import point_or_time

    wanted = call.decoded(Restoring)
    lake = call.lake(wanted.branch)
    at = point_or_time(lake, wanted.at)
    done = lake.restore(at, tables=wanted.tables, message=wanted.message, metadata=noted(wanted.metadata))
    return told(call, lake, done)


def fast_forward(call: Call) -> Answer:
    wanted = call.decoded(FastForwarding)
    lake = call.lake(call.path["branch"])
    done = lake.fast_forward(wanted.source, wanted.message, metadata=noted(wanted.metadata))
    return told(call, lake, done)


# -- what a request says of its transaction ------------------------------------------------------------------------


def token_of(call: Call) -> Token | None:
    """The token that `Idempotency-Key` stands for: a UUID of version 7, or a token of the library's own."""
    given = call.headers.get("idempotency-key", "").strip().strip('"')
    if not given:
        return None
    if re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", given):
        key = uuid.UUID(given)
        if key.version != 7:
            raise InvalidToken(
                f"Idempotency-Key is a UUID of version {key.version}, which does not say when it was made.",
                next="Use a UUID of version 7, or a token of quire.token().",
                field="idempotency-key",
            )
        return f"qt-{key.hex[:12]}-{hashlib.sha256(key.bytes).hexdigest()[:16]}"
    return from_text(given)


def first_of(lake: Lake, token: Token | None) -> Receipt | None:
    """The receipt of the commit that used a token before, for verbs that do not tell it themselves."""
    if token is None:
        return None
    tx = lake.transaction(token=token, fresh=True)
    try:
        return tx.repeated()
    finally:
        tx.discard()


def if_head(call: Call, lake: Lake, given: str | None) -> str | None:
    """The commit that must be the head: from the body, or from `If-Match`, which must be of this branch."""
    match = call.headers.get("if-match", "").strip()
    if not match or match == "*":
        return given
    found = re.fullmatch(r'"([^":]+):([0-9.]+)"', match)
    if found is None or given is not None:
        raise InvalidInput("If-Match is not one ETag of this server.", next="Pass an ETag as it was given, or if_head.")
    if found[1] != log_of(lake):
        raise InvalidInput("If-Match is of another branch.", next="Read this branch, and pass its ETag.")
    return found[2]


def noted(given: dict[str, str]) -> dict[str, str]:
    """What the client says of a commit; who asked, by which request, is kept with it in any case."""
    for name in given:
        if name.startswith(MARK):
            raise InvalidInput(f"Metadata {name!r} is written by the server alone.", next="Choose another name.")
    return given


def _again(call: Call, lake: Lake, first: Receipt, digest: str) -> Answer:
    """The receipt of the first time, if the request is what it was then."""
    check_same(lake, first, digest)
    answer = told(call, lake, first)
    answer.headers["idempotency-replayed"] = "true"
    return answer


def check_same(lake: Lake, first: Receipt, digest: str) -> None:
    """Refuse a key that was used before for another body."""
    if first.commit is None:
        return
    body = lake.show(first.commit).metadata.get(BODY)
    if body is not None and body != digest:
        error = InvalidToken(
            f"The key was used before, for another body: commit {first.commit}.",
            next="Use a new key for a new request.",
            commit=first.commit,
        )
        raise HttpRefusal(422, error)


def told(call: Call, lake: Lake, done: Receipt, results: list[Any] | None = None) -> Answer:
    """A receipt as an answer."""
    value = done.to_dict()
    if results is not None:
        value["results"] = results
    answer = Answer(value, cost=done.cost)
    if done.commit is not None:
        answer.headers["etag"] = etag(lake, done.commit)
        answer.headers["quire-commit"] = done.commit
        answer.headers["location"] = f"/v1/lakes/{call.path['lake']}/commits/{done.commit}"
    return answer
