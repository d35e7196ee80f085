"""The command line: each command is one call of the library. The lake always comes first.

quire init ./lake
quire table create ./lake people --from people.csv --key id
quire sql ./lake "select count(*) from people"
"""

# Each module adds its commands to the app; this is the order in which `quire --help` lists them.
# isort: off
from quire.cli import history as history
from quire.cli import tables as tables
from quire.cli import data as data
from quire.cli import query as query
from quire.cli import refs as refs
from quire.cli import health as health
from quire.cli.program import app, main
# isort: on

__all__ = ["app", "main"]
