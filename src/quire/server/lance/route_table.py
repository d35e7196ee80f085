"""The addresses of the Lance namespace: each operation of the specification below each kind of view."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from quire.server.calls import Answer, Call
from quire.server.lance.problems import LANCE
from quire.server.lance.spec_operations import SPEC_OPERATIONS, SpecOperation
from quire.server.routes import Route

LAKE = "/lance/{lake}"
TRANSACTION = f"{LAKE}/txn/{{txn}}"
VIEWS = (LAKE, f"{LAKE}/at/{{commit}}", f"{LAKE}/branch/{{branch}}", TRANSACTION)


def _answer(operation: SpecOperation, call: Call) -> Answer:
    from quire.server.lance.endpoint import answer

    return answer(operation, call)


def _handler(operation: SpecOperation) -> Callable[[Call], Answer]:
    return partial(_answer, operation)


def _routes(view: str) -> list[Route]:
    return [
        Route(
            method, f"{view}/v1/{operation.path}", operation.name, operation.summary, _handler(operation),
            "write" if operation.writes or view == TRANSACTION else "read", face=LANCE,
        )
        for operation in SPEC_OPERATIONS
        for method in operation.methods
    ]  # fmt: skip


def _begin(call: Call) -> Answer:
    from quire.server.lance.transactions import begin

    return begin(call)


BEGIN = Route("POST", f"{LAKE}/txn", "begin_transaction", "Begin a transaction.", _begin, "write", face=LANCE)
LANCE_ROUTES = (BEGIN, *(route for view in VIEWS for route in _routes(view)))
