"""Every verb of a plain pylance, through a namespace at an address. Knows nothing of Quire."""

import sys

import lance
import lance_namespace as spec
import pyarrow as pa

uri = sys.argv[1]
main = sys.argv[2] == "main"
namespace = spec.connect("rest", {"uri": uri})


def docs(*ids, text="new"):
    return pa.table({"id": pa.array(ids, pa.int64()), "text": [f"{text} {n}" for n in ids]})


def opened(name="docs", **more):
    return lance.dataset(namespace_client=namespace, table_id=[name], **more)


dataset = opened()
first = dataset.version
dataset.insert(docs(10, 11))
dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(docs(3, 9, text="merged"))
dataset.update({"text": "'changed'"}, where="id = 0")
dataset.delete("id = 1")
dataset.create_scalar_index("id", "BTREE")
dataset.add_columns({"twice": "id * 2"})
dataset.alter_columns({"path": "twice", "name": "double"})
dataset.drop_columns(["double"])
assert sorted(dataset.to_table()["id"].to_pylist()) == [0, 2, 3, 9, 10, 11]
assert opened(version=first).count_rows() == 4

made = lance.write_dataset(docs(1), namespace_client=namespace, table_id=["made"])
made.insert(docs(2))
assert opened("made").count_rows() == 2
lance.write_dataset(docs(7, 8), namespace_client=namespace, table_id=["made"], mode="append")
lance.write_dataset(docs(4, 5, 6), namespace_client=namespace, table_id=["written"], mode="create")
lance.write_dataset(docs(5), namespace_client=namespace, table_id=["written"], mode="overwrite")

if main:
    stale, other = opened("made"), opened("made")
    other.insert(docs(20))
    stale.insert(docs(21))
    stale.delete("id = 20")
    before = dataset.version
    dataset.delete("true")
    opened(version=before).restore()
    if int(lance.__version__.split(".")[0]) >= 13:  # older ones repeat what is refused for minutes
        refused = False
        try:
            opened().optimize.compact_files(target_rows_per_fragment=1000)
        except Exception:
            refused = True
        assert refused
print("done")
