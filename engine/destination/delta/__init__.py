"""A Delta table per mirror and per change log: written, merged, maintained and read back.

destination           the destination; `table`: one captured table of it; `landing`: where readers put files
table_pair            its two Delta tables: `mirror_table`, `change_log_table`, each on a `lake_table`, which commits
log                   the Delta log: commits, deletion vectors, checkpoints
merge                 changes become the mirror; `destination.merge_schedule` decides when
maintenance           compaction, optimisation, vacuum
read                  mirrors, change logs and differences, read back, also as of a time
generations           change logs that begin again; `schema_evolution`, `table_properties`
pair_versions         versions, for backups and restores
orphans               files that nobody committed; `folder_removal`, `layout`
"""
