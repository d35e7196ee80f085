"""The command line: each command is one call of the library. The lake always comes first.

quire init ./lake
quire table create ./lake people --from people.csv --key id
quire sql ./lake "select count(*) from people"
quire query ./graph "query names() { match { $p: Person } return { $p.name } }"
"""

from quire.cli.program import app, main

__all__ = ["app", "main"]
