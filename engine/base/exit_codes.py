"""What the exit codes of the command line mean: the docs, the console and the watchdog show these words.

`engine.base.errors` says which error has which code.
"""

DONE, UNEXPECTED = 0, 1
EXIT_CODES = {
    DONE: "done",
    UNEXPECTED: "an unexpected error, a stopped table, unpublished changes, or a missed goal of `--until`",
    2: "the spec or an argument is wrong",
    3: "the source or a worker lacks what a run needs, or the source refuses the account",
    4: "the source can no longer be streamed",
    5: "another runner has the pipeline, or took it over",
    6: "an audit or a verification found differences",
    7: "the ledger and the destination do not belong together",
    8: "verify --strict could not compare everything",
}
NEEDS_OPERATOR = {code: meaning for code, meaning in EXIT_CODES.items() if code not in (DONE, UNEXPECTED)}
"""The codes after which a restart fails again until somebody has acted."""
