"""Tools for agents (MCP): they read a lake within limits, and write to a branch of their own that people merge."""
