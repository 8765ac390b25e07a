"""Iceberg tables whose data files belong to somebody else: metadata alone, written beside them.

`table` commits versions, and `snapshot_history` says which of them stay. `unneeded_files` are deleted later. `catalogs`
registers tables, called by `delta.formats.registration` after each commit. The other modules are the formats of files.
None knows which table the data files are of.

Source: Apache Iceberg table spec, versions 2 and 3 (iceberg.apache.org/spec), and Puffin spec.
"""
