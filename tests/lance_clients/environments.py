"""Environments of clients that know nothing of Quire: made once, kept below `build/lance-clients`.

python -m tests.lance_clients.environments build/lance-clients [spark]
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

PYTHON = {
    "pylance7": ["pylance==7.0.0"],
    "pylance10": ["pylance==10.0.0"],
    "pylance14": ["pylance==14.0.2"],
    "lancedb": ["lancedb==0.40.0"],
    "duckdb": ["duckdb==1.5.5", "duckdb-extensions==1.5.5", "duckdb-extension-lance==1.5.5", "pyarrow"],
}
NODE = {"node": ["@lancedb/lancedb@0.39.0", "apache-arrow@18.1.0"]}
SPARK = {"spark": ["pyspark==3.5.8", "org.lance:lance-spark-3.5_2.12:0.4.0"]}
"""Spark, and jars of Maven Central with what they need, which lie in the folder `jars` of the environment."""
OF_SPARK = "com.fasterxml.jackson.core,com.fasterxml.jackson.datatype,com.google.guava"
"""Groups of which Spark's own jars are used; of the others, such as Arrow, lance-spark needs newer ones."""
DONE = "made-of.txt"


def make(folder: Path, *, spark: bool = False) -> list[str]:
    """Make what is not there yet; the names of those that could not be made."""
    missing = []
    if spark:
        found = shutil.which("mvn") is not None and shutil.which("java") is not None
        return [name for name, packages in SPARK.items() if not found or not _made(folder / name, packages, _spark)]
    for name, packages in PYTHON.items():
        if not _made(folder / name, packages, _python):
            missing.append(name)
    for name, packages in NODE.items():
        if shutil.which("npm") is None or not _made(folder / name, packages, _node):
            missing.append(name)
    return missing


def _made(folder: Path, packages: list[str], install: object) -> bool:
    mark = folder / DONE
    if mark.exists() and mark.read_text().split() == packages:
        return True
    print(f"making {folder}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        install(folder, packages)  # type: ignore[operator]
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"{folder.name} could not be made: {error}", file=sys.stderr)
        return False
    mark.write_text("\n".join(packages))
    return True


def _python(folder: Path, packages: list[str]) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([str(folder / "bin" / "pip"), "install", "-q", *packages], check=True)


def _spark(folder: Path, packages: list[str]) -> None:
    _python(folder, [name for name in packages if "==" in name])
    jars = [_DEPENDENCY.format(*name.split(":")) for name in packages if "==" not in name]
    (folder / "pom.xml").write_text(_POM.format("".join(jars)))
    options = ["-DincludeScope=runtime", f"-DoutputDirectory={folder / 'jars'}", f"-DexcludeGroupIds={OF_SPARK}"]
    subprocess.run(["mvn", "-B", "-q", "dependency:copy-dependencies", *options], cwd=folder, check=True)


_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
_POM = (
    '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>clients</groupId>'
    "<artifactId>jars</artifactId><version>1</version><dependencies>{}</dependencies></project>"
)


def _node(folder: Path, packages: list[str]) -> None:
    subprocess.run(["npm", "init", "-y"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent", *packages], cwd=folder, check=True)


if __name__ == "__main__":
    left_out = make(Path(sys.argv[1]).resolve(), spark=sys.argv[2:] == ["spark"])
    if left_out:
        print(f"without: {', '.join(left_out)}", file=sys.stderr)
