"""Vectors from texts: what `@embed` properties are filled by, and texts in `nearest` are searched with.

from quire.graph.embed import OpenAIEmbedder
graph = Graph(lake, embedder=OpenAIEmbedder("text-embedding-3-small"))
"""

from quire.graph.embed.embedder import Embedder, embedder
from quire.graph.embed.hashing import HashEmbedder
from quire.graph.embed.openai import OpenAIEmbedder

__all__ = ["Embedder", "HashEmbedder", "OpenAIEmbedder", "embedder"]
