"""Destinations: each applies committed epochs exactly once, in the order of the ledger.

destination_protocol   the interface, with what every implementation MUST do
registry               the implementations: `delta`, `parquet`, `kafka`, `database`; each room has a `destination` and a
                       `table`
publisher              applies epochs to the first sink, and hands them to each `further_sink` (`sink_opening`,
                       `read_back`)
epoch_replay           applies an epoch to its tables (`published_tables`), many at once (`base.parallel`)
table_progress         the progress of one table: applied epochs, and changes not merged yet
merge_schedule         decides when a mirror is merged; `plan.mirrors` decides how, when its copy is planned
fence                  keeps an earlier runner out; `agreement`, `missing_epochs`: whether ledger and destination agree
epoch_retention        what the ledger must keep; `maintenance_schedule`: when which table is maintained
change_log_looks       deleted files of change logs are found during a run
staged_landing         where readers put files that a destination cannot take as they are: its `landing` is a
                       `StagesFiles` (`capture.landing`), its tables' `append` reads them, and `epoch_retention` has
                       them deleted
capabilities           what only some destinations can do
delta/log              where a row's file is committed, once the ledger has the epoch; in Parquet: `parquet.manifests`

`docs/writing-a-destination.md` tells how to add one.
"""
