"""Every error of the library has a status and a body of its own."""

from __future__ import annotations

import inspect

import pytest

from quire import errors
from quire.errors import CommitUnknown, QuireError, Throttled
from quire.server.problems import STATUS, TITLES, body_of, headers_of, status_of

CLASSES = sorted(
    (c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, QuireError)), key=lambda c: c.__name__
)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_every_error_has_a_status_that_is_not_just_that_of_the_base(cls: type[QuireError]) -> None:
    stated = [one for one in cls.__mro__ if one in STATUS]
    assert stated[0] is not QuireError or cls is QuireError, "say its status in STATUS, or that of what it hangs on"
    said = body_of(cls("It broke.", next="Mend it.", table="t"), status_of(cls("")), "r1")
    assert said["title"] == TITLES[said["status"]]
    assert (said["type"], said["kind"]) == (f"urn:quire:{cls.kind}", cls.kind)
    assert (said["detail"], said["next"], said["table"], said["request_id"]) == ("It broke.", "Mend it.", "t", "r1")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.InvalidArgument(""), 400),
        (errors.IntegrityError(""), 422),
        (errors.Unauthenticated(""), 401),
        (errors.Denied(""), 403),
        (errors.TableNotFound(""), 404),
        (errors.TableExists(""), 409),
        (errors.KeyConflict(""), 409),
        (errors.ExpectationFailed(""), 412),
        (errors.SnapshotExpired(""), 410),
        (errors.FeedGap(""), 410),
        (errors.TooLarge(""), 413),
        (errors.Throttled(""), 429),
        (errors.Unsupported(""), 501),
        (errors.StorageError(""), 502),
        (errors.CommitUnknown(""), 503),
        (errors.CorruptRecord(""), 500),
    ],
    ids=lambda v: getattr(v, "kind", v),
)
def test_the_status_says_what_to_do_about_it(error: QuireError, status: int) -> None:
    assert status_of(error) == status


def test_an_unknown_outcome_leads_to_where_it_is_settled() -> None:
    unknown = CommitUnknown("?", log="abc", slot=7, write="w1", branch="main")
    assert headers_of(unknown, "/v1/lakes/demo/outcomes")["location"] == "/v1/lakes/demo/outcomes/abc.7.w1"


def test_who_asks_too_often_is_told_when_to_come_again() -> None:
    assert headers_of(Throttled("", retry_after=3.2)) == {"retry-after": "3"}
    assert headers_of(Throttled("", retry_after=0.01)) == {"retry-after": "1"}


def test_where_a_lake_lies_is_not_told() -> None:
    error = errors.ReadOnly("The lake at s3://secret/x is read-only.", uri="s3://secret/x", seen=["s3://secret/x/a"])
    said = body_of(error, 403, "r1", {"s3://secret/x": "demo"})
    assert "secret" not in str(said)
    assert said["detail"] == "The lake at demo is read-only."


def test_fields_of_an_error_never_replace_what_a_problem_says() -> None:
    said = body_of(errors.Conflict("x", status=200, type="fine"), 409, "r1")
    assert (said["status"], said["type"]) == (409, "urn:quire:conflict")
