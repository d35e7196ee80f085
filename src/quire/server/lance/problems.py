"""Errors as the specification has them: clients look at `code` alone."""

from __future__ import annotations

from typing import Any

from quire.errors import Denied, QuireError, Throttled, TooLarge, Unauthenticated
from quire.rowfiles.write import to_json
from quire.server.problems import Told, headers_of
from quire.server.routes import Face

STATUS = {
    0: 406, 1: 404, 2: 409, 3: 409, 4: 404, 5: 409, 6: 404, 7: 409, 8: 404, 9: 409, 10: 404, 11: 404, 12: 404,
    13: 400, 14: 409, 15: 403, 16: 401, 17: 503, 18: 500, 19: 409, 20: 400, 21: 429, 22: 404, 23: 409,
}  # fmt: skip
"""By code."""

BEFORE: dict[type[QuireError], int] = {Unauthenticated: 16, Denied: 15, Throttled: 21, TooLarge: 13}
"""Refusals before there is a namespace to ask."""


def code_of(error: QuireError, status: int) -> int:
    """The code of an error of Quire's."""
    from quire.lance.answers import translated

    for kind, code in BEFORE.items():
        if isinstance(error, kind):
            return code
    if status in (404, 405):
        from quire.errors import NotFound

        if type(error) is NotFound or status == 405:
            return 0  # no such address
    return int(translated(error).code)


def told(code: int, message: str, detail: str, request: str, status: int | None = None, **more: Any) -> Told:
    """The answer to a request that failed."""
    body = {"error": message, "code": code, "detail": detail, "instance": request}
    return Told(STATUS[code] if status is None else status, to_json(body), "application/json", **more)


def problem(error: QuireError, status: int, request: str, hide: dict[str, str]) -> Told:
    """An error of Quire's as the answer of this face."""
    text = error.message
    for here, instead in hide.items():
        text = text.replace(here, instead)
    code = 18 if status == 500 else code_of(error, status)
    kept = status if status in (405, 408, 413) else None
    return told(code, text, error.next or "", request, kept, headers=headers_of(error), kind=error.kind)


LANCE = Face("lance", problem, key_header="x-api-key")
