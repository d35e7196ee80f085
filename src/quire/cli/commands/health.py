"""Plain readers and writers, the data and the environment: backfill, adopt, verify, doctor."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

import quire
from quire.cli.commands.history import offers_told
from quire.cli.commands.tables import TableName
from quire.cli.options import EngineOption, MasterOption, Session, command, running
from quire.errors import CorruptRecord, ForeignWriter, InvalidInput, QuireError, Refused, Unsupported
from quire.lake.handles import store_of
from quire.lake.upkeep.repair import Repaired
from quire.store import Store, is_outside, probe
from quire.store.client_rights import tried

PACKAGES = ("quire", "pylance", "pyarrow", "duckdb", "obstore", "msgspec", "pandas", "polars", "lancedb")
VARIABLES = ("QUIRE_", "AWS_", "GOOGLE_", "AZURE_", "LANCE_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
SHOWN = ("lake", "head", "tables", "pending_backfill", "offers", "background_failures")
"""What the doctor repeats of a lake's status."""
NOT_OF_THE_STORE = ("expires_at_millis", "refresh_offset_millis")
"""What clients are told beside settings of the store."""
MAINTENANCE = (
    "Lance's own cleanup and compaction do not see staged versions and destroy them: "
    "never run them, or auto-cleanup, on the tables of a lake."
)


@command("backfill", branch=False, writes=True)
def backfill(session: Session) -> None:
    """Bring plain Lance readers up to date. Moves the plain HEAD of every table to its published state."""
    with session.write(backfill=False) as lake:
        done = lake.backfill()
    found = [dataclasses.asdict(p) for p in sorted(done, key=lambda p: p.table)]
    foreign = [p["table"] for p in found if p["outcome"] == "foreign"]
    behind = [p["table"] for p in found if p["outcome"] in ("behind", "blocked")]
    shown = [p for p in found if p["outcome"] != "current"]
    if not session.output.as_json:
        if shown:
            session.output.table(
                ("table", "outcome", "version", "detail"),
                [(p["table"], p["outcome"], p["version"], p["detail"]) for p in shown],
            )
        else:
            session.output.line("nothing to backfill")
    if foreign:
        raise ForeignWriter(
            f"A plain Lance client wrote to {', '.join(foreign)}; that is not overwritten.",
            next=f"Take it into the lake: quire adopt LAKE {foreign[0]}",
            tables=found,
        )
    if behind:
        raise QuireError(
            f"These tables are still behind: {', '.join(behind)}.",
            next="Run it again; for a table that cleans up after itself, `quire doctor` names the settings.",
            retryable=True,
            tables=found,
        )
    if session.output.as_json:
        session.output.document({"tables": found})


@command("repair", branch=False, here="it is for lakes that cannot be opened")
def repair(
    session: Session,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be repaired and write nothing.")] = False,
) -> None:
    """Repair a lake that cannot be opened. Replaces invalid values that an earlier version wrote. Loses no commit."""
    done = quire.repair(session.uri, storage_options=session.storage, dry_run=dry_run)
    lost = [found.object for found in done.repairs if not found.repaired]
    if session.output.as_json and not lost:
        session.output.document(done.to_dict())
    elif not session.output.as_json:
        _repaired(session, done)
    if lost:
        raise CorruptRecord(
            f"These objects are damaged and cannot be repaired: {', '.join(lost[:5])}{' …' if len(lost) > 5 else ''}.",
            next="Restore them from a backup or another copy of the lake.",
            **done.to_dict(),
        )


def _repaired(session: Session, done: Repaired) -> None:
    rows = [
        (found.object, at, was, now)
        for found in done.repairs
        if found.repaired
        for at, (was, now) in found.changes.items()
    ]
    if rows:
        session.output.table(("object", "value", "stored", "would be read as" if done.dry_run else "read as"), rows)
    said = f"{done.looked} objects, {len([f for f in done.repairs if f.repaired])} "
    said += "to be repaired" if done.dry_run else "repaired"
    session.output.line(said + (f", {done.earlier} repaired before" if done.earlier else ""))


