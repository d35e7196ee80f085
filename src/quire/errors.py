"""Every error Quire raises, in one tree, grouped by what the handler does about it.

    QuireError
    ├── InvalidInput            fix the call
    │   ├── InvalidArgument  InvalidUri  InvalidExpression  InvalidToken
    │   ├── InvalidName
    │   │   └── AmbiguousName
    │   ├── SchemaMismatch  DuplicateKeys
    │   └── InvalidSchema  InvalidQuery  IntegrityError
    ├── NotFound                look at the name
    │   ├── LakeNotFound  TableNotFound  ColumnNotFound
    │   └── BranchNotFound  TagNotFound  CommitNotFound  RequestNotFound  ConsumerNotFound
    ├── AlreadyExists           choose another name, or use what exists
    │   └── LakeExists  TableExists  BranchExists  TagExists
    ├── Conflict                another writer committed first; `retryable` says whether to run again
    │   └── KeyConflict  NameConflict  ExpectationFailed  NotFastForward  Revoked  UnresolvedConflicts
    ├── Refused                 the request is understood and will not be carried out here
    │   ├── ReadOnly  ForkedProcess  TransactionClosed  ValidatorMissing  Unsupported
    │   ├── SchemaRefused  BranchClosed  RequestClosed  Fenced  LakeLost  OutsideLake  NotOwner
    │   ├── ForeignWriter  ClockSkew  DeadlineExceeded
    │   └── Unauthenticated  Denied  Throttled  TooLarge  LimitExceeded
    ├── CommitUnknown           the store did not say whether the commit landed; settle it, do not repeat it
    ├── SnapshotExpired         take a fresh snapshot
    │   └── FeedGap
    ├── StorageError            the object store failed; try again if `retryable`
    │   └── PermissionDenied  UnsafeStore
    ├── ServerUnavailable       the server did not answer; try again
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


def shown(value: Any, most: int = 80) -> str:
    """A value that a message names: short, on one line, and never an error of its own."""
    try:
        text = repr(value)
    except Exception:
        return f"a {type(value).__name__}"
    if len(text) > most or "\n" in text:
        return f"a {type(value).__name__}" if "\n" in text else f"{text[:most]}…"
    return text.encode("utf-8", "backslashreplace").decode()


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
    """The call is wrong: correct it."""

    kind = "invalid-input"
    exit_code = 2


class InvalidArgument(InvalidInput, TypeError):
    """What Python itself calls a TypeError: also one of those, for who asks for it."""

    kind = "invalid-argument"


class InvalidUri(InvalidInput):
    """The address of a lake cannot be understood."""

    kind = "invalid-uri"


class InvalidName(InvalidInput):
    """The name of a table, branch, tag or column is not allowed."""

    kind = "invalid-name"


class AmbiguousName(InvalidName):
    """`candidates` has every thing that the word can mean, in words that mean one thing only."""

    kind = "ambiguous-name"


class InvalidExpression(InvalidInput):
    """A filter, an expression or SQL does not parse or bind: `expression`, its `part` of the call, the `position`."""

    kind = "invalid-expression"


class InvalidToken(InvalidInput):
    """An idempotency token is malformed or too old."""

    kind = "invalid-token"


class SchemaMismatch(InvalidInput):
    """Columns or types of the data do not fit the table: `table` and `column` say where."""

    kind = "schema-mismatch"


class DuplicateKeys(InvalidInput):
    """One batch holds the same key twice, or a null key."""

    kind = "duplicate-keys"


class InvalidSchema(InvalidInput):
    """A graph schema cannot be understood or contradicts itself."""

    kind = "invalid-schema"


class InvalidQuery(InvalidInput):
    """A graph query does not parse, does not fit the schema, or lacks a parameter."""

    kind = "invalid-query"


class IntegrityError(InvalidInput):
    """Rows break a rule of the graph: `violations` has each with its type, id, property and rule."""

    kind = "integrity"


class NotFound(QuireError):
    """Nothing has this name."""

    kind = "not-found"
    exit_code = 3


class LakeNotFound(NotFound):
    """There is no lake at the address."""

    kind = "lake-not-found"


class TableNotFound(NotFound):
    """The lake has no table of this name at this commit."""

    kind = "table-not-found"


class ColumnNotFound(NotFound):
    """The table has no column of this name."""

    kind = "column-not-found"


class BranchNotFound(NotFound):
    """The lake has no branch of this name."""

    kind = "branch-not-found"


class TagNotFound(NotFound):
    """The lake has no tag of this name."""

    kind = "tag-not-found"


class CommitNotFound(NotFound):
    """The lake has no such commit, or cleanup has removed it from the log."""

    kind = "commit-not-found"


class RequestNotFound(NotFound):
    """The lake has no merge request of this number."""

    kind = "request-not-found"


class ConsumerNotFound(NotFound):
    """The lake has no consumer of changes of this name."""

    kind = "consumer-not-found"


class AlreadyExists(QuireError):
    """The name is taken: choose another, or use what exists."""

    kind = "already-exists"
    exit_code = 3


class LakeExists(AlreadyExists):
    """A lake exists at the address."""

    kind = "lake-exists"


class TableExists(AlreadyExists):
    """The lake has a table of this name."""

    kind = "table-exists"


class BranchExists(AlreadyExists):
    """The lake has a branch of this name."""

    kind = "branch-exists"


class TagExists(AlreadyExists):
    """The lake has a tag of this name."""

    kind = "tag-exists"


class Conflict(QuireError):
    """Nothing was committed. `retryable` is true when the same program on a fresh snapshot may succeed."""

    kind = "conflict"
    exit_code = 4
    retryable = True


class KeyConflict(Conflict):
    """Another commit inserted the same key first. Carries `table`, `keys` and `commit`."""

    kind = "key-conflict"
    retryable = False


class NameConflict(Conflict):
    """Another commit created or renamed a table to the same name first."""

    kind = "name-conflict"
    retryable = False


class ExpectationFailed(Conflict):
    """`expect=`, `if_head=` or a checked read no longer holds."""

    kind = "expectation-failed"
    retryable = False


class NotFastForward(Conflict):
    """The branches have diverged."""

    kind = "not-fast-forward"
    retryable = False


class UnresolvedConflicts(Conflict):
    """A merge has open conflicts: `count` of them, by kind in `counts`, and the first 100 in `conflicts`."""

    kind = "unresolved-conflicts"
    retryable = False


class Revoked(Conflict):
    """A cleanup came between: what the transaction had staged may be gone. Run it again."""

    kind = "revoked"


class Refused(QuireError):
    """The request is understood and will not be carried out here."""

    kind = "refused"
    exit_code = 6


class ReadOnly(Refused):
    """The handle was opened with `read_only=True`."""

    kind = "read-only"


class ForkedProcess(Refused):
    """The handle was opened in the parent process: open the lake in the child."""

    kind = "forked-process"


class TransactionClosed(Refused):
    """The transaction was committed or discarded before: begin a new one."""

    kind = "transaction-closed"


class ValidatorMissing(Refused):
    """The package that guards the table is not installed."""

    kind = "validator-missing"


class Unsupported(Refused):
    """This version, format or environment cannot do it; the message says what to use or install."""

    kind = "unsupported"


class SchemaRefused(Refused):
    """Existing rows or rules prevent a change of the graph's schema."""

    kind = "schema-refused"


