"""Vector and text search in queries."""
