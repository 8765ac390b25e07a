"""Proofs that change logs equal the binlog, by an independent decoder.

`audit.py` has the map; `background_audit.py` the thread.
"""
