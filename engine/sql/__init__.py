"""Statements in the binlog, by their text alone. Pure.

tokens.py, reader.py  the tokens, as the server that logged them read them
statement.py          which tables a statement may alter; whether a captured one is among them is decided in
                      `engine.capture.binlog.statements`, what becomes of it in `engine.run.tables`
alter.py, column.py   what an ALTER TABLE does to columns and rows

Row filters of a spec are in `engine.capture.projection`.
"""
