"""Who asks: API keys that the server's operator gives out, and tokens of an identity provider."""
