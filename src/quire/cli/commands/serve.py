"""Running the server from the command line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from typer.core import TyperCommand

from quire.cli.lazy_group import register
from quire.cli.options import storage_options
from quire.cli.output import Output
from quire.errors import InvalidInput

if TYPE_CHECKING:
    from quire.server.config import Config


def serve(
    lakes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=URI]...", help="Lakes, each with the name by which clients call it."),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="The address to listen on. Default: 127.0.0.1.")] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="The port; 0 for any that is free. Default: 8080.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="A TOML file with lakes, limits and the rest.")
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option("--keys", metavar="FILE", help="Let in who has a key of this file; see `quire token`."),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Write nothing, whoever asks.")] = False,
    open_to_all: Annotated[
        bool, typer.Option("--open", help="Let everybody do everything who reaches the server, on any address.")
    ] = False,
    lance_only: Annotated[
        bool, typer.Option("--lance-only", help="Answer clients of Lance namespaces, and nobody else.")
    ] = False,
    storage_option: Annotated[
        list[str] | None,
        typer.Option(
            "--storage-option",
            metavar="KEY=VALUE",
            envvar="QUIRE_STORAGE_OPTIONS",
            help="A setting of the object store for the lakes named here; never printed. The variable holds several.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document: the address.")] = False,
) -> None:
    """Serve lakes over HTTP, until a signal ends it.

    quire serve demo=./demo sales=s3://bucket/sales --port 8080

    Without authentication the server listens on this machine only. Commits that are under way are finished before
    it ends. Requests are logged to stderr, a line of JSON each.
    """
    from quire.server.serve import run

    options = storage_options(storage_option)
    settings = _settings(lakes or [], host, port, config, read_only, open_to_all, options, keys)
    if lance_only:
        settings = msgspec.structs.replace(settings, only="lance")
    output = Output(as_json=json)

    def started(url: str) -> None:
        if json:
            output.document({"url": url, "lakes": sorted(settings.lakes)})
        else:
            output.line(f"serving {', '.join(sorted(settings.lakes))} at {url}")
        sys.stdout.flush()

    run(settings, started=started)


def _settings(
    lakes: list[str],
    host: str | None,
    port: int | None,
    file: Path | None,
    read_only: bool,
    open_to_all: bool,
    options: dict[str, str],
    keys: Path | None,
) -> Config:
    """What the file says, and what the command line says instead or beside it."""
    from quire.server.config import AuthConfig, Config, LakeConfig, read

    config = Config() if file is None else read(file)
    named: dict[str, LakeConfig] = {}
    for text in lakes:
        name, equals, uri = text.partition("=")
        if not (name and equals and uri):
            raise InvalidInput(f"{text!r} is not NAME=URI.", next="Write quire serve demo=./demo.")
        if name in named or name in config.lakes:
            raise InvalidInput(f"Two lakes are called {name!r}.", next="Give each a name of its own.")
        named[name] = LakeConfig(uri, storage_options=options)
    given: dict[str, Any] = {"lakes": {**config.lakes, **named}}
    given |= {k: v for k, v in (("host", host), ("port", port)) if v is not None}
    given |= {k: True for k, v in (("read_only", read_only), ("open", open_to_all)) if v}
    if keys is not None:
        given["auth"] = msgspec.structs.replace(config.auth or AuthConfig(), keys=str(keys))
    return msgspec.structs.replace(config, **given)


register("serve", serve, TyperCommand)
