"""Coming in: by the one-time link of `quire ui`, or with a key that is typed in once."""

from __future__ import annotations

import msgspec

from quire.server.calls import Answer, Call
from quire.server.ui.sessions import cookie


class Word(msgspec.Struct, forbid_unknown_fields=True):
    word: str = ""


def enter(call: Call) -> Answer:
    """A cookie for the one-time word, and on to the first page without the word in the address."""
    if not call.query.word or call.server.sessions.find(call.headers) is not None:
        return Answer(status=303, body=b"", headers={"location": "./"})
    name = call.server.sessions.enter(call.query.word)
    return Answer(
        status=303, body=b"", headers={"location": "./", "set-cookie": cookie(name), "cache-control": "no-store"}
    )


def sign_in(call: Call) -> Answer:
    """A cookie for whoever sent a token that the gate let in."""
    token = call.headers.get("authorization", "").partition(" ")[2].strip()
    answer = Answer({"actor": call.actor.name})
    if token:
        answer.headers["set-cookie"] = cookie(call.server.sessions.sign_in(token))
    return answer


def sign_out(call: Call) -> Answer:
    """Forget the cookie."""
    call.server.sessions.sign_out(call.headers)
    return Answer(status=204, body=b"", headers={"set-cookie": cookie("")})
