"""What the destination has, for people.

reading                the rows of a table, now or at an earlier time (`tidemark read`)
queries                SQL over mirrors and change logs, a key's history, the source at an earlier time; `one_select`,
                       `read_only_files`: it can only read; `query_advice`: what to do about an error
destination_sizes      files and sizes of tables: `TableMaintenance.sizes` of the destination counts them
table_facts            what ledger and destination say of tables
"""

from engine.explore.reading import read

__all__ = ["read"]
