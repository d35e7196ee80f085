"""The options of indexes, for type checkers. Which kind takes which is said by the format that builds it."""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class IndexOptions(TypedDict, total=False):
    """What `create_index` takes besides column, kind and name."""

    # vectors: partitions
    metric: Literal["l2", "cosine", "dot"]
    num_partitions: int
    target_partition_size: int
    sample_rate: int
    max_iters: int
    ivf_centroids: Any
    accelerator: str
    # vectors: compression
    num_sub_vectors: int
    num_bits: int
    pq_codebook: Any
    # vectors: neighbours within a partition
    m: int
    ef_construction: int
    max_level: int
    # full text
    with_position: bool
    base_tokenizer: str
    language: str
    max_token_length: int | None
    lower_case: bool
    stem: bool
    remove_stop_words: bool
    custom_stop_words: list[str] | None
    ascii_folding: bool
    min_ngram_length: int
    max_ngram_length: int
    prefix_only: bool
    # zone maps
    rows_per_zone: int
