"""Every error Quire raises, in one tree, grouped by what the handler does about it.

    QuireError
    ├── InvalidInput            fix the call
    │   ├── InvalidUri              a lake address that cannot be understood
    │   ├── InvalidName             a table, branch, tag or column name that is not allowed
    │   ├── InvalidExpression       a filter, an expression or SQL that does not parse or bind
    │   ├── InvalidToken            an idempotency token that is malformed or too old
    │   ├── SchemaMismatch          data whose columns or types do not fit the table
    │   ├── DuplicateKeys           one batch holds the same key twice, or a null key
    │   ├── InvalidSchema           a graph schema that cannot be understood or contradicts itself
    │   ├── InvalidQuery            a graph query that does not parse, does not fit the schema, or lacks a parameter
    │   └── IntegrityError          rows that break a rule of the graph: each with its type, id, property and rule
    ├── NotFound                look at the name
    │   ├── LakeNotFound  TableNotFound  ColumnNotFound
    │   └── BranchNotFound  TagNotFound  CommitNotFound
    ├── AlreadyExists           choose another name, or use what is there
    │   └── LakeExists  TableExists  BranchExists  TagExists
    ├── Conflict                somebody else committed first; `retryable` says whether to run again
    │   ├── KeyConflict             the same key was inserted by both
    │   ├── NameConflict            both created or renamed to the same table name
    │   ├── ExpectationFailed       `expect=`, `if_head=` or a checked read no longer holds
    │   ├── NotFastForward          the branches have diverged
    │   └── Revoked                 a cleanup came between: what the transaction had staged may be gone
    ├── Refused                 the request is understood and will not be done here
    │   ├── ReadOnly  ForkedProcess  TransactionClosed  ValidatorMissing  Unsupported
    │   ├── SchemaRefused           a change of the graph's schema that rows or other rules stand against
    │   ├── BranchClosed            the branch was deleted; its log accepts no more commits
    │   ├── Fenced                  another writer has claimed the branch
    │   ├── ForeignWriter           a plain Lance client wrote behind Quire's back
    │   └── DeadlineExceeded        time ran out before publish: nothing was committed
    ├── CommitUnknown           the store did not say whether the commit landed; settle it, do not repeat it
    ├── SnapshotExpired         cleanup has removed what this snapshot pinned
    ├── StorageError            the object store failed
    │   └── PermissionDenied  UnsafeStore
    ├── EmbedderError           what makes vectors of texts failed, or answered with something else
    └── FormatError             what is stored cannot be read
        └── CorruptRecord  NewerFormat

Each class has a stable `kind`, structured `fields`, and a message that says what happened, where, and what to do next.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar


class QuireError(Exception):
    """Base of every error. `kind` is stable and safe to branch on; the text is not."""

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    retryable: bool = False

    def __init__(self, message: str, *, next: str | None = None, retryable: bool | None = None, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.next = next
        self.fields = fields
        if retryable is not None:
            self.retryable = retryable

    def __str__(self) -> str:
        return f"{self.message} {self.next}" if self.next else self.message

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["fields"][name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.next, self.retryable, self.fields))

    def to_dict(self) -> dict[str, Any]:
        """The error as the command line's `--json` and a server print it."""
        return {
            "kind": self.kind,
            "message": self.message,
            "next": self.next,
            "retryable": self.retryable,
            **{name: _plain(value) for name, value in self.fields.items()},
        }

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(str(v))}</td></tr>" for k, v in self.fields.items())
        advice = f"<p>{escape(self.next)}</p>" if self.next else ""
        return f"<div><b>{escape(self.kind)}</b>: {escape(self.message)}{advice}<table>{rows}</table></div>"


def _plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(v) for v in value]
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _rebuild(
    cls: type[QuireError], message: str, next: str | None, retryable: bool, fields: dict[str, Any]
) -> QuireError:
    return cls(message, next=next, retryable=retryable, **fields)


class InvalidInput(QuireError):
    kind = "invalid-input"
    exit_code = 2


class InvalidUri(InvalidInput):
    kind = "invalid-uri"


class InvalidName(InvalidInput):
    kind = "invalid-name"


