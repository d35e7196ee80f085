"""Tables that lie outside the lake: registration and ownership."""
