"""What Lance raises, as a typed error."""

from __future__ import annotations

import pytest

from quire.errors import PermissionDenied, StorageError
from quire.formats.lance.session import translate


@pytest.mark.parametrize(
    "error",
    [
        PermissionError("no"),
        OSError("LanceError(IO): Permission denied (os error 13), rust/lance/src/x.rs:1"),
        OSError("LanceError(IO): Generic S3 error: Server returned non-2xx status code: 403 Forbidden: "),
        OSError("LanceError(IO): Generic S3 error: <Error><Code>AccessDenied</Code></Error>"),
    ],
)
def test_what_was_refused_is_a_lack_of_permission_and_not_tried_again(error: Exception) -> None:
    found = translate(error, "version 3 of people")
    assert isinstance(found, PermissionDenied)
    assert not found.retryable
    assert "version 3 of people" in found.message
    assert found.next == "Check that the credentials, or this user, have the permission."  # true of a folder, too


def test_what_failed_otherwise_may_be_tried_again() -> None:
    found = translate(OSError("LanceError(IO): connection reset, rust/lance/src/x.rs:1"), "version 3 of people")
    assert type(found) is StorageError
    assert found.retryable
