"""Proofs that mirrors equal the source, by comparing rows. `engine.audit` proves change logs.

verifier.py          tables one by one; with `scope` (which parts), `table_check` (one table), `settling` (exact at a
                     position)
source_rows.py       the source's rows; `settling.mirror_rows`: the mirror's, of the version that `mirror_at` chooses;
                     `partitions`: both, part by part
comparison.py        rows by identity; `causes.py`: why they differ
recorded.py          the state of verification, which the console's page reads by `engine.pipeline.verifications`;
                     `rows.py`, `verdicts.py`: results
continuous.py        the thread of the runner; `repair.py`, `report.py`
"""
