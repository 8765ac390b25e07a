"""The change logs of tables as plain Parquet files, by date and hour. The example for the next destination.

destination           the destination; `table`: one captured table of it
hour_files            files by date and hour, from those that readers staged
manifests             which files belong to the tables, and through which epoch
"""
