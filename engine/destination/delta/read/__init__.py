"""Delta tables read back.

mirror                 one version of a mirror or a change log, also that of an earlier time (`load_as_of`)
change_log             a change log in the order of `_tm_seq`, for audits
delta_rows             the rows of a version, without those that deletion vectors delete
differences            the table of rows that verifications found to differ
"""
