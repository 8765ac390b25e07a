"""Reads ranges of the binlog: events, transactions, statements, row changes, and which of them are published.

binlog_reader.py         reads a range to its end; `binlog_access`: from any position; `position_search`
binlog_range.py          turns events into changes; `row_changes`: as Arrow tables; `event_statistics`
emission.py              the rule that decides what is published
transactions.py          when each event was committed; `known_gtids`: what GTIDs say of that
transaction_outcomes.py  which logged rows count, and where: XA transactions are prepared first, and decided later
                         (`xa_events`, `xa_decisions`, `prepared_rows`, `earlier_transactions`, `resolved_events`)
xa_visibility.py         which XA COMMITs a snapshot sees for certain; `one_phase_commits`: whether it may lack others
statements.py            statements that may concern a table; `written_tables`: the tables that one writes to
"""
