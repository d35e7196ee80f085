"""Short credentials of the store, for clients that read the files of tables themselves."""

from __future__ import annotations

import msgspec

from quire.errors import InvalidInput, Unsupported
from quire.lake.guard.files import files_of
from quire.server.calls import Answer, Call


class CredentialsAsked(msgspec.Struct, forbid_unknown_fields=True):
    """Which tables, of which commit."""

    tables: list[str]
    branch: str = "main"
    at: str | None = None


def credentials(call: Call) -> Answer:
    """A session that reads the folders of some tables and nothing else, for a short time."""
    call.query = asked = call.decoded(CredentialsAsked)
    if not asked.tables:
        raise InvalidInput("No table is named.", next="Name those whose files are to be read.", field="tables")
    snapshot = call.snapshot()
    found = files_of(call.lake(), snapshot, list(dict.fromkeys(asked.tables)))
    sessions = call.server.lakes.sessions(call.path["lake"])
    if sessions is None:
        raise Unsupported(
            "This server gives no credentials for the store of this lake.",
            next="Read through the server; whoever runs it can set a role in lakes.NAME.sessions.",
        )
    session = sessions.open(call.actor.name, [table.location for table in found])
    call.server.lakes.did(call.path["lake"], "vend", "Table", ", ".join(asked.tables), asked.branch)
    tables = {
        table.name: {"location": table.location, "format": table.format, "version": table.version} for table in found
    }
    value = {"commit": snapshot.commit, "expires": session.expires.isoformat(), "options": dict(session.options)}
    return Answer({**value, "tables": tables}, headers={"cache-control": "no-store"}, cost=snapshot.cost)