@command("adopt", branch=False, writes=True, here="it is for whoever writes to the storage directly")
def adopt(session: Session, table: TableName) -> None:
    """Commit what a plain Lance client wrote to a table. If it conflicts, it goes to a branch of its own."""
    with session.write() as lake:
        done = lake.adopt(table)
    if session.output.as_json:
        session.output.document(done.to_dict())
    elif done.commit is None:
        session.output.line(f"nothing to adopt: {table} was written by Quire alone")
    elif done.branch != lake.branch_name:
        session.output.line(
            f"not combined with the lake's own commits: {table} as the plain client left it is kept as commit"
            f" {done.commit} of branch {done.branch}; the rows of {lake.branch_name} stay as they are"
        )
        session.output.line(f"compare them with: quire diff LAKE {lake.branch_name} {done.branch}")
    else:
        session.output.line(f"adopted as {done.commit} on {done.branch}: {', '.join(done.details or done.ops)}")


@command("take-over", branch=False, writes=True, here="it is about tables that lie outside the lake")
def take_over(session: Session, table: TableName) -> None:
    """Make this lake the owner of a registered table. For a lake that was moved, or when the former owner is gone."""
    with session.write(backfill=False) as lake:
        lake.take_over(table)
        uri = lake.uri
    if session.output.as_json:
        session.output.document({"table": table, "owner": uri})
    else:
        session.output.line(f"{table} belongs to {uri} now")


@command("verify", branch=False)
def verify(
    session: Session,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep",
            help="Also read every data file and look for repeated keys. Takes as long as reading the lake.",
        ),
    ] = False,
    engine: EngineOption = None,
    master: MasterOption = None,
) -> None:
    """Check all data of the lake. Reads records, checkpoints, pinned files and plain heads; exits 1 on damage."""
    with (
        session.read() as lake,
        running(engine, master, lambda: lake.status()["bytes"]) as who,
        session.output.progress("verify", unit="checked") as progress,
    ):
        found = lake.verify(progress, deep=deep, engine=who)
    if session.output.as_json:
        session.output.document(found.to_dict())
    else:
        counts = found.to_dict()
        names = ("branches", "records", "checkpoints", "tombstones", "pins", "files", "bytes", "read")
        session.output.fields([(name, counts[name]) for name in names if name != "read" or deep])
        for finding in found.findings:
            session.output.line(f"wrong: {finding.where}: {finding.message}")
        session.output.line("nothing is wrong" if found.ok else f"{len(found.findings)} thing(s) wrong")
    if not found.ok:
        raise typer.Exit(1)


@dataclasses.dataclass
class Examination:
    """What the doctor found: facts to show, and problems, each with what to do about it."""

    facts: dict[str, Any] = dataclasses.field(default_factory=dict)
    problems: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def problem(self, what: str, error: QuireError) -> None:
        self.problems.append({"check": what, "kind": error.kind, "message": error.message, "next": error.next})


@command("doctor", branch=False, here="it examines this machine and its access to the storage")
def doctor(
    session: Session,
    probe: Annotated[
        bool,
        typer.Option("--probe", help="Also test create-if-absent on the store; writes and removes an object."),
    ] = False,
    client_options: Annotated[
        Path | None,
        typer.Option(
            "--client-options",
            metavar="FILE",
            help="Also test what a client could destroy that is told these settings of the store, one JSON object; "
            "writes and removes objects.",
        ),
    ] = None,
) -> None:
    """Check versions, settings, access and foreign writes. Exits 1 if it finds a problem."""
    found = Examination()
    found.facts.update(
        versions={name: v for name in PACKAGES if (v := _version(name))},
        python=platform.python_version(),
        platform=platform.platform(),
        variables=sorted(name for name in os.environ if name.startswith(VARIABLES)),
    )
    _examine_store(session, found, probe)
    _examine_lake(session, found)
    if client_options is not None:
        _examine_clients(session, found, client_options)
    if session.output.as_json:
        document = {"ok": not found.problems, **found.facts, "problems": found.problems, "notes": [MAINTENANCE]}
        session.output.document(document)
    else:
        _print(session, found)
    if found.problems:
        raise typer.Exit(1)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _examine_store(session: Session, found: Examination, prove: bool) -> None:
    try:
        store = Store.open(session.uri, session.storage)
        found.facts.update(store=store.scheme, uri=store.uri)
        if prove:
            probe(store)
            found.facts["create_if_absent"] = True
    except QuireError as error:
        found.problem("store", error)


