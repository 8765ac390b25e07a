"""Redumps: requests, rules that decide how a table is redumped, the preview, and the execution."""
