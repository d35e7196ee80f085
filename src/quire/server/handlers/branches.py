"""Branches and tags."""

from __future__ import annotations

import msgspec

from quire.errors import Refused
from quire.server.calls import Answer, Call


class NewBranch(msgspec.Struct, forbid_unknown_fields=True):
    """A branch from a commit of another: its head, unless `at` says where."""

    name: str
    at: str | None = None
    source: str = "main"


class NewTag(msgspec.Struct, forbid_unknown_fields=True):
    """A name for a commit."""

    name: str
    at: str | None = None
    message: str = ""
    branch: str = "main"


def branches(call: Call) -> Answer:
    return Answer({"branches": [branch.to_dict() for branch in call.lake().branches()]})


def create_branch(call: Call) -> Answer:
    asked = call.decoded(NewBranch)
    call.lake(asked.source).create_branch(asked.name, at=asked.at)
    [found] = [branch for branch in call.lake().branches() if branch.name == asked.name]
    return Answer(found.to_dict(), status=201)


def delete_branch(call: Call) -> Answer:
    call.lake().delete_branch(call.path["branch"])
    call.server.lakes.forget(call.path["lake"], call.path["branch"])
    return Answer(status=204, body=b"")


def tags(call: Call) -> Answer:
    return Answer({"tags": [_said(name, tag) for name, tag in call.lake().tags().items()]})


def create_tag(call: Call) -> Answer:
    asked = call.decoded(NewTag)
    lake = call.lake(asked.branch)
    lake.tag(asked.name, at=asked.at, message=asked.message)
    found = lake.tags().get(asked.name)
    if found is None:
        raise Refused(f"Tag {asked.name!r} was deleted at once.", next="Create it again, if it should be there.")
    return Answer(_said(asked.name, found), status=201)


def delete_tag(call: Call) -> Answer:
    call.lake().delete_tag(call.path["tag"])
    return Answer(status=204, body=b"")


def _said(name: str, tag: object) -> dict[str, object]:
    time = getattr(tag, "time", None)
    return {
        "name": name,
        "commit": str(tag),
        "message": getattr(tag, "message", None),
        "author": getattr(tag, "author", None),
        "time": time.isoformat() if time is not None else None,
    }
