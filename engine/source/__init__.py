"""The only code that talks to MySQL and MariaDB.

connect.py            logins (a password file is read again at each), sessions; `endpoint`: where, with the password as
                      the spec names it (`spec.settings.password`); `own_account`: whose; `turns`,
                      `connection_limits`: how many
packets.py            streams of packets; `replication`: ranges of the binlog; `heads`: the first events of its files
positions.py          positions in the binlog; `ancestry`: whether the server still has the ledger's history
watermarks.py         the positions around a chunk's read, and why they can be trusted; `xa_places`: of XA transactions
catalog.py            tables and columns; `survey`: for people who choose tables; `change_rates`: how often they change
preflight.py          everything that a pipeline needs, before it reads; `grants`, `column_grants`, `engines`,
                      `durable_settings`: parts of that
hidden_changes.py     changes that the binlog does not have; `programs`: triggers, views and foreign keys;
                      `statement_writes`: writes that it has as text
source_facts.py       what someone may change while a pipeline runs
blocked_reads.py      who holds the lock that a read waits for
"""
