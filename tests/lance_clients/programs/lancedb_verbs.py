"""Every verb of a plain LanceDB, sync, async and remote, through a namespace at an address. Knows nothing of Quire."""

import asyncio
import sys

import lancedb
import pyarrow as pa

uri, how = sys.argv[1:3]


def docs(*ids, text="new"):
    return pa.table({"id": pa.array(ids, pa.int64()), "text": [f"{text} {n}" for n in ids]})


def sync(db, *, remote):
    table = db.open_table("docs")
    table.add(docs(10, 11))
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(docs(3, 9, text="merged"))
    table.update(where="id = 0", values={"text": "changed"})
    table.delete("id = 1")
    if remote:
        table.create_index("id", config=lancedb.index.BTree())
        table.drop_index("id_idx")
    else:
        table.create_scalar_index("id", index_type="BTREE")
    table.add_columns({"twice": "id * 2"})
    table.alter_columns({"path": "twice", "rename": "double"})
    table.drop_columns(["double"])
    assert table.count_rows() == 6
    assert sorted(row["id"] for row in table.search().limit(100).to_list()) == [0, 2, 3, 9, 10, 11]
    made = db.create_table("made", docs(1))
    made.add(docs(2))
    assert made.count_rows() == 2
    db.create_table("written", docs(4, 5, 6)).add(docs(5), mode="overwrite")
    db.create_table("gone", docs(1))
    db.drop_table("gone")
    assert sorted(db.list_tables().tables) == ["docs", "made", "people", "written"]


async def asynchronous():
    db = lancedb.connect_namespace_async("rest", {"uri": uri})
    db = await db if asyncio.iscoroutine(db) else db
    table = await db.open_table("docs")
    await table.add(docs(10, 11))
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    await merge.execute(docs(3, 9, text="merged"))
    await table.update(where="id = 0", updates={"text": "changed"})
    await table.delete("id = 1")
    await table.create_index("id", config=lancedb.index.BTree())
    await table.add_columns({"twice": "id * 2"})
    await table.alter_columns({"path": "twice", "rename": "double"})
    await table.drop_columns(["double"])
    assert await table.count_rows() == 6
    made = await db.create_table("made", docs(1))
    await made.add(docs(2))
    written = await db.create_table("written", docs(4, 5, 6))
    await written.add(docs(5), mode="overwrite")


if how == "sync":
    sync(lancedb.connect_namespace("rest", {"uri": uri}), remote=False)
elif how == "remote":
    sync(lancedb.connect("db://demo", api_key="any", host_override=uri), remote=True)
else:
    asyncio.run(asynchronous())
print("done")
