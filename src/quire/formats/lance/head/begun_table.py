"""Tables that a client has begun by itself, in a folder that the lake keeps free for it.

Some clients declare a table and write its first version where they were told, without asking for it. Nobody else writes
there, and no commit pins what lies there yet.
"""

from __future__ import annotations

from quire.formats.lance.head.backfill import cleans_itself
from quire.formats.lance.session import LanceSession


def settle(session: LanceSession, location: str) -> None:
    """Take away the settings by which the table would delete its own versions: older clients give them to every table.

    It is a version more, which the client follows as it follows any writer of Lance.
    """
    handle = session.open_head(location)
    cleans = cleans_itself(handle)
    if cleans:
        session.call("commit", lambda: handle.delete_config_keys(cleans), hops=3, what="removing settings")
