"""Tools for agents (MCP, streamable HTTP without sessions): every request is by whom its token names."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from quire.errors import Denied, InvalidInput
from quire.lake.guard import Who, act_as
from quire.server.agent_tools import working_in
from quire.server.auth.actors import ANYBODY, WRITE
from quire.server.calls import Answer, Call

if TYPE_CHECKING:
    from quire.agents.workspace import Workspace

LOCAL = ("localhost", "127.0.0.1", "::1")


async def answer(call: Call) -> Answer:
    """One message of an agent, and its answer."""
    _check_origin(call)
    act_as(Who(call.actor.name, call.actor.roles, "mcp", call.id))
    space = await call.server.in_thread(partial(_workspace, call))
    token = working_in.set(space)
    try:
        tools = await call.server.in_thread(partial(call.server.tools.of, space))
        return await _exchange(call, tools, await call.server.in_thread(call.body.whole))
    finally:
        working_in.reset(token)


def _workspace(call: Call) -> Workspace:
    from quire.agents.bounds import Bounds
    from quire.agents.workspace import Workspace, own_branch

    lake, limits = call.path["lake"], call.server.limits
    writes = call.actor is not ANYBODY and call.actor.may(WRITE) and not call.server.lakes.get(lake).read_only
    branch = own_branch(None, call.actor.name) if writes else None
    return Workspace(
        lake,
        call.lake,
        actor=call.actor.name,
        branch=branch,
        may_merge=branch is not None and call.server.lakes.may_merge(lake, branch),
        bounds=Bounds(seconds=limits.sql_seconds, memory=limits.sql_memory),
        metadata=call.noted,
    )


def _check_origin(call: Call) -> None:
    """A page of a browser must not reach a server without authentication by a name that it made up."""
    if not call.server.is_open_here:
        return
    host = call.headers.get("host", "").rpartition(":")[0].strip("[]") or call.headers.get("host", "")
    if host not in (*LOCAL, call.server.config.host) or "origin" in call.headers:
        raise Denied("Agents reach a server without authentication from this machine alone.", next="Use a token.")


async def _exchange(call: Call, tools: Any, body: bytes) -> Answer:
    """Let the SDK answer, in one piece."""
    # A manager answers within one block. Making the application makes a new one, and nothing comes in between.
    most = call.server.limits.body_bytes
    tools.streamable_http_app(json_response=True, stateless_http=True, max_request_body_size=most, host="")
    manager = tools.session_manager
    wanted = ("accept", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id")
    headers = [
        (n.encode(), v.encode("latin-1")) for n, v in call.headers.items() if n in wanted or n.startswith("mcp-")
    ]
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "query_string": b"",
        "root_path": "",
    }
    scope |= {"headers": headers, "http_version": "1.1", "scheme": "http", "asgi": {"version": "3.0"}}
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    made: dict[str, Any] = {"status": 500, "headers": {}, "body": b""}

    async def receive() -> dict[str, Any]:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            made["status"] = message["status"]
            made["headers"] = {n.decode().lower(): v.decode("latin-1") for n, v in message["headers"]}
        else:
            made["body"] += message.get("body", b"")

    async with manager.run():
        await manager.handle_request(scope, receive, send)
    media = made["headers"].get("content-type", "application/json")
    if made["status"] == 413:
        raise InvalidInput("The message is too large.", next="Send less at once.")
    return Answer(status=made["status"], media_type=media, body=made["body"])
