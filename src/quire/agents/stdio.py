"""An MCP server over stdin and stdout, for one agent on one lake."""

from __future__ import annotations

from quire.agents.tools import build
from quire.agents.workspace import Workspace, own_branch
from quire.lake import Lake
from quire.lake.handles import core_of


def workspace(
    lake: Lake, name: str, *, write: bool = False, branch: str | None = None, author: str | None = None
) -> Workspace:
    """What an agent on this machine works on. It writes as the author of the handle, and to that author's branch."""
    mine = own_branch(branch, author or core_of(lake).author) if write or branch is not None else None
    return Workspace(name, lake.branch, actor=core_of(lake).author if write else None, branch=mine if write else None)


def serve(lake: Lake, name: str, *, write: bool = False, branch: str | None = None, author: str | None = None) -> None:
    """Answer until stdin ends."""
    with lake:
        build(workspace(lake, name, write=write, branch=branch, author=author)).run("stdio")
