"""Requests of clients of a Unity Catalog: the Delta interface of version 1, and what of the older one they ask too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidInput, NotFound
from quire.lake.handles import snapshot_at
from quire.server.calls import Answer, Call, decoded

if TYPE_CHECKING:
    from quire.delta.catalog import Catalog

Handler = Callable[[Call], Answer]
WAIT = 30.0
"""Seconds that a request waits for another one in the same transaction: clients do not ask again."""
SCHEMA = "default"
"""The one schema of the catalog that a lake is."""
_S3 = {
    "aws_access_key_id": "s3.access-key-id",
    "aws_secret_access_key": "s3.secret-access-key",
    "aws_session_token": "s3.session-token",
    "aws_region": "s3.region",
    "aws_endpoint": "s3.endpoint",
}


@contextmanager
def viewed(call: Call) -> Iterator[Catalog]:
    """What an address shows: the lake, one commit, or a transaction."""
    from quire.delta.catalog import Catalog

    if "txn" not in call.path:
        lake = call.lake()
        if "commit" in call.path:
            yield Catalog(lake, snapshot_at(lake, call.path["commit"]), fixed=True)
        else:
            yield Catalog(lake, lake.snapshot())
        return
    held = call.server.transactions.used(call.path["txn"], call.actor.name, call.path["lake"], wait=WAIT)
    with held as found:
        yield Catalog(found.lake, found.tx)


def _asked(call: Call, name: str) -> str:
    """A parameter of the address, or nothing."""
    given = call.query.get(name) or [""]
    return str(given[0])


def catalogs(call: Call) -> Answer:
    return Answer({"catalogs": [{"name": call.path["lake"]}]})


def catalog(call: Call) -> Answer:
    return Answer({"name": call.path["catalog"]})


def metastore(call: Call) -> Answer:
    return Answer({"metastore_id": call.path["lake"], "name": call.path["lake"]})


def schemas(call: Call) -> Answer:
    with viewed(call) as found:
        return Answer({"schemas": [found.schema(_asked(call, "catalog_name"))]})


def schema(call: Call) -> Answer:
    catalog_, _, name = call.path["name"].rpartition(".")
    if name != SCHEMA:
        raise NotFound(f"There is no schema {name!r}.", next=f"The schema is {SCHEMA!r}.")
    with viewed(call) as found:
        return Answer(found.schema(catalog_))


def tables(call: Call) -> Answer:
    with viewed(call) as found:
        there = found.every(_asked(call, "catalog_name")) if _asked(call, "schema_name") == SCHEMA else []
        return Answer({"tables": there})


def _named(call: Call) -> tuple[str, str]:
    catalog_, _, rest = call.path["name"].partition(".")
    schema_, _, name = rest.partition(".")
    if not name or schema_ != SCHEMA:
        raise NotFound(f"There is no table {call.path['name']!r}.", next=f"Name it CATALOG.{SCHEMA}.TABLE.")
    return catalog_, name


def table(call: Call) -> Answer:
    catalog_, name = _named(call)
    with viewed(call) as found:
        return Answer(found.listed(catalog_, name))


def drop(call: Call) -> Answer:
    with viewed(call) as found:
        found.drop(_named(call)[1])
    return Answer({})


def load(call: Call) -> Answer:
    with viewed(call) as found:
        return Answer(found.loaded(call.path["schema"], call.path["table"]))


def update(call: Call) -> Answer:
    wanted = decoded(call.body.whole(), dict[str, Any])
    for part in ("requirements", "updates"):
        given = wanted.get(part) or []
        if not isinstance(given, list) or any(not isinstance(one, dict) for one in given):
            raise InvalidInput(f"{part} is no list of objects.", next="Send it as the specification has it.")
    with viewed(call) as found:
        found.update(call.path["schema"], call.path["table"], wanted)
    with viewed(call) as found:
        return Answer(found.loaded(call.path["schema"], call.path["table"]))


def stage(call: Call) -> Answer:
    name = decoded(call.body.whole(), dict[str, Any]).get("name")
    if not isinstance(name, str):
        raise InvalidInput("A table needs a name.", next="Send it.")
    with viewed(call) as found:
        return Answer(found.staged(call.path["schema"], name))


def create(call: Call) -> Answer:
    wanted = decoded(call.body.whole(), dict[str, Any])
    with viewed(call) as found:
        found.create(call.path["schema"], wanted)
    if "txn" in call.path:
        return Answer({})
    with viewed(call) as found:
        return Answer(found.loaded(call.path["schema"], wanted["name"]))


def metrics(call: Call) -> Answer:
    call.body.whole()
    return Answer(status=204, body=b"")


def credentials(call: Call) -> Answer:
    """What the server is configured to tell clients that read and write files themselves."""
    with viewed(call) as found:
        location = found.loaded(call.path["schema"], call.path["table"])["metadata"]["location"]
    given = call.server.config.lakes[call.path["lake"]].client_options
    told = {_S3[name.lower()]: value for name, value in given.items() if name.lower() in _S3}
    asked = _asked(call, "operation") or "READ_WRITE"
    one = {"prefix": location, "operation": asked, "expiration-time-ms": None, "config": told}
    return Answer({"storage-credentials": [one] if told else []})
