"""Which column of a table a column of a frame is, by Spark's rule: case does not count unless it is told so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quire.errors import SchemaMismatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_case_sensitive(spark: SparkSession) -> bool:
    """What a session says, as `spark.sql.caseSensitive`."""
    return str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"


def resolved(given: Sequence[str], known: Sequence[str], table: str, *, case_sensitive: bool) -> list[str]:
    """The names of a frame's columns as the table has them; a name that it has not stays as it is.

    A column of exactly that name is meant before one that differs in case. Two columns of the frame for one of the
    table are `SchemaMismatch`.
    """
    exact = set(known)
    folded: dict[str, list[str]] = {}
    for name in known if not case_sensitive else ():
        folded.setdefault(name.lower(), []).append(name)
    found = []
    for name in given:
        near = folded.get(name.lower(), [])
        found.append(near[0] if name not in exact and len(near) == 1 else name)
    for name in dict.fromkeys(found):
        mine = [one for one, meant in zip(given, found, strict=True) if meant == name]
        if len(mine) > 1:
            raise SchemaMismatch(
                f"Columns {', '.join(map(repr, mine))} of the frame are all column {name!r} of table {table!r}.",
                next="Drop all but one, or rename them.",
                table=table,
                column=name,
            )
    return found
