"""Iceberg catalogs in which tables are registered.

The metadata files in the table's folder are the truth, and a catalog follows them: each commit is made there first. So
a catalog that is away delays its own readers alone, and the next commit to it has all that it lacks.

catalog_protocol.py   what a catalog does; its errors
rest_catalog.py       by Iceberg's REST interface: `rest_client` has its requests and tokens, `rest_updates` decides
                      what a commit sends
sql_catalog.py        by the tables of a database
catalog_of.py         the one that the spec names
"""
