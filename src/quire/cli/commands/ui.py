"""The pages of one lake on this machine, from the command line."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand

from quire.cli.lazy_group import register
from quire.cli.options import storage_options
from quire.cli.output import Output


def ui(
    lake: Annotated[str, typer.Argument(metavar="LAKE", help="The lake, by its path or URI.")],
    write: Annotated[bool, typer.Option("--write", help="Let the pages change the lake.")] = False,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port; 0 for any that is free. Default: 0.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Whether a browser is opened. The link is printed anyway.")
    ] = True,
    storage_option: Annotated[
        list[str] | None,
        typer.Option(
            "--storage-option",
            metavar="KEY=VALUE",
            envvar="QUIRE_STORAGE_OPTIONS",
            help="A setting of the object store; never printed. The variable holds several.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document: the link.")] = False,
) -> None:
    """Look at a lake in a browser: tables, commits, SQL, merges.

    quire ui ./demo

    The link that is printed and opened works once, in one browser, on this machine. Nothing can be changed without
    --write. The pages end with this command.
    """
    from quire.server.config import Config, LakeConfig
    from quire.server.request_log import RequestLog
    from quire.server.serve import run

    name = _name(lake)
    settings = Config(
        lakes={name: LakeConfig(lake, storage_options=storage_options(storage_option))},
        port=port,
        read_only=not write,
        private=True,
    )
    output = Output(as_json=json)

    def started(url: str) -> None:
        if json:
            output.document({"url": url, "lake": name, "write": write})
        else:
            output.line(f"{lake} at {url}{'' if write else ', read-only'}")
        sys.stdout.flush()
        if browser:
            webbrowser.open(url)

    run(settings, started=started, log=RequestLog(lambda line: None))


def _name(lake: str) -> str:
    """What the pages call a lake: the last part of where it lies, as far as an address can hold it."""
    from quire.server.config import NAME

    last = lake.rstrip("/").rpartition("/")[2] or Path.cwd().name
    if last in (".", ".."):
        last = Path(last).resolve().name
    made = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in last).strip(".-")[:64]
    return made if NAME.fullmatch(made) else "lake"


register("ui", ui, TyperCommand)
