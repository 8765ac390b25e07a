"""Decodes bytes to Arrow, pure: packets, rows of the binary protocol, binlog events and their row images.

framing.py            where packets start; `stream`: the position in a stream; `checksums`
binlog_events.py      events, their heads in bulk; `gtid_events`, `query_event`, `tablemap`: single kinds
unfold.py             events within events, compressed ones
images.py             row images to Arrow; `extents`: where they end; `partial`: updates of parts of JSON
result_rows.py        rows of a SELECT to Arrow
types/                the types, one by one; `binary_json`, `binary_json_text`: JSON; `charsets/`, `collations`: text
schema.py             a table as the decoders see it; `arrow_schema`: as Arrow has it
gtid.py               sets of GTIDs
"""
