"""Errors of Quire as errors of the Lance namespace specification, of which clients look at the code alone."""

from __future__ import annotations

import contextvars
import functools
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import lance_namespace as spec
from lance_namespace.errors import LanceNamespaceError

from quire import errors
from quire.lance.identifiers import SEPARATOR

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_ours = threading.local()

CODES: tuple[tuple[type[errors.QuireError], type[LanceNamespaceError]], ...] = (
    (errors.TableNotFound, spec.TableNotFoundError),
    (errors.ColumnNotFound, spec.TableColumnNotFoundError),
    (errors.BranchNotFound, spec.TableBranchNotFoundError),
    (errors.LakeNotFound, spec.NamespaceNotFoundError),
    (errors.TagNotFound, spec.TableTagNotFoundError),
    (errors.CommitNotFound, spec.TableVersionNotFoundError),
    (errors.SnapshotExpired, spec.TableVersionNotFoundError),
    (errors.NotFound, spec.InvalidInputError),
    (errors.TableExists, spec.TableAlreadyExistsError),
    (errors.AlreadyExists, spec.InvalidTableStateError),
    (errors.NameConflict, spec.TableAlreadyExistsError),
    (errors.KeyConflict, spec.InvalidInputError),  # clients of the data plane repeat what answers 409
    (errors.Conflict, spec.ConcurrentModificationError),
    (errors.SchemaMismatch, spec.TableSchemaValidationError),
    (errors.InvalidInput, spec.InvalidInputError),
    (errors.Unsupported, spec.UnsupportedOperationError),
    (errors.Unauthenticated, spec.UnauthenticatedError),
    (errors.Denied, spec.PermissionDeniedError),
    (errors.Throttled, spec.ThrottlingError),
    (errors.ServerUnavailable, spec.ServiceUnavailableError),
    (errors.ReadOnly, spec.PermissionDeniedError),
    (errors.NotOwner, spec.PermissionDeniedError),
    (errors.OutsideLake, spec.PermissionDeniedError),
    (errors.PermissionDenied, spec.PermissionDeniedError),
    (errors.Refused, spec.InvalidTableStateError),
    (errors.CommitUnknown, spec.ServiceUnavailableError),
    (errors.StorageError, spec.ServiceUnavailableError),
)
"""The first that fits."""


def translated(error: errors.QuireError, table: Sequence[str] | None = None) -> LanceNamespaceError:
    """The error that a client understands.

    Of a conflict about one table the message is JSON with the table, the version that was expected and the actual one.
    """
    kind = next((theirs for ours, theirs in CODES if isinstance(error, ours)), spec.InternalError)
    fields = error.fields
    text = str(error)
    if table is None and isinstance(fields.get("table"), str):  # of a batch
        table = fields["table"].split(SEPARATOR)
    if kind is spec.ConcurrentModificationError and table is not None and "expected" in fields:
        told = {"table": list(table), "expected": fields["expected"], "actual": fields["actual"], "message": text}
        text = json.dumps(told)
    made = kind(text)
    made.fields = dict(fields)  # type: ignore[attr-defined]
    return made


def apart(call: Callable[[], T]) -> T:
    """Run a call on a thread of its own.

    Lance asks a namespace from threads of its runtime, where nobody may call Lance again.
    """
    if getattr(_ours, "thread", False):
        return call()
    found: Future[T] = Future()

    def run() -> None:
        _ours.thread = True
        try:
            found.set_result(call())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=contextvars.copy_context().run, args=(run,), name="quire-namespace", daemon=True).start()
    return found.result()


def answering(operation: F) -> F:
    """An operation whose failures are those of the specification."""

    model = getattr(spec, operation.__annotations__["request"].rpartition(".")[2])

    @functools.wraps(operation)
    def answer(self: Any, request: Any, *more: Any) -> Any:
        if not isinstance(request, model):  # Lance itself asks with what it has at hand
            request = model.model_validate(request.model_dump() if hasattr(request, "model_dump") else request)
        try:
            return apart(functools.partial(operation, self, request, *more))
        except errors.QuireError as error:
            raise translated(error, getattr(request, "id", None)) from error

    return answer  # type: ignore[return-value]


def unsupported(what: str, instead: str) -> LanceNamespaceError:
    """The refusal of something that a lake does not do."""
    return spec.UnsupportedOperationError(f"A lake does not support {what}. {instead}")
