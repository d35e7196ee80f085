"""Opening a lake, and making one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from quire.arguments import checked
from quire.errors import CommitUnknown, InvalidInput, LakeExists, StorageError
from quire.lake.branch.live import LiveBranch, open_branch
from quire.lake.commit import record_time, record_values
from quire.lake.context import Core, default_author, ledger_of
from quire.lake.cost_report import opening
from quire.lake.format_file import FORMAT_KEY, holds_commits, without_format
from quire.lake.guard import NOBODY, Who, provided
from quire.lake.guard.handles import governed
from quire.lake.lake import Lake
from quire.lake.publish.publish import begin_log
from quire.lake.upkeep.background import Background
from quire.lake.upkeep.recovery import recover
from quire.ledger import FORMAT, MAIN, Commit, FormatFile, Line, Record, encode, genesis, new_id, slot_key
from quire.store import External, Outcome, Reach, Store, phase, probe
from quire.store.address import parse

LEDGERS = ("log", "manifest")


@checked
def open(
    uri: str | os.PathLike[str],
    *,
    branch: str = MAIN,
    storage_options: Mapping[str, str] | None = None,
    read_only: bool = False,
    author: str | None = None,
    backfill: bool = True,
    external: External = None,
    offers: bool | None = None,
    actor: str | None = None,
    roles: Sequence[str] = (),
    policy: str | os.PathLike[str] | None = None,
    guarded: bool = False,
) -> Lake:
    """Open a lake: a local path, `file://`, `memory://`, `s3://`, `gs://` or `az://`.

    Credentials come from the environment or from `storage_options`. A read-only lake writes nothing, ever. With
    `backfill=False` plain Lance readers see new commits only after `lake.backfill()`. Tables that were registered
    outside the lake's folder are written, by this handle's transactions and its backfill, only where `external` says
    so: a list of locations, with all below them, or "allow". Transactions that keep losing to other processes hand
    their commits over, and take those of others along, unless `offers=False` or `QUIRE_OFFERS=0` says otherwise.

    With an `actor` and its `roles` the handle does what the policy of the lake allows this actor, or what another
    `policy` does; its commits are by the actor. Without an actor nobody is held to anything: whoever has the store's
    credentials has the lake. A `guarded` handle is closed until `acting` names somebody.
    """
    with opening("open", uri, branch) as it:
        with phase("format"):
            core = Core.open(uri, storage_options, read_only=read_only, author=author, external=external, offers=offers)
        with phase("log"):
            live = open_branch(core, branch)
        it.found(core, live.state)
    background = Background()
    if backfill and not read_only and live.is_main and live.pending():
        background.submit(("recover", live.name), lambda: recover(live, every=False))
    lake = Lake(core, live, background, backfill, it.cost)
    if actor is None and policy is None and not roles and not guarded:
        return lake
    who = NOBODY if actor is None else Who.of(actor, roles)
    module = provided("guard")
    return governed(lake, module.PolicyGuard(core, module.document(policy)), who)


@checked
def create(
    uri: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    author: str | None = None,
    backfill: bool = True,
    exist_ok: bool = False,
    ledger: Literal["log", "manifest"] = "log",
    external: External = None,
    offers: bool | None = None,
) -> Lake:
    """Make a new lake, after proving that the store honours create-if-absent.

    With `exist_ok` an existing one is opened, as by `open`. The `ledger` is the log of objects, or a single Lance table
    that plain clients can look into (`_quire/__manifest.lance`), at a higher price per commit.
    `offers` is as in `open`.
    """
    try:
        with opening("open", uri, MAIN) as it:
            with phase("create"):
                core = make(uri, storage_options, author=author, ledger=ledger, external=external, offers=offers)
            live = LiveBranch(core, MAIN, Line(branch=core.about.main), None, None, core.born)
            it.found(core, live.state)
    except LakeExists:
        if not exist_ok:
            raise
        return open(
            uri, storage_options=storage_options, author=author, backfill=backfill, external=external, offers=offers
        )
    return Lake(core, live, Background(), backfill, it.cost)


def make(
    uri: str | os.PathLike[str],
    options: Mapping[str, str] | None = None,
    *,
    author: str | None = None,
    ledger: str = "log",
    external: External = None,
    offers: bool | None = None,
) -> Core:
    """Prove that the store honours create-if-absent, write slot 0, then the file that makes it a lake."""
    by = record_values.author(author or default_author())
    if ledger not in LEDGERS:
        raise InvalidInput(f"{ledger!r} is not a kind of ledger.", next=f"Use one of {', '.join(LEDGERS)}.")
    store = Store.open(uri, options)
    store.reach = Reach(parse(uri), external)
    if store.get_or_none(FORMAT_KEY) is not None:
        raise _exists(store)
    _refuse_inside(store)
    if holds_commits(store):
        # Another process may have made this lake, and have committed to it, since the look above.
        raise without_format(store) if store.get_or_none(FORMAT_KEY) is None else _exists(store)
    probe(store)
    now = record_time.now(store)
    about = FormatFile(format=FORMAT, lake=new_id(), main=new_id(), ledger=ledger, created=now)
    first = Record(
        format=FORMAT,
        branch=about.main,
        slot=0,
        write=new_id(),
        previous="",
        time=now,
        kind="genesis",
        commits=(Commit(write=new_id(), time=now, author=by, message="create lake"),),
    )
    if not begin_log(ledger_of(store, about), first):
        raise StorageError(f"The first slot of {store.uri} could not be written.", next="Try again.", uri=store.uri)
    body = encode(about)
    created = store.create(FORMAT_KEY, body, mine=lambda found: found == body)
    if created.outcome is Outcome.CONFLICT:
        if ledger == "log":
            store.delete(slot_key(about.main, 0))
        raise _exists(store)
    if created.outcome is Outcome.UNKNOWN:
        raise CommitUnknown(
            f"The store did not confirm that the lake at {store.uri} was created.",
            next="Open it. If that fails, create it again.",
            uri=store.uri,
        )
    core = Core(store, about, read_only=False, author=author, offers=offers)
    store.bind(FORMAT_KEY, body)
    core.born = genesis(first)
    return core


def _refuse_inside(store: Store) -> None:
    """A lake in the folder of another would be taken for its tables, and its files for litter."""
    if not store.is_local:
        return
    for above in Path(store.uri).parents:
        if (above / FORMAT_KEY).is_file():
            raise InvalidInput(
                f"{store.uri} is inside the lake {above}.", next="Choose a folder outside that lake.", uri=store.uri
            )


def _exists(store: Store) -> LakeExists:
    return LakeExists(
        f"A lake already exists at {store.uri}.",
        next="Open it with quire.open, or pass exist_ok=True (`--exist-ok`).",
        uri=store.uri,
    )
