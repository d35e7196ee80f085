"""Errors as HTTP has them: which status a kind of error is, and the body (RFC 9457, problem+json)."""

from __future__ import annotations

from typing import Any

from quire import errors
from quire.errors import CommitUnknown, QuireError, Throttled

MEDIA_TYPE = "application/problem+json"

STATUS: dict[type[QuireError], int] = {
    QuireError: 500,
    errors.InvalidInput: 400,
    errors.SchemaMismatch: 422,
    errors.DuplicateKeys: 422,
    errors.IntegrityError: 422,
    errors.NotFound: 404,
    errors.AlreadyExists: 409,
    errors.Conflict: 409,
    errors.ExpectationFailed: 412,
    errors.Refused: 409,
    errors.ReadOnly: 403,
    errors.ForkedProcess: 500,
    errors.ValidatorMissing: 501,
    errors.Unsupported: 501,
    errors.LakeLost: 503,
    errors.OutsideLake: 403,
    errors.ClockSkew: 503,
    errors.DeadlineExceeded: 504,
    errors.Unauthenticated: 401,
    errors.Denied: 403,
    errors.Throttled: 429,
    errors.TooLarge: 413,
    errors.LimitExceeded: 422,
    errors.CommitUnknown: 503,
    errors.SnapshotExpired: 410,
    errors.StorageError: 502,
    errors.ServerUnavailable: 503,
    errors.EmbedderError: 502,
    errors.FormatError: 500,
}
"""By class; a class without an entry has that of the nearest one above it."""

TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    408: "Request Timeout",
    409: "Conflict",
    410: "Gone",
    412: "Precondition Failed",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    416: "Range Not Satisfiable",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}
RESERVED = frozenset({"type", "title", "status", "detail", "instance", "kind", "next", "retryable", "request_id"})


class HttpRefusal(Exception):
    """An error of Quire with a status that only HTTP has, such as 405, and headers of its own."""

    def __init__(self, status: int, error: QuireError, headers: dict[str, str] | None = None) -> None:
        super().__init__(str(error))
        self.status, self.error, self.headers = status, error, headers or {}


class Told(Exception):
    """What a face answers to a request that failed, in the form of its own specification."""

    def __init__(
        self, status: int, body: bytes, media_type: str, *, headers: dict[str, str] | None = None, kind: str = ""
    ) -> None:
        super().__init__(kind)
        self.status, self.body, self.media_type = status, body, media_type
        self.headers, self.kind = headers or {}, kind


def status_of(error: QuireError) -> int:
    """The status that an error is answered with: every class has one."""
    return next(STATUS[cls] for cls in type(error).__mro__ if cls in STATUS)


def body_of(error: QuireError, status: int, request: str, hide: dict[str, str] | None = None) -> dict[str, Any]:
    """What the answer says. `hide` replaces texts that clients have no business with, such as where a lake lies."""
    said = error.to_dict()
    fields = {k: v for k, v in said.items() if k not in RESERVED and k != "message" and k != "uri"}
    found = {
        "type": f"urn:quire:{error.kind}",
        "title": TITLES[status],
        "status": status,
        "detail": said["message"],
        "kind": error.kind,
        "next": said["next"],
        "retryable": said["retryable"],
        "request_id": request,
        **fields,
    }
    return _without(found, hide) if hide else found


def headers_of(error: QuireError, settle: str | None = None) -> dict[str, str]:
    """Headers that go with an error. `settle` is where outcomes of this lake are told."""
    if isinstance(error, Throttled):
        return {"retry-after": str(max(1, round(error.fields.get("retry_after", 1))))}
    if isinstance(error, CommitUnknown) and error.token and settle is not None:
        return {"location": f"{settle}/{error.token.replace('/', '.')}", "retry-after": "1"}
    if isinstance(error, errors.Unauthenticated):
        return {"www-authenticate": 'Bearer realm="quire"'}
    return {}


def _without(value: Any, hide: dict[str, str]) -> Any:
    if isinstance(value, str):
        for text, instead in hide.items():
            value = value.replace(text, instead)
        return value
    if isinstance(value, dict):
        return {k: _without(v, hide) for k, v in value.items()}
    return [_without(v, hide) for v in value] if isinstance(value, list) else value
