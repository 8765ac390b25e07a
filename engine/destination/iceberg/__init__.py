"""Iceberg tables whose data files belong to somebody else: metadata alone, written beside them.

`table` commits versions; the other modules are the formats of its files. None knows which table the data files are of.

Source: Apache Iceberg table spec, versions 2 and 3 (iceberg.apache.org/spec), and Puffin spec.
"""
