"""`.where().select()` over Spark Connect: scans are narrowed in the plan that a client is about to send.

A client cannot reach Spark's optimizer. But Spark asks a hook of the session about every request to execute a plan, and
there the same is done to the plan as it was written: a scan is made anew with the columns that are mentioned above it,
and the conditions that stand above it, as far as nothing between them changes rows or names. Filters stay where they
are, so a scan may give too many rows and never too few. Requests that only ask about a plan are sent as they are.

The text of a query over a view is the server's to read: its views show all columns. `quire.spark.sql` makes them anew
for each query, with the columns that it mentions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from quire.filters import Condition, columns, every
from quire.spark.connect_expressions import Names, implied, keeps_name, names_of, parts_of

if TYPE_CHECKING:
    from quire.spark.read import Scan

SETTING = "spark.quire.pushdown"
"""`false` leaves plans as they are."""

_log = logging.getLogger("quire.spark")


@dataclass(frozen=True)
class _Above:
    """What is known of all that stands above a relation."""

    names: Names | None = None
    """The columns that are mentioned; None for all."""
    without: Names = frozenset()
    """Columns that are dropped, where all others are wanted."""
    filters: tuple[Any, ...] = ()
    """Conditions that the rows must meet, as they are written."""

    def mentioning(self, *expressions: Any) -> _Above:
        """The same with what some expressions mention."""
        found = names_of(expressions)
        if found is None:
            return replace(self, names=None, without=frozenset())
        return replace(self, names=None if self.names is None else self.names | found, without=self.without - found)

    def named(self, *words: str) -> _Above:
        found = frozenset(word.lower() for word in words)
        return replace(self, names=None if self.names is None else self.names | found, without=self.without - found)

    def unfiltered(self) -> _Above:
        return replace(self, filters=())


_ALL = _Above()


class Hook:
    """Of a session: asked about every request to execute something."""

    def __init__(self, spark: Any, find: Callable[[str], Scan | None]) -> None:
        self.spark, self.find = spark, find

    def on_execute_plan(self, request: Any) -> Any:
        """The same request with narrower scans."""
        try:
            made = type(request)()
            made.CopyFrom(request)
            if _Walk(self.spark, self.find).over(made.plan) and self._is_on():
                return made
        except Exception as error:  # whatever it is, the plan as it stands gives the same rows
            _log.debug("A plan is sent as it is: %s", error)
        return request

    def _is_on(self) -> bool:
        return str(self.spark.conf.get(SETTING, "true")).lower() != "false"


def install(spark: Any, find: Callable[[str], Scan | None]) -> bool:
    """Give a session of Spark Connect the hook; whether it has it."""
    hooks = getattr(getattr(spark, "client", None), "_session_hooks", None)
    if not isinstance(hooks, list):
        return False
    if not any(isinstance(hook, Hook) for hook in hooks):
        hooks.append(Hook(spark, find))
    return True


@dataclass
class _Walk:
    spark: Any
    find: Callable[[str], Any]
    narrowed: int = 0

    def over(self, message: Any) -> int:
        """Narrow the scans in a plan; how many."""
        if message.DESCRIPTOR.name == "Relation":
            self.relation(message, _ALL)
        else:
            for part in parts_of(message):
                self.over(part)
        return self.narrowed

    def relation(self, relation: Any, above: _Above) -> None:
        kind = relation.WhichOneof("rel_type")
        if not kind:
            return
        inner: Any = getattr(relation, kind)
        if kind == "map_partitions" and (scan := self.find(inner.func.function_name)) is not None:
            self._scan(relation, scan, above)
            return
        goes_on = getattr(self, f"_{kind}", None)
        if goes_on is not None:
            goes_on(inner, above)
        else:
            self.over(inner)

    # -- what stands above scans --------------------------------------------------------------------------------------

    def _project(self, inner: Any, above: _Above) -> None:
        filters = above.filters if all(map(keeps_name, inner.expressions)) else ()
        names = names_of([*inner.expressions, *filters])
        self.relation(inner.input, _Above(names, filters=filters))

    def _filter(self, inner: Any, above: _Above) -> None:
        more = above.mentioning(inner.condition)
        self.relation(inner.input, replace(more, filters=(*above.filters, inner.condition)))

    def _aggregate(self, inner: Any, above: _Above) -> None:
        said = [part for part in parts_of(inner) if part.DESCRIPTOR.name != "Relation"]
        self.relation(inner.input, _Above(names_of(said)))

    def _with_columns(self, inner: Any, above: _Above) -> None:
        self.relation(inner.input, above.mentioning(*inner.aliases).unfiltered())

    def _sort(self, inner: Any, above: _Above) -> None:
        self.relation(inner.input, above.mentioning(*inner.order))

    def _subquery_alias(self, inner: Any, above: _Above) -> None:
        self.relation(inner.input, above)

    def _limit(self, inner: Any, above: _Above) -> None:
        self.relation(inner.input, above.unfiltered())

    _offset = _tail = _sample = _hint = _repartition = _limit

    def _repartition_by_expression(self, inner: Any, above: _Above) -> None:
        self.relation(inner.input, above.mentioning(*inner.partition_exprs).unfiltered())

    def _drop(self, inner: Any, above: _Above) -> None:
        known = not inner.columns and above.names is None
        without = frozenset(name.lower() for name in inner.column_names) if known else frozenset()
        self.relation(
            inner.input, _Above(above.names, above.without | without, above.filters).mentioning(*inner.columns)
        )

    def _deduplicate(self, inner: Any, above: _Above) -> None:
        more = _ALL if inner.all_columns_as_keys else above.named(*inner.column_names)
        self.relation(inner.input, more.unfiltered())

    def _join(self, inner: Any, above: _Above) -> None:
        said = [inner.join_condition] if inner.HasField("join_condition") else []
        more = above.mentioning(*said).named(*inner.using_columns).unfiltered()
        for side in (inner.left, inner.right):
            self.relation(side, more)

    # -- scans ----------------------------------------------------------------------------------------------------

    def _scan(self, relation: Any, scan: Scan, above: _Above) -> None:
        from quire.spark.read import frame_of

        chosen = _chosen(scan.names, above)
        known = [found for one in above.filters if (found := implied(one, scan.target)) is not None]
        condition = every(known) if known else None
        if condition is None and len(chosen) == len(scan.names):
            return
        wanted = [*chosen, *(columns(condition) if condition is not None else ())]
        frame: Any = frame_of(self.spark, scan.narrowed(wanted, condition))
        made = frame._plan.plan(self.spark.client)
        made.common.plan_id = relation.common.plan_id  # by which columns such as frame.id find it
        relation.CopyFrom(made)
        self.narrowed += 1

    def _read(self, inner: Any, above: _Above) -> None:
        """The format `quire`: its options say what is read, and whoever runs the plan opens the lake."""
        source = inner.data_source
        if inner.is_streaming or source.format.lower() != "quire" or "changes" in map(str.lower, source.options):
            return
        if above == _ALL:
            return
        schema = self._schema(inner)
        chosen = _chosen(schema.names, above)
        known = [found for one in above.filters if (found := implied(one, schema)) is not None]
        options = {name.lower(): name for name in source.options}
        if len(chosen) < len(schema.names) and not any("," in name or name != name.strip() for name in chosen):
            wanted = chosen or schema.names[:1]
            source.options[options.get("columns", "columns")] = ",".join(wanted)
            self.narrowed += 1
        if known:
            self._filtered(source, options.get("filter", "filter"), every(known))

    def _filtered(self, source: Any, option: str, condition: Condition) -> None:
        given = source.options.get(option)
        source.options[option] = f"({given}) AND ({condition})" if given else str(condition)
        self.narrowed += 1

    def _schema(self, inner: Any) -> Any:
        """The columns of a source, as the server knows them."""
        from pyspark.sql.connect.proto import Plan, Relation

        from quire.spark.types import arrow_schema

        plan = Plan(root=Relation(read=inner))
        return arrow_schema(self.spark.client.schema(plan))


def _chosen(names: list[str], above: _Above) -> list[str]:
    if above.names is not None:
        return [name for name in names if name.lower() in above.names]
    return [name for name in names if name.lower() not in above.without]