class InvalidExpression(InvalidInput):
    kind = "invalid-expression"


class InvalidToken(InvalidInput):
    kind = "invalid-token"


class SchemaMismatch(InvalidInput):
    kind = "schema-mismatch"


class DuplicateKeys(InvalidInput):
    kind = "duplicate-keys"


class InvalidSchema(InvalidInput):
    kind = "invalid-schema"


class InvalidQuery(InvalidInput):
    kind = "invalid-query"


class IntegrityError(InvalidInput):
    kind = "integrity"


class NotFound(QuireError):
    kind = "not-found"
    exit_code = 3


class LakeNotFound(NotFound):
    kind = "lake-not-found"


class TableNotFound(NotFound):
    kind = "table-not-found"


class ColumnNotFound(NotFound):
    kind = "column-not-found"


class BranchNotFound(NotFound):
    kind = "branch-not-found"


class TagNotFound(NotFound):
    kind = "tag-not-found"


class CommitNotFound(NotFound):
    kind = "commit-not-found"


class AlreadyExists(QuireError):
    kind = "already-exists"
    exit_code = 3


class LakeExists(AlreadyExists):
    kind = "lake-exists"


class TableExists(AlreadyExists):
    kind = "table-exists"


class BranchExists(AlreadyExists):
    kind = "branch-exists"


class TagExists(AlreadyExists):
    kind = "tag-exists"


class Conflict(QuireError):
    """Nothing was committed. `retryable` is true when the same program on a fresh snapshot may succeed."""

    kind = "conflict"
    exit_code = 4
    retryable = True


class KeyConflict(Conflict):
    kind = "key-conflict"
    retryable = False


class NameConflict(Conflict):
    kind = "name-conflict"
    retryable = False


class ExpectationFailed(Conflict):
    kind = "expectation-failed"
    retryable = False


class NotFastForward(Conflict):
    kind = "not-fast-forward"
    retryable = False


class Revoked(Conflict):
    kind = "revoked"


class Refused(QuireError):
    kind = "refused"
    exit_code = 6


class ReadOnly(Refused):
    kind = "read-only"


class ForkedProcess(Refused):
    kind = "forked-process"


class TransactionClosed(Refused):
    kind = "transaction-closed"


class ValidatorMissing(Refused):
    kind = "validator-missing"


class Unsupported(Refused):
    kind = "unsupported"


class SchemaRefused(Refused):
    kind = "schema-refused"


class BranchClosed(Refused):
    kind = "branch-closed"


class Fenced(Refused):
    kind = "fenced"


class ForeignWriter(Refused):
    kind = "foreign-writer"


class DeadlineExceeded(Refused):
    kind = "deadline-exceeded"
    retryable = True


class CommitUnknown(QuireError):
    """The publish was sent and its outcome could not be learnt. Carries `branch`, `slot` and `write`.

    Do not run the transaction again: it may have committed. `lake.outcome(error)` settles it with one read, and so does
    `lake.outcome(error.token)`, later and in another program.
    """

    kind = "commit-unknown"
    exit_code = 5

    @property
    def token(self) -> str | None:
        """What to keep to settle it later: the log, the slot and the write; None when it was no commit."""
        parts = [self.fields.get(name) for name in ("log", "slot", "write")]
        return "/".join(map(str, parts)) if None not in parts else None

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), **({"token": self.token} if self.token else {})}


class SnapshotExpired(QuireError):
    kind = "snapshot-expired"
    exit_code = 3


class StorageError(QuireError):
    kind = "storage"
    exit_code = 7
    retryable = True


class PermissionDenied(StorageError):
    kind = "permission-denied"
    retryable = False


class UnsafeStore(StorageError):
    kind = "unsafe-store"
    retryable = False


class EmbedderError(QuireError):
    """Nothing was committed. `retryable` is true when the service was busy or could not be reached."""

    kind = "embedder"
    exit_code = 7


class FormatError(QuireError):
    kind = "format"
    exit_code = 8


class CorruptRecord(FormatError):
    kind = "corrupt-record"


class NewerFormat(FormatError):
    kind = "newer-format"
