"""The Delta log: read, written, checked.

delta_log             commits, and their checks; `delta_actions`: what a commit says; `log_files`: names
deletion_vectors      written and read; `vector_log`: those of a version
table_opening         opens a table by deltalake; `known_tables`: those that need not be opened
foreign_commits       what other programs commit; `missing_files`, `lost_commits`: what they delete
table_creation        the first commit; `table_features`: what tables of other programs may have
rollback              back to an earlier version; `kept_versions`: those that backups need
log_start             the oldest commits of a log with very many
"""
