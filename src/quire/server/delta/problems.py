"""Errors as the catalog has them. Its clients tell 400, 404 and 409 apart; everything else they ask again."""

from __future__ import annotations

from typing import Any

from quire.errors import KeyConflict, QuireError
from quire.rowfiles.write import to_json
from quire.server.problems import Told, headers_of
from quire.server.routes import Face

TYPES = {
    400: "InvalidParameterValueException",
    401: "UnauthenticatedException",
    403: "PermissionDeniedException",
    404: "NoSuchTableException",
    409: "CommitVersionConflictException",
    503: "ServiceUnavailableException",
}
STATUS = {405: 404, 408: 503, 410: 404, 412: 409, 413: 400, 422: 400, 429: 503, 501: 400, 502: 503, 504: 503}
"""Statuses that clients of a catalog do not expect, and what they are told. Spark takes a 429 as it takes a 503."""


def told(status: int, message: str, **more: Any) -> Told:
    """The answer to a request that failed."""
    known = STATUS.get(status, status)
    kind = TYPES.get(known, "InternalErrorException")
    return Told(
        known, to_json({"error": {"type": kind, "code": known, "message": message}}), "application/json", **more
    )


def problem(error: QuireError, status: int, request: str, hide: dict[str, str]) -> Told:
    """An error of Quire's as the answer of this face.

    409 means that the same commit may fit the next version, and Spark tries that for ever: rows whose key is taken are
    refused for good.
    """
    if isinstance(error, KeyConflict):
        status = 400
    text = f"{error.message} {error.next or ''}".strip()
    for here, instead in hide.items():
        text = text.replace(here, instead)
    return told(status, f"{text} (request {request})", headers=headers_of(error), kind=error.kind)


DELTA = Face("delta", problem)
