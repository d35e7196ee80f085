"""What rows keep or break together, when they are too many for one task: unique values, ends of edges, cardinality,
orphans, as joins of frames. The driver hears what is wrong, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quire.formats import task_table
from quire.formats.tasks import key_schema
from quire.graph.catalog import Entity
from quire.graph.integrity import violations
from quire.graph.integrity.distributed import Sent, Type
from quire.graph.integrity.violations import Violation, Violations
from quire.spark import shuffled_keys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def ask_all(spark: SparkSession, sent: Sent, found: Violations) -> None:
    """Add what is wrong with the rows of all changed types together, as `quire.graph.integrity.set_rules` does here."""
    _Shuffled(spark, sent, found).ask_all()


@dataclass
class _Shuffled:
    """The questions as joins of frames. Rows are told in the order in which they came.

    What has to do with rows that are alike is asked of their hashes first, and ends of edges without the edges: mostly
    that proves that nothing is wrong, and nobody has to find out where.
    """

    spark: SparkSession
    sent: Sent
    found: Violations

    def ask_all(self) -> None:
        catalog, types = self.sent.catalog, self.sent.types
        changed = [types[id] for id in self.sent.changed]
        for one in changed:
            if one.came:
                for names in one.entity.defined.unique:
                    self._unique(one, names)
            if one.entity.kind == "edge":
                if one.came:
                    self._end(one, "src", types[catalog.source(one.entity).id])
                    self._end(one, "dst", types[catalog.target(one.entity).id])
                    self._at_most(one)
            elif one.gone:
                for edge, end in catalog.touching(one.entity):
                    self._orphans(one, types[edge.id], end)
        for edge in catalog.edges:
            if edge.defined.at_least and {edge.id, edge.defined.source} & set(self.sent.changed):
                self._at_least(types[edge.id], types[edge.defined.source])

    # -- rows -------------------------------------------------------------------------------------------------

    def _came(self, one: Type, columns: Sequence[str], names: Sequence[str]) -> DataFrame:
        return shuffled_keys.table(self.spark, one.now, one.came, columns, names)

    def _kept(self, one: Type, columns: Sequence[str], names: Sequence[str]) -> DataFrame:
        return shuffled_keys.table(self.spark, one.now, one.kept, columns, names).drop(shuffled_keys.AT)

    def _now(self, one: Type, columns: Sequence[str], names: Sequence[str]) -> DataFrame:
        return shuffled_keys.table(self.spark, one.now, one.parts, columns, names)

    def _gone(self, one: Type, column: str, name: str) -> DataFrame:
        base, now, numbers = one.base, one.now, [number for number, _ in one.gone]
        assert base is not None
        schema = key_schema(base, [column])
        made = shuffled_keys.rows(
            self.spark, len(numbers), schema, lambda n: task_table(base).gone_rows(now, numbers[n], [column])
        )
        return made.toDF(name)

    def _tell(self, bad: DataFrame, order: str, told: Callable[[dict[str, Any]], Violation]) -> None:
        count, rows = shuffled_keys.collected(bad, order, self.found.room)
        self.found.add([] if rows is None else [told(row) for row in rows.to_pylist()], count)

    # -- rules ------------------------------------------------------------------------------------------------

    def _counted(self, one: Type, columns: Sequence[str], keys: Sequence[str]) -> DataFrame:
        """Values of rows that came, with the number of all rows that have them, and the last that came with them."""
        from pyspark.sql import functions as f

        at = f.col(shuffled_keys.AT)
        came = self._came(one, [*columns, "id"], [*keys, "id"]).dropna(subset=list(keys))
        new = came.groupBy(*keys).agg(
            f.count(f.lit(1)).alias("n"), f.max_by("id", at).alias("id"), f.min(at).alias("at")
        )
        if not one.kept:
            return new
        old = self._kept(one, columns, keys).groupBy(*keys).agg(f.count(f.lit(1)).alias("m"))
        both = new.join(old, list(keys), "left")
        return both.select(*keys, (f.col("n") + f.coalesce(f.col("m"), f.lit(0))).alias("n"), "id", "at")

    def _alike(self, one: Type, columns: Sequence[str], most: int) -> bool:
        """Whether more rows than so many may have the same values in columns, one of them a row that came."""
        from pyspark.sql import functions as f

        found = shuffled_keys.hashes(self.spark, one.now, one.came, columns, "h").select("h", f.lit(1).alias("n"))
        if one.kept:
            kept = shuffled_keys.hashes(self.spark, one.now, one.kept, columns, "h").select("h", f.lit(0).alias("n"))
            found = found.union(kept)
        counted = found.groupBy("h").agg(f.count(f.lit(1)).alias("all"), f.sum("n").alias("came"))
        return bool(counted.where((f.col("all") > most) & (f.col("came") > 0)).limit(1).count())

    def _unique(self, one: Type, names: Sequence[str]) -> None:
        import pyarrow as pa

        entity, columns = one.entity, one.entity.columns(names)
        if not self._alike(one, columns, 1):
            return
        keys = [f"k{i}" for i in range(len(columns))]
        kinds = [one_field.type for one_field in key_schema(one.now, columns)]

        def told(row: dict[str, Any]) -> Violation:
            values = [pa.scalar(row[k]).cast(kind).as_py() for k, kind in zip(keys, kinds, strict=True)]
            return violations.not_unique(entity, names, values, row["id"])

        self._tell(self._counted(one, columns, keys).where("n > 1"), "at", told)

    def _end(self, one: Type, end: str, node: Type) -> None:
        nodes = self._now(node, ["id"], ["k0"]).select("k0")
        ends = shuffled_keys.distinct(self.spark, one.now, one.came, end, "k0")
        if not ends.join(nodes, "k0", "left_anti").limit(1).count():
            return
        edges = self._came(one, ["id", end], ["id", "k0"])
        edge, at = one.entity, node.entity
        self._tell(
            edges.join(nodes, "k0", "left_anti"),
            shuffled_keys.AT,
            lambda row: violations.no_end(edge, end, at, row["id"], row["k0"]),
        )

    def _at_most(self, one: Type) -> None:
        edge, most = one.entity, one.entity.defined.at_most
        if most is None or not self._alike(one, ["src"], most):
            return
        bad = self._counted(one, ["src"], ["k0"]).where(f"n > {int(most)}")
        self._tell(bad, "at", lambda row: violations.too_many(edge, row["k0"], row["n"], row["id"]))

    def _orphans(self, one: Type, edge: Type, end: str) -> None:
        gone = self._gone(one, "id", "k0").distinct()
        if one.came:
            gone = gone.join(self._came(one, ["id"], ["k0"]).select("k0"), "k0", "left_anti")
        edges = self._now(edge, ["id", end], ["id", "k0"])
        node, kind = one.entity, edge.entity
        self._tell(
            edges.join(gone, "k0"),
            shuffled_keys.AT,
            lambda row: violations.left_behind(kind, end, node, row["id"], row["k0"]),
        )

    def _at_least(self, edge: Type, source: Type) -> None:
        from pyspark.sql import functions as f

        changed, least = set(self.sent.changed), edge.entity.defined.at_least
        wanted = []
        if source.entity.id in changed and source.came:
            wanted.append(self._came(source, ["id"], ["k0"]).select("k0"))
        if edge.entity.id in changed and edge.gone:
            wanted.append(self._gone(edge, "src", "k0"))
        if not wanted:
            return
        asked = wanted[0] if len(wanted) == 1 else wanted[0].union(wanted[1])
        there = asked.distinct().join(self._now(source, ["id"], ["k0"]).select("k0"), "k0", "left_semi")
        counted = self._now(edge, ["src"], ["k0"]).groupBy("k0").agg(f.count(f.lit(1)).alias("n"))
        bad = there.join(counted, "k0", "left").select("k0", f.coalesce(f.col("n"), f.lit(0)).alias("n"))
        self._tell(bad.where(f"n < {int(least)}"), "k0", lambda row: _few(edge.entity, source.entity, row))


def _few(edge: Entity, node: Entity, row: dict[str, Any]) -> Violation:
    return violations.too_few(edge, node, row["k0"], row["n"])
