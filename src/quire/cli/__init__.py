"""The command line: each command is one call of the library. The lake always comes first.

quire init ./lake
quire table create ./lake people --from people.csv --key id
quire sql ./lake "select count(*) from people"
quire query ./graph "query names() { match { $p: Person } return { $p.name } }"
"""

# Each module adds its commands to the app; this is the order in which `quire --help` lists them.
# isort: off
from quire.cli import history as history
from quire.cli import tables as tables
from quire.cli import data as data
from quire.cli import export as export
from quire.cli import query as query
from quire.cli import graph_schema as graph_schema
from quire.cli import graph_load as graph_load
from quire.cli import graph_query as graph_query
from quire.cli import graph_out as graph_out
from quire.cli import graph_stored as graph_stored
from quire.cli import refs as refs
from quire.cli import health as health
from quire.cli import upkeep as upkeep
from quire.cli.program import app, main
# isort: on

__all__ = ["app", "main"]
