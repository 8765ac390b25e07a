"""Changes for a function of yours, or for one of Spark's writers: at least once, recognisable by their epoch.

destination      the destination; `table`: one captured table of it
writes           calls the function, with the rows as a DataFrame of the run's Spark session
written_epochs   which epochs were written: a file for each table, in the destination's folder
"""
