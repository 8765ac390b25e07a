"""What a run shows, from files alone.

status                 a pipeline's status; `status_records`: its fields, which are those of `status --json`;
                       `status_text`: as text
run_spec               the spec with which the newest run began
terminal               a run in a terminal; `own_terminal` keeps the output of other code out of it
counters               counts a journal's events for `metrics`, which `exporter` serves
support_bundle         a zip for support
"""
