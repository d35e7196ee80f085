"""Transactions over several requests: statements whose results a client looks at before it goes on."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from quire.lake import Rows
from quire.lake.handles import state_of
from quire.server import operations, row_formats
from quire.server.calls import Answer, Call
from quire.server.handlers.commits import if_head, noted, token_of, told
from quire.server.handlers.sql import Query
from quire.server.handlers.tables import PAGE, RowsAsked, rows_of
from quire.server.open_transactions import OpenTransaction
from quire.server.uploads import Upload


class NewTransaction(msgspec.Struct, forbid_unknown_fields=True):
    """What a transaction begins with."""

    message: str = ""
    branch: str = "main"
    expect: dict[str, int] = {}
    if_head: str | None = None
    isolation: Literal["snapshot", "serializable"] = "snapshot"
    timeout: float | None = None
    fresh: bool = True
    metadata: dict[str, str] = {}


class Statements(msgspec.Struct, forbid_unknown_fields=True):
    """Statements to run in it. What a statement refuses leaves the transaction as it was before it."""

    operations: list[operations.Operation]


def begin(call: Call) -> Answer:
    """Begin; if the key was committed before, the answer is the first receipt and there is nothing to do."""
    wanted = call.decoded(NewTransaction)
    lake = call.lake(wanted.branch)
    tx = lake.transaction(
        wanted.message,
        author=call.actor.name,
        token=token_of(call),
        expect=wanted.expect,
        if_head=if_head(call, lake, wanted.if_head),
        isolation=wanted.isolation,
        timeout=wanted.timeout,
        fresh=wanted.fresh,
        metadata=noted(wanted.metadata),
    )
    first = tx.repeated()
    if first is not None:
        answer = Answer({"id": None, "base": None, "tables": [], "receipt": first.to_dict()})
        answer.headers["idempotency-replayed"] = "true"
        return answer
    made = call.server.transactions.begin(call.actor.name, call.path["lake"], lake, tx)
    value = {"id": made.id, "base": tx.at.head.commit, "tables": sorted(state_of(tx).names()), "receipt": None}
    return Answer(value, status=201, headers={"location": f"/v1/lakes/{call.path['lake']}/transactions/{made.id}"})


def run(call: Call) -> Answer:
    """Run statements. Those before one that is refused have been run."""
    upload = Upload(call)
    wanted = upload.statements(Statements)
    results: list[Any] = []
    with _used(call) as found:
        try:
            for statement in wanted.operations:
                results.append(operations.run(found.tx, statement, upload.part))
            upload.finish()
        finally:
            _notice(call, found)
    return Answer({"results": results})


def tables(call: Call) -> Answer:
    with _used(call) as found:
        return Answer({"tables": found.tx.tables()})


def table(call: Call) -> Answer:
    """A table as the transaction sees it."""
    with _used(call) as found:
        one = found.tx[call.path["table"]]
        columns = row_formats.columns_of(one.schema)
        value = {"name": one.name, "key": list(one.key), "rows": one.count(), "columns": columns}
        return Answer({**value, "schema": row_formats.schema_text(one.schema)})


def rows(call: Call) -> Answer:
    asked: RowsAsked = call.query
    with _used(call) as found:
        return _given(call, rows_of(found.tx[call.path["table"]], asked, asked.limit), asked.limit)


def sql(call: Call) -> Answer:
    asked = call.decoded(Query)
    with _used(call) as found:
        return _given(call, found.tx.sql(asked.query, asked.params), asked.limit)


def commit(call: Call) -> Answer:
    """Publish. Asked again, the answer is what it was the first time."""
    found = call.server.transactions.commit(call.path["id"], call.actor.name, call.path["lake"])
    assert found.receipt is not None
    return told(call, found.lake, found.receipt)


def discard(call: Call) -> Answer:
    call.server.transactions.discard(call.path["id"], call.actor.name, call.path["lake"])
    return Answer(status=204, body=b"")


def _used(call: Call) -> Any:
    return call.server.transactions.used(call.path["id"], call.actor.name, call.path["lake"])


def _notice(call: Call, found: OpenTransaction) -> None:
    """A statement that stopped half-way has ended the transaction."""
    if found.tx.status != "open":
        call.server.transactions.end(found, None)


def _given(call: Call, found: Rows, limit: int | None) -> Answer:
    """Rows of a transaction, read before the next statement may change them; so there is a bound for their size."""
    kind = row_formats.wanted(call.headers.get("accept", ""))
    if kind == "json":
        most = min(PAGE if limit is None else max(0, limit), call.server.limits.page_rows)
        columns = row_formats.columns_of(found.schema)
        values, more = row_formats.page(found, most)
        return Answer({"commit": "", "columns": columns, "rows": values, "truncated": more})
    return row_formats.whole(found, kind, call.server.limits.body_bytes)
