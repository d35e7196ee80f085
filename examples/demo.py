"""A tour of Quire on local disk: `make demo`, or `python examples/demo.py [DIRECTORY]`.

It makes a lake in ./demo-lake (removed and made again at each run), and prints what it does and what came of it.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

import quire

# Two handles that backfill one table at once make Lance warn on stderr; nothing is wrong, and one of them wins.
os.environ.setdefault("LANCE_LOG", "error")

console = Console(highlight=False, soft_wrap=True)
steps = iter(range(1, 100))


def step(title: str) -> None:
    console.print(f"\n[bold cyan]{next(steps)}. {escape(title)}[/]")


def say(text: str) -> None:
    console.print(f"   {escape(text)}")


def code(text: str) -> None:
    for line in text.splitlines():
        console.print(f"   [dim]>[/] [green]{escape(line)}[/]")


def grid(rows: list[dict[str, Any]]) -> None:
    shown = Grid(box=None, pad_edge=False, header_style="bold")
    for name in rows[0]:
        shown.add_column(name)
    for row in rows:
        shown.add_row(*(escape(str(value)) for value in row.values()))
    with console.capture() as capture:
        console.print(shown)
    for line in capture.get().splitlines():
        print(f"   {line.rstrip()}")


def log(lake: quire.Lake) -> None:
    grid(
        [
            {"commit": c.id, "author": c.author, "message": c.message, "tables": ", ".join(c.tables)}
            for c in lake.log(limit=10)
        ]
    )


def one_commit(place: Path) -> quire.Lake:
    step("Three tables, one commit")
    code('lake = quire.create("demo-lake", author="ada")')
    lake = quire.create(place, author="ada")
    code(
        'with lake.transaction("first import") as tx:\n'
        '    tx.create_table("documents", documents, key="doc_id")\n'
        '    tx.create_table("chunks", chunks)\n'
        '    tx.create_table("authors", authors, key="author")'
    )
    with lake.transaction("first import") as tx:
        tx.create_table(
            "documents",
            [
                {"doc_id": 1, "title": "On lakes", "author": "Ada"},
                {"doc_id": 2, "title": "On rivers", "author": "Bo"},
            ],
            key="doc_id",
        )
        tx.create_table(
            "chunks",
            pa.table(
                {"doc_id": [1, 1, 2], "text": ["A lake holds still.", "It is deep.", "A river does not."]},
            ),
        )
        tx.create_table("authors", {"author": ["Ada", "Bo"], "city": ["London", "Oslo"]}, key="author")
    say(f"committed {tx.receipt.commit}: {', '.join(tx.receipt.tables)}. No reader saw one table without the others.")
    return lake


def more_commits(lake: quire.Lake) -> None:
    step("Several statements on two tables, one commit")
    code(
        'with lake.transaction("second import") as tx:\n'
        '    tx["documents"].upsert([{"doc_id": 2, "title": "On big rivers", "author": "Bo"}])\n'
        '    tx["documents"].insert([{"doc_id": 3, "title": "On ponds", "author": "Ada"}])\n'
        '    tx["chunks"].delete("doc_id = 1 and text like \'It is%\'")\n'
        '    tx["chunks"].append([{"doc_id": 3, "text": "A pond is small."}])'
    )
    with lake.transaction("second import") as tx:
        tx["documents"].upsert([{"doc_id": 2, "title": "On big rivers", "author": "Bo"}])
        tx["documents"].insert([{"doc_id": 3, "title": "On ponds", "author": "Ada"}])
        tx["chunks"].delete("doc_id = 1 and text like 'It is%'")
        tx["chunks"].append([{"doc_id": 3, "text": "A pond is small."}])
        say(f"inside the transaction: {tx['documents'].count()} documents; outside, still {lake['documents'].count()}")
    for name, did in tx.receipt.tables.items():
        say(f"{name}: {', '.join(did.ops)}; {did.added} rows added, {did.removed} removed; version {did.version}")
    log(lake)


def join(lake: quire.Lake) -> None:
    step("SQL over one snapshot")
    query = (
        "select title, city, count(*) as chunks from documents join chunks using (doc_id) join authors using (author) "
        "group by all order by title"
    )
    code(f'lake.snapshot().sql("{query}")')
    grid(lake.snapshot().sql(query).to_pylist())


def rollback(lake: quire.Lake) -> None:
    step("Rollback: an exception leaves nothing")
    before = lake.head
    code(
        'with lake.transaction("goes wrong") as tx:\n'
        '    tx["documents"].delete("true")\n'
        '    raise RuntimeError("the second half failed")'
    )
    try:
        with lake.transaction("goes wrong") as tx:
            tx["documents"].delete("true")
            say(f"inside: {tx['documents'].count()} documents")
            raise RuntimeError("the second half failed")
    except RuntimeError:
        say(f"outside: {lake['documents'].count()} documents, and the head is still {lake.refresh()}")
    assert lake.head == before

    step("Revert: undo a commit by a new one")
    with lake.transaction("a mistake") as tx:
        tx["documents"].update({"title": "upper(title)"})
        tx["authors"].delete("author = 'Bo'")
    assert tx.receipt.commit is not None
    say(f"{tx.receipt.commit} is a mistake in two tables: {[r['title'] for r in lake['documents'].to_pylist()]}")
    code(f'lake.revert("{tx.receipt.commit}")')
    undone = lake.revert(tx.receipt.commit)
    say(f"{undone.commit} undid it: {[r['title'] for r in lake['documents'].to_pylist()]}")


def conflict(lake: quire.Lake, place: Path) -> None:
    step("A conflict: two writers, one key")
    other = quire.open(place, author="bob")
    mine = lake.transaction("ada's document 4")
    mine["documents"].insert([{"doc_id": 4, "title": "On seas", "author": "Ada"}])
    with other.transaction("bob's document 4") as theirs:
        theirs["documents"].insert([{"doc_id": 4, "title": "On oceans", "author": "Bo"}])
    say("ada and bob both insert doc_id 4; bob commits first; then ada commits:")
    try:
        mine.commit()
    except quire.KeyConflict as error:
        say(f"{type(error).__name__}: {error}")

    step("No conflict: two writers, different keys")
    mine = lake.transaction("ada's document 5")
    mine["documents"].insert([{"doc_id": 5, "title": "On seas", "author": "Ada"}])
    with other.transaction("bob's document 6") as theirs:
        theirs["documents"].insert([{"doc_id": 6, "title": "On springs", "author": "Bo"}])
    say("ada inserts doc_id 5, bob inserts doc_id 6; bob commits first; then ada commits:")
    receipt = mine.commit()
    say(
        f"committed {receipt.commit} at attempt {receipt.attempts}: {receipt.rebased} table rebased onto bob's commit,"
        " no data file written again"
    )
    say(f"doc_ids: {sorted(r['doc_id'] for r in lake['documents'].to_pylist())}")
    other.close()


def time_travel(lake: quire.Lake) -> None:
    step("Time travel and branches")
    code('lake.at(commit="1.0"), lake.tag("first", at="1.0"), lake.create_branch("trial")')
    say(f"documents at 1.0: {lake.at(commit='1.0')['documents'].count()}; now: {lake['documents'].count()}")
    lake.tag("first", at="1.0")
    trial = lake.create_branch("trial")
    with trial.transaction("try something") as tx:
        tx["documents"].delete("doc_id > 1")
    say(
        f"on branch trial: {trial['documents'].count()} document; on main: {lake['documents'].count()};"
        f" at tag first: {lake.at(tag='first')['documents'].count()}"
    )


def plain_readers(lake: quire.Lake, place: Path) -> None:
    import lance

    step("What plain Lance sees")
    lake.flush()
    lake.backfill()
    location = lake["documents"].describe()["location"]
    code(f'lance.dataset("demo-lake/{location}").count_rows()')
    say(
        f"{lance.dataset(str(place / location)).count_rows()} rows: after backfill a table is an ordinary Lance dataset"
    )


def cost(place: Path) -> None:
    step("What a commit costs")
    # A handle of its own: after a lost race one looks for a second whether somebody waits, with one request more.
    lake = quire.open(place, author="ada")
    lake.flush()
    with lake.transaction("measured") as tx:
        tx["chunks"].append([{"doc_id": 5, "text": "A sea is salt."}])
        tx.create_table("notes", schema=pa.schema({"text": pa.string()}))
    lake.flush()
    with lake.transaction("measured") as tx:
        tx["chunks"].append([{"doc_id": 6, "text": "A spring is cold."}])
        tx["notes"].append([{"text": "two tables"}])
    spent = tx.receipt.cost
    code("tx.receipt.cost")
    say(
        f"an append to two tables: {spent['total']} request by Quire {spent['requests']}, {spent['external']['lance']}"
        f" by Lance, {spent['hops']} of them one after another"
    )


def main(place: Path) -> None:
    if (place / "_quire").is_dir():
        shutil.rmtree(place)
    lake = one_commit(place)
    more_commits(lake)
    join(lake)
    rollback(lake)
    conflict(lake, place)
    time_travel(lake)
    plain_readers(lake, place)
    lake.flush()
    cost(place)
    step("The whole log")
    log(lake)
    lake.close()
    command = Path(sys.executable).with_name("quire")
    if command.is_relative_to(Path.cwd()):
        command = command.relative_to(Path.cwd())
    console.print(f"\nThe lake stays in [bold]{escape(str(place))}[/]. Look around:")
    code(f"{command} log {place}\n{command} --help")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-lake"))
