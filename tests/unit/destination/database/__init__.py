"""Tests of `engine.destination.database` that need no server."""
