"""Transactions by address: `POST /lance/{lake}/txn` begins one, and all clients that are given its address write to it.

They are the server's open transactions, so `…/v1/lakes/{lake}/transactions/{id}` is the same one.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import lance_namespace as spec

from quire.errors import QuireError, TransactionClosed
from quire.lance.answers import translated
from quire.lance.transactions import alter, described
from quire.server.auth.actors import Actor
from quire.server.calls import Answer, Call
from quire.server.handlers import transactions
from quire.server.lance.views import WAIT, transaction_view
from quire.server.open_transactions import OpenTransaction


def begin(call: Call) -> Answer:
    """Begin a transaction. The body is that of the server's own address: message, branch, timeout."""
    answer = transactions.begin(call)
    id = answer.value["id"]
    address = f"/lance/{call.path['lake']}/txn/{id}" if id is not None else None
    body = json.dumps({**answer.value, "address": address}, default=str).encode()
    headers = {**answer.headers, **({"location": address} if address is not None else {})}
    return Answer(status=answer.status, headers=headers, body=body)


def describe(call: Call, request: Any) -> Any:
    """How a transaction stands: one that is open here or has ended, or a commit of the lake."""
    found = _found(call, request)
    if found is None:
        return None
    view = found.views.get("lance")
    return described(found.tx, view.written() if view is not None else set())  # type: ignore[attr-defined]


def change(call: Call, request: Any) -> Any:
    """Set what it says, commit it, or cancel it."""
    found = _found(call, request)
    if found is None:
        return None
    registry, actor, lake = call.server.transactions, call.actor, call.path["lake"]
    view = transaction_view(call.server, found) if registry.is_open(found) else None
    try:
        return alter(
            found.tx,
            request,
            partial(registry.commit, found.id, actor.name, lake, wait=WAIT),
            partial(registry.discard, found.id, actor.name, lake, wait=WAIT),
            view,
        )
    except QuireError as error:
        table = error.fields.get("table")
        raise translated(error, table.split(".") if isinstance(table, str) else None) from error


def _found(call: Call, request: Any) -> OpenTransaction | None:
    """The open or ended transaction that a request names; None where it may name a commit."""
    named = call.path.get("txn") or "".join((request.id or [""])[-1:])
    if named.replace(".", "").isdigit() and "txn" not in call.path:
        return None
    actor: Actor = call.actor
    try:
        return call.server.transactions.find(named, actor.name, call.path["lake"])
    except TransactionClosed as error:
        raise spec.TransactionNotFoundError(error.message) from error