def _examine_lake(session: Session, found: Examination) -> None:
    if "uri" not in found.facts:
        return
    try:
        with session.read() as lake:
            now = lake.status()
            found.facts.update(
                readable=True,
                **{name: now[name] for name in SHOWN},
                foreign=[{"table": p.table, "version": p.version} for p in lake.foreign()],
            )
            for link in store_of(lake).links():
                found.problem(
                    "links",
                    Refused(
                        f"{link} is a symbolic link: Quire neither lists, writes nor deletes what is behind it.",
                        next="Put the file or folder itself there; a table elsewhere can be registered where it lies.",
                    ),
                )
            snapshot = lake.snapshot()
            cleaning = {name: _cleaning(snapshot[name].describe()["config"]) for name in snapshot}
    except QuireError as error:
        found.facts.setdefault("readable", False)
        found.problem("lake", error)
        return
    for name, settings in cleaning.items():
        if settings:
            found.problem(
                "tables",
                Unsupported(
                    f"Table {name!r} deletes its own old versions ({', '.join(settings)}), which destroys commits.",
                    next="Remove these settings from the plain table with Lance's delete_config_keys, then adopt it.",
                ),
            )
    for write in found.facts["foreign"]:
        found.problem(
            "tables",
            ForeignWriter(
                f"Version {write['version']} of table {write['table']!r} was written by a plain Lance client.",
                next=f"Take it into the lake: quire adopt LAKE {write['table']}",
            ),
        )


def _examine_clients(session: Session, found: Examination, told: Path) -> None:
    """What a client that goes past the namespace could do with what it is told."""
    try:
        with session.read() as lake:
            store, snapshot = store_of(lake), lake.snapshot()
            places = (snapshot[name].describe()["location"] for name in snapshot)
            folder = next((place for place in places if not is_outside(place)), "tables/none.lance")
            rights = tried(Store.open(store.uri, _settings(told)), folder, store)
    except QuireError as error:
        found.problem("clients", error)
        return
    found.facts["client_rights"] = [right for right, has in dataclasses.asdict(rights).items() if has]
    for has, what, destroys in (
        (rights.deletes, "delete files of tables", "destroy versions that commits rest on, which nothing brings back"),
        (rights.moves, "put versions of tables", "commit past the lake, which stops the table until it is adopted"),
        (rights.records, "write the records of the lake", "destroy all of it"),
    ):
        if has:
            found.problem(
                "clients",
                Unsupported(
                    f"Clients may {what}: one that goes past the namespace can {destroys}.",
                    next="Tell clients sessions (lakes.NAME.sessions of the server), or keys with the policy of "
                    "docs/guides/lance-clients.md.",
                ),
            )


def _settings(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{str(path)!r} holds no JSON ({type(error).__name__}).", next="Write one object of settings into it."
        ) from None
    if not isinstance(found, dict):
        raise InvalidInput(f"{str(path)!r} holds no object.", next="Write one object of settings into it.")
    return {str(name): str(value) for name, value in found.items() if name not in NOT_OF_THE_STORE}


def _cleaning(config: dict[str, str]) -> list[str]:
    return sorted(key for key in config if key.startswith("lance.auto_cleanup"))


def _print(session: Session, found: Examination) -> None:
    output = session.output
    pairs: list[tuple[str, Any]] = []
    for name, value in found.facts.items():
        if name == "versions":
            pairs += list(value.items())
        elif name == "foreign":
            pairs.append(("foreign writes", ", ".join(w["table"] for w in value) or "none"))
        elif name == "offers":
            pairs.append((name, offers_told(value)))
        else:
            pairs.append((name.replace("_", " "), (", ".join(value) or "none") if isinstance(value, list) else value))
    output.fields(pairs)
    output.line("")
    output.line(MAINTENANCE)
    output.line("")
    for problem in found.problems:
        output.line(f"problem: {problem['message']}")
        if problem["next"]:
            output.line(f"  next:  {problem['next']}")
    output.line("no problem found" if not found.problems else f"{len(found.problems)} problem(s)")
