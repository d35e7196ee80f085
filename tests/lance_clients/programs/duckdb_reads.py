"""DuckDB's Lance extension: what it reads through a namespace at an address, and one write. Knows nothing of Quire."""

import sys
from pathlib import Path

import duckdb
import duckdb_extension_lance

uri = sys.argv[1]
(extension,) = Path(duckdb_extension_lance.__file__).parent.glob("extensions/*/lance.duckdb_extension")
con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
con.execute(f"LOAD '{extension}'")
con.execute(f"ATTACH '$' AS shop (TYPE LANCE, ENDPOINT '{uri}')")
con.execute(f"ATTACH 'search' AS search (TYPE LANCE, ENDPOINT '{uri}')")


def rows(query):
    return con.execute(query).fetchall()


assert sorted(row[2] for row in rows("SHOW ALL TABLES")) == ["docs", "notes", "people"]
assert rows("SELECT id FROM shop.main.docs WHERE id > 1 ORDER BY id") == [(2,), (3,)]
assert rows("SELECT text, name FROM shop.main.docs JOIN shop.main.people USING (id) WHERE id = 2") == [
    ("text 2", "name 2")
]
assert rows("SELECT count(*) FROM search.main.notes") == [(1,)]
if sys.argv[2] == "write":
    con.execute("INSERT INTO shop.main.docs VALUES (10, 'new 10')")  # commits past the namespace
    told = ""
    try:
        rows("SELECT * FROM shop.main.docs")
    except duckdb.Error as error:
        told = str(error)
    assert "quire adopt" in told, "it was not refused"
print("done")
