"""Proofs that mirrors equal the source, by comparing rows. `engine.audit` proves change logs.

continuous.py        the thread of the runner. It chooses the table and the parts that are compared next
repair.py            redumps the rows that differ; `report.py` says what was found
verifier.py          tables one by one; `scope` has the parts that a command or `continuous` asks for
table_check.py       one table: quickly, exactly where rows differ, and once more if they still do. `catching_up` waits
                     for a mirror that lacks committed changes, before it is called lagging
sink_tables.py       the tables of a further sink, as mirrors
source_session.py    the session with the source
source_rows.py       the source's rows: by a plain SELECT first, then, where they differ, read as a chunk is
settling.py          the mirror's rows, of the version that `mirror_at` chooses, read by the landing's `MirrorReader`
                     and brought to the chunk's position by the binlog (`SourceRows.changes`)
partitions.py        both sides in partitions by a digest of the key: for a whole table whose chunk key Arrow cannot
                     order as the server does (`scope` makes it one range, `table_check.ranges` chooses). That is the
                     quick comparison: keys that differ are then settled exactly, or the whole table is, if texts cannot
                     name them. A part of such a table is settled exactly at once
comparison.py        rows by identity; `causes.py`: why they differ; `format_agreement.py`: Delta and Iceberg, by files
recorded.py          the state of verification, which the console's page reads by `engine.pipeline.verifications`;
                     `rows.py`, `verdicts.py`: results
"""
