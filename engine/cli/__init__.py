"""The command line's verbs, and what they share.

`engine.base.errors` gives each error its exit code; `engine.base.exit_codes` has their meanings.
"""
