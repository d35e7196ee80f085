"""Tools for agents over stdin and stdout."""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated
from urllib.parse import urlsplit

import typer

from quire.cli.options import Session, command
from quire.errors import InvalidInput, Unsupported


@command("mcp", branch=False, here="the server answers agents itself, at /mcp/NAME")
def mcp(
    session: Session,
    write: Annotated[bool, typer.Option("--write", help="Let the agent write, to a branch of its own alone.")] = False,
    branch: Annotated[
        str | None,
        typer.Option("--branch", "-b", metavar="agents/NAME", help="The agent's branch. Default: by its author."),
    ] = None,
    author: Annotated[
        str | None,
        typer.Option("--author", help="Author of the agent's commits. Default: $QUIRE_AUTHOR, or user@host."),
    ] = None,
    actor: Annotated[
        str | None,
        typer.Option("--actor", metavar="NAME", help="Hold the agent to the lake's policy, as this actor."),
    ] = None,
    role: Annotated[list[str] | None, typer.Option("--role", metavar="ROLE", help="A role of the actor.")] = None,
) -> None:
    """Give an agent tools for a lake, over MCP. Reads only, unless you --write.

    With an --actor the policy of the lake holds for all that the agent does.
    """
    import quire
    from quire.agents.stdio import serve

    if session.output.as_json:
        raise Unsupported("The answers are MCP messages already.", next="Leave --json out.")
    name = PurePath(urlsplit(session.uri).path).name or "lake"
    session.author = author
    if actor is None and role:
        raise InvalidInput("A role is of an actor.", next="Name it with --actor.")
    if actor is not None:
        lake = quire.open(
            session.uri,
            storage_options=session.storage,
            read_only=not write,
            external=session.external,
            actor=actor,
            roles=role or [],
        )
    else:
        lake = session.write() if write else session.read()
    serve(lake, name, write=write, branch=branch, author=actor or author)
