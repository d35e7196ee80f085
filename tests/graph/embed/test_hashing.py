"""The embedder without a model."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.errors import InvalidInput
from quire.graph.embed import HashEmbedder


def near(a: str, b: str) -> float:
    first, second = HashEmbedder(64).embed([a, b])
    return sum(x * y for x, y in zip(first, second, strict=True))


@given(st.lists(st.text(max_size=30), max_size=5), st.integers(1, 40))
def test_every_text_has_a_vector_of_length_one_that_never_changes(texts: list[str], dimension: int) -> None:
    found = HashEmbedder(dimension).embed(texts)
    assert found == HashEmbedder(dimension).embed(texts)
    assert len(found) == len(texts)
    for vector in found:
        assert len(vector) == dimension
        assert math.isclose(math.sqrt(sum(x * x for x in vector)), 1.0)


def test_the_vector_of_a_text_is_the_same_on_every_machine() -> None:
    [found] = HashEmbedder(8).embed(["the red fox jumps"])
    assert found == pytest.approx([0.0, 0.5, 0.0, 0.0, 0.5, -0.5, 0.0, -0.5], abs=1e-6)


def test_texts_that_share_words_are_near_each_other() -> None:
    assert near("a red fox", "A fox, red!") == pytest.approx(1.0)
    assert near("the red fox sleeps", "the red fox runs") > near("the red fox sleeps", "stocks fell on monday")


def test_the_model_is_named_by_its_dimension_unless_it_is_given() -> None:
    assert HashEmbedder(8).model == "hash-8"
    assert HashEmbedder(8, model="mine").model == "mine"
    with pytest.raises(InvalidInput, match="dimensions"):
        HashEmbedder(0)
