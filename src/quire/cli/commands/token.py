"""The API keys of a server, which are kept in a file beside it."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from quire.cli.lazy_group import register
from quire.cli.output import Output

if TYPE_CHECKING:
    from quire.server.auth.keys import Key

KeyPath = Annotated[Path, typer.Argument(metavar="FILE", help="The file of keys that the server is started with.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


class Role(StrEnum):
    """What a key is good for; each includes the ones before."""

    read = "read"
    write = "write"
    admin = "admin"


def create(
    keys: KeyPath,
    actor: Annotated[str, typer.Argument(metavar="ACTOR", help="Who will be the author of commits by this key.")],
    role: Annotated[
        Role, typer.Option("--role", help="read; write: commit, branch, tag; admin: delete branches, upkeep.")
    ] = Role.read,
    policy_role: Annotated[
        list[str] | None, typer.Option("--policy-role", metavar="NAME", help="A role that the policies of lakes know.")
    ] = None,
    lake: Annotated[
        list[str] | None, typer.Option("--lake", metavar="NAME", help="Only for this lake. Default: for all.")
    ] = None,
    days: Annotated[
        float | None, typer.Option("--days", help="How long it is valid. Default: until it is revoked.")
    ] = None,
    json: Json = False,
) -> None:
    """Create a key for an actor, and print it once.

    quire token create keys.json nightly --role write --lake demo --days 90

    The file holds no key, only what recognises one. A server that runs knows the key within a second.
    """
    from quire.server.auth.keys import KeyFile

    made, text = KeyFile(keys).create(actor, [role.value], lakes=lake, days=days, policy_roles=policy_role or ())
    output = Output(as_json=json)
    if json:
        output.document({**_told(made), "token": text})
    else:
        output.line(text)


def list_(keys: KeyPath, json: Json = False) -> None:
    """List the keys of a file."""
    from quire.server.auth.keys import KeyFile

    found = [_told(key) for key in KeyFile(keys).read()]
    output = Output(as_json=json)
    if json:
        output.document({"keys": found})
        return
    output.table(
        ["id", "actor", "roles", "lakes", "state", "created", "expires"],
        [
            (k["id"], k["actor"], ",".join(k["roles"]), ",".join(k["lakes"] or ["all"]), k["state"], *_times(k))
            for k in found
        ],
    )


def revoke(
    keys: KeyPath,
    id: Annotated[str, typer.Argument(metavar="ID", help="The id of the key, which `quire token list` shows.")],
    json: Json = False,
) -> None:
    """End a key for good. A server that runs knows it within a second."""
    from quire.server.auth.keys import KeyFile

    ended = _told(KeyFile(keys).revoke(id))
    output = Output(as_json=json)
    if json:
        output.document(ended)
    else:
        output.line(f"revoked {ended['id']} of {ended['actor']}")


def _told(key: Key) -> dict[str, Any]:
    return {
        "id": key.id,
        "actor": key.actor,
        "roles": key.roles,
        "lakes": key.lakes,
        "state": key.state(datetime.now(UTC)),
        "created": key.created.isoformat(timespec="seconds"),
        "expires": key.expires.isoformat(timespec="seconds") if key.expires else None,
    }


def _times(key: dict[str, Any]) -> tuple[str, str]:
    return key["created"][:19], (key["expires"] or "never")[:19]


register("token create", create, TyperCommand)
register("token list", list_, TyperCommand)
register("token revoke", revoke, TyperCommand)