class BranchClosed(Refused):
    """The branch was deleted: its log accepts no more commits."""

    kind = "branch-closed"


class RequestClosed(Refused):
    """The merge request was merged or closed."""

    kind = "request-closed"


class Fenced(Refused):
    """Another writer has claimed the branch."""

    kind = "fenced"


class LakeLost(Refused):
    """The lake was moved, removed or replaced under an open handle."""

    kind = "lake-lost"


class OutsideLake(Refused):
    """A record leads out of the lake, to a place that its opener has not named."""

    kind = "outside-lake"


class NotOwner(Refused):
    """The table belongs to another lake."""

    kind = "not-owner"


class ForeignWriter(Refused):
    """A plain Lance client wrote to a table behind Quire's back."""

    kind = "foreign-writer"


class ClockSkew(Refused):
    """`clock` is what this machine says, `store` what the store says."""

    kind = "clock-skew"


class DeadlineExceeded(Refused):
    """Time ran out before the publish: nothing was committed."""

    kind = "deadline-exceeded"
    retryable = True


class Unauthenticated(Refused):
    """The server does not know who asks: there is no token, or it is wrong, revoked or has expired."""

    kind = "unauthenticated"


class Denied(Refused):
    """Whoever asks may not do that."""

    kind = "denied"


class Throttled(Refused):
    """Too much at once: `retry_after` says in how many seconds to ask again. Nothing was done."""

    kind = "throttled"
    retryable = True


class TooLarge(Refused):
    """What was sent is larger than the server takes at once: `limit` says how much it takes, in bytes."""

    kind = "too-large"


class LimitExceeded(Refused):
    """A query needs more memory, time or rows than it may have: `limit` says which."""

    kind = "limit-exceeded"


class CommitUnknown(QuireError):
    """The publish was sent and its outcome could not be learnt. Carries `branch`, `slot` and `write`.

    Do not run the transaction again: it may have committed. `lake.outcome(error)` settles it with one read, and so does
    `lake.outcome(error.token)`, later and in another program.
    """

    kind = "commit-unknown"
    exit_code = 5

    @property
    def token(self) -> str | None:
        """What to keep to settle it later: the log, the slots and the write; None when it was no commit."""
        log, slot, write = (self.fields.get(name) for name in ("log", "slot", "write"))
        until = self.fields.get("until")
        slots = slot if until is None else f"{slot}-{until}"
        return f"{log}/{slots}/{write}" if None not in (log, slot, write) else None

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), **({"token": self.token} if self.token else {})}


class SnapshotExpired(QuireError):
    """Cleanup has removed what this snapshot pinned."""

    kind = "snapshot-expired"
    exit_code = 3


class FeedGap(SnapshotExpired):
    """The changes that a reader of the feed comes for are not kept any more.

    `cursor` is that of the first commit after which they are.
    """

    kind = "feed-gap"


class StorageError(QuireError):
    """The object store failed."""

    kind = "storage"
    exit_code = 7
    retryable = True


class PermissionDenied(StorageError):
    """The store does not accept the credentials for this request."""

    kind = "permission-denied"
    retryable = False


class UnsafeStore(StorageError):
    """The store does not honour create-if-absent: lakes on it would lose commits."""

    kind = "unsafe-store"
    retryable = False


class ServerUnavailable(QuireError):
    """A server of Quire did not answer, or its answer broke off. Reading again is safe, and so is a write by token."""

    kind = "server-unavailable"
    exit_code = 7
    retryable = True


class EmbedderError(QuireError):
    """No vectors were made, and nothing was committed that needs them.

    `retryable` is true when the service was busy or could not be reached.
    """

    kind = "embedder"
    exit_code = 7


class FormatError(QuireError):
    """What is stored cannot be read."""

    kind = "format"
    exit_code = 8


class CorruptRecord(FormatError):
    """A stored object is damaged: its checksum does not fit, or its content contradicts itself."""

    kind = "corrupt-record"


class NewerFormat(FormatError):
    """A newer version of Quire wrote this: upgrade."""

    kind = "newer-format"
