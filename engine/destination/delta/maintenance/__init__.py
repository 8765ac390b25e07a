"""Files are compacted and vacuumed.

steps                  the steps of one captured table, and the sizes of its files
optimize               which files of a mirror to rewrite; `compaction`: which of a change log to merge or to delete
vacuum                 deletes a file `sink.files_retention` after it first found that the newest version does not name
                       it; earlier, but not within an hour, if `sink.max_versions` has cut the log (`log.log_start`).
                       Files that epochs in the ledger name stay (`ledger.store`, `file_names`). A backup is protected
                       by the retention, and where the log was cut by its note for as long (`log.kept_versions`);
                       readers by the retention alone. Files of chunks that no version has named get a day, and files
                       of other programs the whole retention. It waits for Iceberg tables that lack commits, for the
                       retention at most

`destination.maintenance_schedule` has them done by the publisher's thread: hourly, and after 2 000 commits, unless
`sink.maintenance` is false.
"""
