"""Which rows and columns of a table are published, and which columns only as digests.

projection_rules      the rules of the spec for a table; `table_projection`: what they make of its columns
filter_parser         parses a row filter; `row_filter` applies it
"""
