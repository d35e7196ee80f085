"""How languages are highlighted that Pygments does not know."""

from __future__ import annotations

from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, Punctuation, String, Text

KEYWORDS = """
    node edge interface enum query match return where order by asc desc limit offset insert update delete set group
    having not and or in is null distinct optional shortest nearest true false as search
"""


class Graph(RegexLexer):
    """Schemas (`.pg`) and queries (`.gq`) of a graph."""

    name = "Quire graph"
    tokens = {
        "root": [
            (r"//[^\n]*|#[^\n]*", Comment.Single),
            (r'"(?:\\.|[^"\\])*"', String),
            (r"@\w+", Name.Decorator),
            (r"\$\w+", Name.Variable),
            (words(tuple(KEYWORDS.split()), prefix=r"\b", suffix=r"\b"), Keyword),
            (r"\b[A-Z]\w*\b", Name.Class),
            (r"\d+(?:\.\d+)?", Number),
            (r"[{}()\[\],:;.?]", Punctuation),
            (r"[-+*/<>=!|&%]+", Operator),
            (r"\w+|\s+|.", Text),
        ]
    }


class Console(RegexLexer):
    """Commands after a prompt, with what they print."""

    name = "Console"
    tokens = {
        "root": [
            (r"^([$>] )([^#\n]*)(#[^\n]*)?(\n?)", bygroups(Generic.Prompt, Name.Function, Comment.Single, Text)),
            (r"^error:", Generic.Error),
            (r"[^\n]+\n?|\n", Generic.Output),
        ]
    }
