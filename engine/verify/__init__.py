"""Proofs that mirrors equal the source, by comparing rows. `engine.audit` proves change logs.

verifier.py          tables one by one; with `scope` (which parts), `table_check` (one table)
source_rows.py       the source's rows: by a plain SELECT first, then, where they differ, read as a chunk is
settling.py          the mirror's rows, of the version that `mirror_at` chooses, read by the landing's `MirrorReader`
                     and brought to the chunk's position by the binlog (`SourceRows.changes`)
partitions.py        both sides sorted by digest, for tables whose key Arrow cannot order
comparison.py        rows by identity; `causes.py`: why they differ
recorded.py          the state of verification, which the console's page reads by `engine.pipeline.verifications`;
                     `rows.py`, `verdicts.py`: results
continuous.py        the thread of the runner; `repair.py`, `report.py`
"""
