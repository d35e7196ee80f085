"""The environment of Delta Spark: the Spark that it supports, and its jars by Maven. Kept below `build/delta-spark`.

python -m tests.delta_spark.environments build/delta-spark

Delta Spark speaks to a Unity Catalog itself. What its session names as the catalog is a class of Unity Catalog's
connector, which finds tables by their names. Where Maven has no connector, `connector/` is compiled in its place, and
`connector.txt` says so.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SPARK = "pyspark==4.2.0"
DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"
CONNECTORS = ("io.unitycatalog:unitycatalog-spark_4.2_2.13:0.6.0", "io.unitycatalog:unitycatalog-spark_2.13:0.6.0")
OURS = re.compile(r"(delta|unitycatalog|jts)-.*\.jar")
"""What Spark does not have itself."""
SOURCES = Path(__file__).parent / "connector"
DONE = "made-of.txt"


class NotToBeHad(Exception):
    """Something that cannot be fetched here."""


def make(folder: Path) -> None:
    """Make what is not there yet."""
    wanted = "\n".join((SPARK, DELTA, *(source.read_text() for source in sorted(SOURCES.glob("*.java")))))
    if (folder / DONE).exists() and (folder / DONE).read_text() == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _run([sys.executable, "-m", "venv", str(folder / "env")], "an environment")
    # Its Spark is another one than Quire's, so what `make` installs by does not bind it.
    env = {name: value for name, value in os.environ.items() if not name.endswith("_CONSTRAINT")}
    _run([str(folder / "env/bin/pip"), "install", "-q", "--disable-pip-version-check", SPARK], SPARK, env)
    _fetch(folder, DELTA)
    (folder / "connector.txt").write_text(_connector(folder))
    (folder / DONE).write_text(wanted)


def _connector(folder: Path) -> str:
    for artifact in CONNECTORS:
        try:
            _fetch(folder, artifact)
        except NotToBeHad:
            continue
        return artifact
    classes = folder / "classes"
    classes.mkdir()
    path = os.pathsep.join((f"{jars_of_spark(folder)}/*", f"{folder}/jars/*"))
    sources = [str(source) for source in sorted(SOURCES.glob("*.java"))]
    _run(["javac", "-nowarn", "-d", str(classes), "-cp", path, *sources], "a Java compiler")
    return f"Maven has none of {', '.join(CONNECTORS)}: tables are found by a stand-in, {SOURCES.name}/"


def jars_of_spark(folder: Path) -> Path:
    """Where the jars of the environment's Spark are."""
    return next((folder / "env").glob("lib/python3*/site-packages/pyspark/jars"))


def _fetch(folder: Path, artifact: str) -> None:
    group, name, version = artifact.split(":")
    told = f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
    about = "<modelVersion>4.0.0</modelVersion><groupId>client</groupId><artifactId>client</artifactId>"
    pom = folder / "pom.xml"
    pom.write_text(
        f"<project>{about}<version>1</version><dependencies><dependency>{told}</dependency></dependencies></project>"
    )
    got = folder / "fetched"
    copy = ["dependency:copy-dependencies", f"-DoutputDirectory={got}", "-DincludeScope=runtime"]
    _run(["mvn", "-B", "-q", "-f", str(pom), *copy], artifact)
    (folder / "jars").mkdir(exist_ok=True)
    for jar in got.glob("*.jar"):
        if OURS.fullmatch(jar.name):
            shutil.move(jar, folder / "jars" / jar.name)
    shutil.rmtree(got)


def _run(command: list[str], what: str, env: dict[str, str] | None = None) -> None:
    print(f"getting {what}", flush=True)
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=env)
    except FileNotFoundError as error:
        raise NotToBeHad(f"{what} cannot be had: {error.filename} is not installed") from None
    if done.returncode:
        raise NotToBeHad(f"{what} cannot be had: {(done.stderr or done.stdout)[-600:]}")


if __name__ == "__main__":
    try:
        make(Path(sys.argv[1]).resolve())
    except NotToBeHad as error:
        raise SystemExit(f"Delta Spark cannot be tried here. {error}") from None
    print((Path(sys.argv[1]) / "connector.txt").read_text())
