"""One operation of the specification, asked for over HTTP: the same code as `quire.lance.Namespace` in Python."""

from __future__ import annotations

import json
from typing import Any

from lance_namespace.errors import LanceNamespaceError

from quire.errors import QuireError
from quire.lance.answers import translated
from quire.lance.rows import RowOperations, batches_of
from quire.server.calls import Answer, Call
from quire.server.lance import transactions
from quire.server.lance.arrow_body import ARROW_FILE, file_of, rows_of
from quire.server.lance.problems import told
from quire.server.lance.requests import request_of
from quire.server.lance.spec_operations import SpecOperation
from quire.server.lance.views import viewed

OF_TRANSACTIONS = {"describe_transaction": transactions.describe, "alter_transaction": transactions.change}
REMOTE = "x-lancedb-database"
"""A header of LanceDB's remote client, which asks for less than it needs."""


def answer(operation: SpecOperation, call: Call) -> Answer:
    """Run an operation on what the address names; its errors are those of the specification."""
    remote = REMOTE in call.headers
    try:
        body = b"" if operation.takes == "rows" else call.body.whole()
        request = request_of(operation, call.path, call.query, body, call.actor, detailed=remote)
        ends = OF_TRANSACTIONS.get(operation.name)
        if ends is not None and (told_of := ends(call, request)) is not None:
            return _given(operation, told_of, remote)
        with viewed(call) as namespace:
            if operation.name == "query_table":
                return _rows(namespace, request)
            data = (rows_of(call.body),) if operation.takes == "rows" else ()
            found = getattr(namespace, operation.name)(request, *data)
        return _given(operation, found, remote)
    except LanceNamespaceError as error:
        raise _told(call, error) from error


def _told(call: Call, error: LanceNamespaceError) -> Exception:
    text = str(error)
    for here, instead in call.server.lakes.addresses().items():
        text = text.replace(here, instead)
    cause = error.__cause__
    kind = cause.kind if isinstance(cause, QuireError) else type(error).__name__
    return told(int(error.code), text, "", call.id, kind=kind)


def _rows(namespace: RowOperations, request: Any) -> Answer:
    try:
        found = namespace.found_rows(request)
    except QuireError as error:
        raise translated(error, request.id) from error
    return Answer(stream=file_of(found.schema, batches_of(found)), media_type=ARROW_FILE)


def _given(operation: SpecOperation, found: Any, remote: bool) -> Answer:
    if operation.gives == "count":
        return Answer(body=str(found.count).encode())
    if operation.gives == "text":
        return Answer(body=json.dumps(found).encode())
    said = found.to_dict() if found is not None else {}
    if operation.gives == "tags" and remote:
        said = said["tags"]
    return Answer(body=json.dumps(said, default=str).encode())
