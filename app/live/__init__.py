"""The sections of the page *Live*. *Table* and *History* show some of them too.

Each `*_section` is one; `sections` has the short ones, the plan among them. `chunk_map` is a component of our own.

`view` has what they show: `curves` (throughput and lag), `tiles` and `heat` (the chunk map), `event_feed`,
`reader_timeline`, `run_timeline`.
"""
