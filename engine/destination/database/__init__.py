"""The rows of tables in PostgreSQL, MySQL, MariaDB or DuckDB. A reader there sees the source at one transaction.

destination            the destination; `table`: one captured table of it
database_transaction   what all tables get in an epoch, in one transaction, with the epoch's number
net_changes            the last image of each key
database_state         which epochs the tables have: Tidemark's own tables in the database; `database_terms`: which
                       runner may write
sql_server             what the room asks of a kind of database; `postgresql`, `mysql`, `duckdb_file` are the
                       kinds
sql_literals           Arrow columns as literals of SQL
table_reader           reads a table back: `table_version` is what one transaction sees; `sql_conditions`;
                       `postgresql_reads`, `mysql_reads`: rows as Arrow
table_names            where a table is, by the rule of the spec
database_trial         whether a server can be used; `side_effects`: triggers and foreign keys there

Everything that a table gets is one step of the transaction. A step begins with the table's record in the database, and
does nothing if that says that the epoch is there. So whatever becomes of a transaction (a deadlock, a lost connection,
a commit without an answer), the next one runs the same steps again.
"""
