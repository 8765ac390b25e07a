"""Statements in the binlog: their tokens, the tables that they alter, and what an ALTER TABLE does. Pure.

Row filters of a spec are in `engine.capture.projection`.
"""
