"""An MCP server over stdin and stdout, for one agent on one lake."""

from __future__ import annotations

import getpass

from quire.agents.tools import build
from quire.agents.workspace import Workspace, own_branch
from quire.lake import Lake


def workspace(
    lake: Lake, name: str, *, write: bool = False, branch: str | None = None, author: str | None = None
) -> Workspace:
    """What an agent on this machine works on."""
    mine = own_branch(branch, author or getpass.getuser()) if write or branch is not None else None
    return Workspace(name, lake.branch, branch=mine if write else None)


def serve(lake: Lake, name: str, *, write: bool = False, branch: str | None = None, author: str | None = None) -> None:
    """Answer until stdin ends."""
    with lake:
        build(workspace(lake, name, write=write, branch=branch, author=author)).run("stdio")
