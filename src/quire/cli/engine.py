"""Which engine a command runs on: this process, or a Spark session that lasts as long as the command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any

import typer

from quire.errors import InvalidInput
from quire.lake.engines import AUTO_BYTES, start


class Engine(StrEnum):
    """Who does the work."""

    local = "local"
    auto = "auto"
    spark = "spark"


EngineOption = Annotated[
    Engine | None,
    typer.Option(
        "--engine",
        help="local: this process. spark: a Spark session, started for the command. auto: spark from 2 GB on. "
        "If not said, local, or spark with --master.",
    ),
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master", metavar="MASTER", help="The Spark to run on: local[4], spark://host:7077, sc://host; local[*]."
    ),
]


@contextmanager
def running(engine: Engine | None, master: str | None, size: Callable[[], int] = lambda: 0) -> Iterator[Any]:
    """The engine as the library takes it: "local", or a session that is stopped at the end."""
    if engine is Engine.local and master is not None:
        raise InvalidInput("--master is for Spark.", next="Leave it out, or say --engine spark.")
    wanted = engine or (Engine.spark if master is not None else Engine.local)
    if wanted is Engine.auto:
        wanted = Engine.spark if size() >= AUTO_BYTES else Engine.local
    if wanted is Engine.local:
        yield "local"
        return
    spark = start(master or "local[*]")
    try:
        yield spark
    finally:
        spark.stop()
