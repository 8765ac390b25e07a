"""Delta tables read back.

delta_reader           the mirror and the change log of a captured table
mirror                 one version of a mirror or a change log, also that of an earlier time (`load_as_of`)
change_log             a change log in the order of `_tm_seq`, for audits
file_rows              the rows of a version's files, without those that are deleted
differences            the table of rows that verifications found to differ
"""
