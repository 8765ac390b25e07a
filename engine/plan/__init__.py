"""Chunks: how a table is split into ranges that are read in parallel, and why.

planner.py            asks the server for what a plan needs
strategy.py           decides: even, uneven or one, and why; `chunk_key()`: the spec's or the table's own
chunks.py             the plan; the bounds of an even one, by arithmetic; the WHERE clause of a chunk, which
                      `capture.chunk.chunk_reader` selects by
walk.py               the bounds of an uneven one, which the server finds
next_chunks.py        picks one of the two for the next chunk
coverage.py           which ranges are finished; `places`: in which chunk a key lies
keys.py               which keys a table has; their values in SQL and in plans; `ordering`: those that only the server
                      can compare; `named`: those that a user names; `conditions`: ranges as
                      `row_conditions`, for Arrow and for databases
mirrors.py            decides how a mirror is merged, on read or on write (`spec.sink_settings.Sink.merging`); the plan
                      in the ledger keeps it. `merge_costs`, `speed`: what that and the copy will cost;
                      `mirror_labels`: what the ways are called
show.py               a plan as text and as JSON
"""
