"""What is loaded: the same rows as Parquet, CSV and lines of JSON, and vectors; made by a rule, the same every time."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

FILES = 8
FLAT = pa.schema(
    [
        ("id", pa.int64()),
        ("a", pa.int64()),
        ("b", pa.float64()),
        ("c", pa.string()),
        ("d", pa.int32()),
        ("e", pa.string()),
    ]
)
SPARK_FLAT = "id long, a long, b double, c string, d int, e string"
VECTORS = pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float32(), 128))])


def flat(folder: Path, rows: int, *, text: bool) -> None:
    """Eight files of six columns; with `text` also as CSV and as lines of JSON."""
    for kind in ("parquet", "csv", "jsonl"):
        (folder / kind).mkdir(parents=True)
    random = np.random.default_rng(1)
    words = pa.array([f"word {i}" for i in range(1000)])
    for number in range(FILES):
        low, high = rows * number // FILES, rows * (number + 1) // FILES
        size = high - low
        columns = [
            np.arange(low, high),
            random.integers(0, 1 << 40, size),
            random.random(size),
            pa.DictionaryArray.from_arrays(random.integers(0, 1000, size), words).dictionary_decode(),
            random.integers(0, 100, size).astype(np.int32),
            pa.array(random.integers(0, 1 << 40, size)).cast(pa.string()),
        ]
        table = pa.Table.from_arrays([pa.array(c) for c in columns], schema=FLAT)
        pq.write_table(table, folder / "parquet" / f"part-{number}.parquet")
        if text:
            csv.write_csv(table, folder / "csv" / f"part-{number}.csv")
            with duckdb.connect() as connection:
                connection.register("t", table)
                connection.execute(f"copy t to '{folder / 'jsonl' / f'part-{number}.jsonl'}' (format json)")


def vectors(folder: Path, rows: int) -> None:
    folder.mkdir(parents=True)
    random = np.random.default_rng(1)
    for number in range(FILES):
        low, high = rows * number // FILES, rows * (number + 1) // FILES
        values = pa.array(random.random((high - low) * 128, np.float32))
        lists = pa.ListArray.from_arrays(np.arange(0, len(values) + 1, 128, dtype=np.int32), values)
        pq.write_table(pa.table({"id": np.arange(low, high), "v": lists}), folder / f"part-{number}.parquet")
