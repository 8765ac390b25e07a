"""The spec: its sections, globs, periods and names.

A field with its docstring is a setting; `make docs` prints it to docs/configuration.md. The rest, such as a field of
the wizard: CONTRIBUTING.md.

settings.py           the whole, and the sections without a file of their own; `section`: the base of all.
                      `settings.password` reads the password, from a variable or a file. Masks and row filters are
                      parsed in `capture.projection`
sink_settings.py      `[sink]` and `[[sinks]]` (`further_sinks`); `merge_numbers`: their fixed numbers; `store_prices`;
                      `catalog_settings`: `[sink.catalog]`
secrets.py            what a spec refers to by a variable or a file
alert_settings.py     `[alerts]`; likewise `journal_settings`, `throttle_settings`, `verify_settings`, `watch_settings`
startup.py            where a pipeline begins
globs.py              globs of tables; `case_folding`: as the server compares names; `periods`
pipeline_name.py      names of pipelines and sinks; `folder_names`: of tables in a destination
"""
