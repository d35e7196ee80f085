"""What every table format must do, as tests that run against any implementation of `quire.formats.TableFormat`.

Derive a class in a pytest module and give it two fixtures and a method: `format` makes the format for a store, `uri`
is a place that is empty when the test starts, and `plain` is a client of the same tables that knows nothing of Quire.

    class TestMyFormat(FormatConformance):
        @pytest.fixture
        def format(self):
            return lambda store: MyFormat(store, "the-lake")

        @pytest.fixture
        def uri(self, tmp_path):
            return str(tmp_path / "place")

        def plain(self, store, location):
            return MyPlainClient(store, location)      # .version(), .rows(), .append(rows), .delete(where)

A format is made anew wherever a test looks at what another program would see, so nothing may live in the object alone.
Content is compared by values. What a format leaves out is said in the derived class, by name:

    class TestWithoutIndexes(FormatConformance):
        test_an_index_is_listed_replaced_and_dropped = None
"""

from quire.testing.formats.bench import Bench, Plain, rows
from quire.testing.formats.distributed import DistributedConformance
from quire.testing.formats.files import FilesConformance
from quire.testing.formats.heads import HeadsConformance
from quire.testing.formats.rebasing import RebaseConformance
from quire.testing.formats.statements import StatementsConformance
from quire.testing.formats.upkeep import UpkeepConformance
from quire.testing.formats.values import ValuesConformance

__all__ = ["Bench", "FormatConformance", "Plain", "rows"]


class FormatConformance(
    StatementsConformance,
    ValuesConformance,
    RebaseConformance,
    UpkeepConformance,
    HeadsConformance,
    FilesConformance,
    DistributedConformance,
):
    """All of it."""
