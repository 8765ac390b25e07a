"""Backup and restore of a pipeline: its ledger, and the versions of its tables (`backup`).

new_ledger             the place of a restored ledger
"""
