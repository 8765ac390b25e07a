"""Destinations: each applies committed epochs exactly once, in the order of the ledger.

destination_protocol   the interface, with what every implementation MUST do
registry               the implementations: `delta`, `parquet`
publisher              applies epochs to the first sink, and hands them to each `further_sink`
delta/log              where a row's file is committed, once the ledger has the epoch

`docs/writing-a-destination.md` tells how to add one.
"""
