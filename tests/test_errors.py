"""The error tree itself: stable kinds, drawn in one place, fit to print, to send and to show."""

from __future__ import annotations

import datetime as dt
import inspect
import json
import pickle
import re
import uuid
from decimal import Decimal
from typing import Any

import pytest

import quire
from quire import errors
from quire.errors import QuireError

CLASSES = sorted(
    (c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, QuireError)), key=lambda c: c.__name__
)
KINDS = {
    "AlreadyExists": "already-exists",
    "InvalidArgument": "invalid-argument",
    "BranchClosed": "branch-closed",
    "RequestClosed": "request-closed",
    "RequestNotFound": "request-not-found",
    "ConsumerNotFound": "consumer-not-found",
    "BranchExists": "branch-exists",
    "BranchNotFound": "branch-not-found",
    "ColumnNotFound": "column-not-found",
    "CommitNotFound": "commit-not-found",
    "CommitUnknown": "commit-unknown",
    "Conflict": "conflict",
    "CorruptRecord": "corrupt-record",
    "DeadlineExceeded": "deadline-exceeded",
    "Denied": "denied",
    "DuplicateKeys": "duplicate-keys",
    "EmbedderError": "embedder",
    "InvalidSchema": "invalid-schema",
    "InvalidQuery": "invalid-query",
    "IntegrityError": "integrity",
    "SchemaRefused": "schema-refused",
    "ExpectationFailed": "expectation-failed",
    "FeedGap": "feed-gap",
    "Fenced": "fenced",
    "ForeignWriter": "foreign-writer",
    "LakeLost": "lake-lost",
    "NotOwner": "not-owner",
    "OutsideLake": "outside-lake",
    "ForkedProcess": "forked-process",
    "FormatError": "format",
    "InvalidExpression": "invalid-expression",
    "InvalidInput": "invalid-input",
    "InvalidName": "invalid-name",
    "AmbiguousName": "ambiguous-name",
    "ClockSkew": "clock-skew",
    "InvalidToken": "invalid-token",
    "InvalidUri": "invalid-uri",
    "KeyConflict": "key-conflict",
    "LakeExists": "lake-exists",
    "LakeNotFound": "lake-not-found",
    "LimitExceeded": "limit-exceeded",
    "NameConflict": "name-conflict",
    "NewerFormat": "newer-format",
    "NotFastForward": "not-fast-forward",
    "Revoked": "revoked",
    "UnresolvedConflicts": "unresolved-conflicts",
    "NotFound": "not-found",
    "PermissionDenied": "permission-denied",
    "QuireError": "error",
    "ReadOnly": "read-only",
    "Refused": "refused",
    "SchemaMismatch": "schema-mismatch",
    "ServerUnavailable": "server-unavailable",
    "SnapshotExpired": "snapshot-expired",
    "StorageError": "storage",
    "TableExists": "table-exists",
    "TableNotFound": "table-not-found",
    "TagExists": "tag-exists",
    "TagNotFound": "tag-not-found",
    "Throttled": "throttled",
    "TooLarge": "too-large",
    "TransactionClosed": "transaction-closed",
    "Unauthenticated": "unauthenticated",
    "UnsafeStore": "unsafe-store",
    "Unsupported": "unsupported",
    "ValidatorMissing": "validator-missing",
}
"""Programs branch on these: a kind may be added here, never changed or removed."""


def drawn() -> dict[str, str | None]:
    """The tree of the module's docstring: each class and the one it hangs on."""
    found: dict[str, str | None] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^    ((?:│   |    )*)(?:[├└]── )?(\w.*)$", line)
        if match is None or not (line.strip().startswith(("QuireError", "│", "├", "└"))):
            continue
        level = 0 if match[2].startswith("QuireError") else len(match[1]) // 4 + 1
        names = []
        for part in re.split(r"\s{2,}", match[2]):
            if not re.fullmatch(r"[A-Z]\w+", part):
                break
            names.append(part)
        for name in names:
            assert name not in found, f"{name} is drawn twice"
            found[name] = above[level - 1] if level else None
        above[level:] = [names[-1]]
    return found


