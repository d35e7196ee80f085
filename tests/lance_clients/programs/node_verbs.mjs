// Every verb of a plain LanceDB for Node, through a namespace at an address. Knows nothing of Quire.

import assert from "node:assert/strict";
import * as arrow from "apache-arrow";
import * as lancedb from "@lancedb/lancedb";

const [uri, how] = process.argv.slice(2);
const db =
  how === "remote"
    ? await lancedb.connect("db://demo", { apiKey: "any", hostOverride: uri })
    : await lancedb.connectNamespace("rest", { uri });

const schema = new arrow.Schema([
  new arrow.Field("id", new arrow.Int64(), true),
  new arrow.Field("text", new arrow.Utf8(), true),
]);
const docs = (ids, text = "new") =>
  lancedb.makeArrowTable(
    ids.map((n) => ({ id: BigInt(n), text: `${text} ${n}` })),
    { schema },
  );

const table = await db.openTable("docs");
await table.add(docs([10, 11]));
await table
  .mergeInsert("id")
  .whenMatchedUpdateAll()
  .whenNotMatchedInsertAll()
  .execute(docs([3, 9], "merged"));
await table.update({ where: "id = 0", values: { text: "changed" } });
await table.delete("id = 1");
await table.createIndex("id", { config: lancedb.Index.btree() });
await table.addColumns([{ name: "twice", valueSql: "id * 2" }]);
await table.alterColumns([{ path: "twice", rename: "double" }]);
await table.dropColumns(["double"]);
assert.equal(await table.countRows(), 6);
const found = await table.query().select(["id"]).limit(100).toArray();
assert.deepEqual(found.map((row) => Number(row.id)).sort((a, b) => a - b), [0, 2, 3, 9, 10, 11]);

const made = await db.createTable("made", docs([1]));
await made.add(docs([2]));
assert.equal(await made.countRows(), 2);
const written = await db.createTable("written", docs([4, 5, 6]));
await written.add(docs([5]), { mode: "overwrite" });
console.log("done");
