"""Names in quotes: SQL writes them in double quotes, and backticks are read as such."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""
    (?P<text>   [eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' )
    | (?P<dollar> \$(?P<tag>\w*)\$ .*? \$(?P=tag)\$ )
    | (?P<name>   "(?:[^"]|"")*" )
    | (?P<tick>   `(?:[^`])*` )
    | (?P<line>   --[^\n]* )
    | (?P<block>  /\*.*?\*/ )
    | (?P<word>   [^\W\d]\w* )
    | (?P<other>  . )
    """,
    re.VERBOSE | re.DOTALL,
)


def quoted(name: str) -> str:
    """A name in the quotes of SQL."""
    return '"' + name.replace('"', '""') + '"'


def plain_quotes(text: str) -> str:
    """The same text with names that stand in backticks in double quotes. No text and no comment is touched."""
    if "`" not in text:
        return text
    return "".join(
        quoted(token.group()[1:-1]) if token.lastgroup == "tick" else token.group() for token in _TOKEN.finditer(text)
    )
