"""How rows are ranked in a search: distances of vectors, scores of text, and both fused. No index changes a rank."""