def test_every_error_has_its_stable_kind() -> None:
    assert {c.__name__: c.kind for c in CLASSES} == KINDS


def test_no_two_errors_have_the_same_kind() -> None:
    kinds = [c.kind for c in CLASSES]
    assert len(set(kinds)) == len(kinds)
    assert all("kind" in vars(c) for c in CLASSES), "a kind is never inherited"
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", kind) for kind in kinds)


def test_the_tree_is_drawn_as_it_is() -> None:
    real = {c.__name__: None if c is QuireError else c.__bases__[0].__name__ for c in CLASSES}
    assert drawn() == real


def test_what_most_programs_catch_is_at_the_top_of_the_package() -> None:
    for name in ("QuireError", "Conflict", "KeyConflict", "CommitUnknown"):
        assert getattr(quire, name) is getattr(errors, name)
    assert quire.errors is errors


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_every_error_can_be_sent_to_another_process(cls: type[QuireError]) -> None:
    error = cls("It broke.", next="Mend it.", table="t", keys=[{"id": 1}])
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is cls
    assert str(copy) == str(error) == "It broke. Mend it."
    assert (copy.fields, copy.next, copy.retryable) == (error.fields, error.next, error.retryable)
    assert copy.to_dict() == error.to_dict()


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_every_error_is_plain_data(cls: type[QuireError]) -> None:
    said = json.loads(json.dumps(cls("It broke.", next="Mend it.", table="t").to_dict()))
    assert said == {
        "kind": cls.kind,
        "message": "It broke.",
        "next": "Mend it.",
        "retryable": cls.retryable,
        "table": "t",
    }


def test_a_retry_can_be_allowed_or_ruled_out_for_one_error() -> None:
    assert errors.Conflict("x").retryable is True
    assert errors.Conflict("x", retryable=False).retryable is False
    assert pickle.loads(pickle.dumps(errors.Conflict("x", retryable=False))).retryable is False
    assert errors.KeyConflict("x").retryable is False


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_exit_codes_tell_conflict_and_unknown_apart_from_the_rest(cls: type[QuireError]) -> None:
    assert 1 <= cls.exit_code <= 8
    assert (cls.exit_code == 4) == issubclass(cls, errors.Conflict)
    assert (cls.exit_code == 5) == issubclass(cls, errors.CommitUnknown)


@pytest.mark.parametrize(
    "value",
    [
        dt.date(2020, 1, 1),
        dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
        dt.time(1, 2),
        dt.timedelta(seconds=1),
        Decimal("1.50"),
        b"\xff\x00",
        uuid.UUID(int=7),
        {"nested": (b"x", {1, 2})},
        float("nan"),
        object(),
    ],
    ids=lambda v: type(v).__name__,
)
def test_fields_of_any_type_can_be_printed_as_json(value: Any) -> None:
    error = errors.DuplicateKeys("Twice.", keys=[{"id": value}], table="t")
    assert error.fields["keys"][0]["id"] is value, "a program gets the value itself"
    said = json.loads(json.dumps(error.to_dict(), allow_nan=False))
    assert said["table"] == "t"
    assert len(said["keys"]) == 1


def test_fields_are_attributes() -> None:
    error = errors.TableNotFound("There is no table 'x'.", table="x")
    assert error.table == "x"
    assert error.fields == {"table": "x"}
    with pytest.raises(AttributeError, match="TableNotFound has no field 'colour'"):
        _ = error.colour
    assert not hasattr(error, "keys")


def test_advice_follows_the_message() -> None:
    assert str(errors.QuireError("Broken.", next="Mend it.")) == "Broken. Mend it."
    assert str(errors.QuireError("Broken.")) == "Broken."
    assert errors.QuireError("Broken.").to_dict()["next"] is None


def test_html_escapes_everything() -> None:
    evil = "<img src=x onerror=alert(1)>"
    html = errors.KeyConflict(evil, next=evil, table=evil, keys=[{"id": evil}])._repr_html_()
    assert "<img" not in html
    assert html.count("&lt;img") == 4
    assert "key-conflict" in html
