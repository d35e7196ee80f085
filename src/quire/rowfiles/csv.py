"""CSV as columns of text, each row with its line, in whatever form it is written; and files that look otherwise."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping
from csv import reader
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from quire.errors import InvalidInput
from quire.rowfiles.kinds import is_tab_separated

if TYPE_CHECKING:
    import pyarrow as pa

_NAMED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
_USUAL = {",": "','", ";": "';'", "\t": "tab", "|": "'|'"}

Tell = Callable[[int, str, str, Any], None]
"""Called with the line of what is no row, the rule that it breaks, what is wrong, and its text."""


@dataclass(frozen=True)
class CsvForm:
    """The form of CSV files."""

    delimiter: str | None = None
    """What stands between fields; None for what the name of a file says: a tab for `.tsv`, else a comma."""
    quote: str = '"'
    null: str = ""
    """An unquoted field with this text is null."""
    header: bool = True
    """Whether the first row names the columns."""
    encoding: str = "utf-8"

    @classmethod
    def of(
        cls,
        delimiter: str | None = None,
        quote: str | None = None,
        null: str | None = None,
        header: bool = True,
        encoding: str | None = None,
    ) -> CsvForm:
        """The form that options describe."""
        form = cls(
            None if delimiter is None else _one_character(delimiter, "delimiter"),
            '"' if quote is None else _one_character(quote, "quote"),
            null or "",
            header,
            _encoding(encoding or "utf-8"),
        )
        if form.quote == (form.delimiter or ","):
            raise InvalidInput("delimiter and quote are the same character.", next="Choose two.")
        return form

    @classmethod
    def given(cls, csv: Mapping[str, Any] | None) -> CsvForm:
        """The form that a caller says in words, such as `{"delimiter": ";"}`."""
        known = [f.name for f in fields(cls)]
        for name, value in (csv or {}).items():
            if name not in known or not isinstance(value, bool if name == "header" else str | None):
                raise InvalidInput(f"csv has {name!r}: {value!r}.", next=f"It takes {', '.join(known)}.")
        return cls.of(**(csv or {}))

    def between(self, path: str) -> str:
        """What stands between the fields of a file."""
        return self.delimiter or ("\t" if is_tab_separated(path) else ",")

    def doubts(self, path: str, line: str) -> Iterator[str]:
        """Other delimiters by which the first row of a file has more fields than by this one: how to say them."""
        delimiter = self.between(path)
        if not next(reader([line], delimiter=delimiter, quotechar=self.quote), []):
            return
        plain = re.sub(f"{re.escape(self.quote)}[^{re.escape(self.quote)}]*{re.escape(self.quote)}", "x", line)
        for other, shown in _USUAL.items():
            if other != delimiter and plain.count(other) > plain.count(delimiter):
                yield f"{shown} (--delimiter {'tab' if other == chr(9) else repr(other)})"


PLAIN = CsvForm()


def _one_character(text: str, option: str) -> str:
    found = _NAMED.get(text, text)
    if len(found) != 1 or not found.isascii() or found in "\r\n\0":
        raise InvalidInput(
            f"{option} (--{option}) must be one character, not {text!r}.",
            next="Write it as it is, such as ';', or as tab.",
        )
    return found


def _encoding(name: str) -> str:
    """An encoding under its usual name."""
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise InvalidInput(f"There is no encoding {name!r}.", next="For example utf-8, latin-1 or cp1252.") from None


def text_batches(
    stream: Any, path: str, form: CsvForm, block: int, tell: Tell, names: list[str] | None = None
) -> Iterator[tuple[pa.RecordBatch, Any]]:
    """The rows as columns of text, and the line of each. An unquoted field with the text of null is null.

    There is at least one batch, which may be empty: it says which columns there are. `names` are those of a file
    without a header. Lines that are no rows are told. It is read in one thread, which knows the number of such a row.
    """
    import pyarrow as pa
    import pyarrow.csv as csv

    from quire.rowfiles.line_numbers import Checked, Lines

    first = 2 if form.header else 1
    checked = Checked(stream, form.encoding)
    lines = Lines(first, first, checked.blank)

    def invalid(row: Any) -> str:
        said = f"This line has {row.actual_columns} fields, not {row.expected_columns}."
        lines.skip(row.number, row.text, lambda line: tell(line, "csv", said, row.text))
        return "skip"

    given = csv.open_csv(
        pa.PythonFile(checked, mode="r"),
        read_options=csv.ReadOptions(
            block_size=block,
            use_threads=False,
            column_names=None if form.header else names,
            autogenerate_column_names=not form.header and names is None,
        ),
        parse_options=csv.ParseOptions(
            delimiter=form.between(path),
            quote_char=form.quote,
            newlines_in_values=True,
            invalid_row_handler=invalid,
            ignore_empty_lines=False,
        ),
        convert_options=csv.ConvertOptions(
            default_column_type=pa.string(),
            null_values=[form.null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    yield pa.RecordBatch.from_pylist([], given.schema), lines.none()
    for batch in given:
        yield lines.of_text(batch)
    lines.finish()
