"""What every room uses, and what uses no other room.

errors.py             every error that Tidemark raises on purpose, with its hint, which a test tries
                      (tests/support/hint_trials.py); `exit_codes`: what its exit codes mean
clock.py              the time; `parallel`: steps in threads
durable.py            writes that survive a power cut; `json_records`: files as frozen records
write_causes.py       why nothing can be written; `writable`, `store_errors`
redaction.py          secrets, removed from whatever is shown
wording.py            numbers as text; `text_grid`: tables of the command line
processes.py          whether a process lives; `allocators`: its memory; `log_rotation`, `tail`: its log
"""
