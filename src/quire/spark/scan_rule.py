"""`.where().select()` and SQL over views read only what they need: a rule of Spark's optimizer narrows the scans.

Spark asks a data source in Python for columns never, and for filters in a way that gives wrong rows later. So a session
is given a rule of our own (`QuireScans.java`), by Spark's interface for such rules. It runs after all of Spark's, when
filters and projections stand right above the scans, and asks `_Planner` here to plan each scan again with the columns
and conditions that it finds. Spark's filter stays above the scan.

A session of Spark Connect has no such interface: there `connect_scans` does it to the plan that the client sends.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from quire.errors import QuireError
from quire.filters import read_filter
from quire.spark import connect_scans
from quire.spark.connect_scans import SETTING
from quire.spark.pushed_filters import pushed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from quire.spark.read import Scan

PREFIX = "quire_scan:"
MOST = 10_000
"""So many scans are remembered. A frame that is older reads whole rows."""

_log = logging.getLogger("quire.spark")
_scans: OrderedDict[str, Scan] = OrderedDict()
_numbers = itertools.count(1)
_lock = threading.Lock()
_compiled: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def remember(scan: Scan) -> str:
    """The name by which the rule finds a scan in a plan. Spark's UI shows it."""
    name = f"{PREFIX}{next(_numbers)}:{scan.name}"
    with _lock:
        _scans[name] = scan
        while len(_scans) > MOST:
            _scans.popitem(last=False)
    return name


def install(spark: SparkSession) -> bool:
    """Give a session the rule, or of Spark Connect the hook; whether it has it."""
    if not hasattr(spark, "_jsparkSession"):
        return connect_scans.install(spark, _scans.get)
    try:
        known = spark._jsparkSession.experimental()
        rules = known.extraOptimizations()
        if any(rules.apply(i).ruleName() == "QuireScans" for i in range(rules.size())):
            return True
        with _lock:
            getattr(known, "extraOptimizations_$eq")(rules.appended(_rule(spark)))
    except Exception as error:  # Spark's inner classes are its own: reading goes on without
        _log.warning("Filters and columns are not pushed into scans on this Spark: %s", str(error).splitlines()[0])
        return False
    return True


def _rule(spark: Any) -> Any:
    from pyspark.java_gateway import ensure_callback_server_started

    context = spark.sparkContext
    if context not in _compiled:
        ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
        compiler = spark._jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(spark._jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(resources.files("quire.spark").joinpath("QuireScans.java").read_text("utf-8"))
        _compiled[context] = compiler.getClassLoader().loadClass("QuireScans")
    none = context._gateway.new_array(spark._jvm.java.lang.Object, 0)
    rule = _compiled[context].getConstructors()[0].newInstance(none)
    rule.use(_Planner(spark))
    return rule


class _Planner:
    """Called by the rule, with a scan, the names of columns that are needed, and a condition as JSON or nothing."""

    class Java:
        implements = ("java.util.function.Function",)

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def apply(self, request: Any) -> Any:
        """The plan of a narrower scan, or nothing if there is none."""
        try:
            node, names, condition = request[0], list(request[1]), request[2]
            if str(self.spark.conf.get(SETTING, "true")).lower() == "false":
                return None
            scan = self._scan(node)
            made = None if scan is None else self._narrowed(scan, names, condition)
            return None if made is None else made._jdf.queryExecution().analyzed()
        except Exception as error:  # whatever it is, the plan as it stands gives the same rows
            _log.debug("A scan is not narrowed: %s", error)
            return None

    def _scan(self, node: Any) -> Scan | None:
        if node.nodeName() == "MapInArrow":
            return _scans.get(node.functionExpr().name())
        from quire.spark.datasource import QuireSource

        options = node.relation().options().asCaseSensitiveMap()
        return QuireSource(dict(options.items())).scan()

    def _narrowed(self, scan: Scan, names: Sequence[str], condition: str | None) -> DataFrame | None:
        from quire.spark.read import frame_of

        kinds = {name: scan.schema.field(name).type for name in scan.names}
        if not set(names) <= set(kinds):
            return None  # another schema than the one that the plan was made with
        found = None if condition is None else pushed(condition, kinds)
        if found is not None:
            try:
                read_filter(found, scan.schema)
            except QuireError:
                found = None
        return frame_of(self.spark, scan.narrowed(names, found))
