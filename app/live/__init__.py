"""The sections of the page *Live*. *Table* and *History* show some of them too.

`screens.live` puts the page together; the words of its upper part are in `common.view` (`health`, `progress`,
`alert_list`). Its data: `common.home.ask` asks `engine.history`, the index over the journals, `home.runner` and
`home.reading_of` read `runner.json`, `common.data_light` has what is verified, and `home.firing` the alerts.
`queue_section` reads the inbox, `throttle_section` `controls.json` and the spec; `destination_section` asks
`engine.explore` for the sizes of the tables, on request.

Each `*_section` is one, and `membership` adds and removes tables; `sections` has the short ones: the overview with the
list of tables, throughput, errors and the plan. `common.autorefresh` reruns the numbers of each every two seconds.
`chunk_map` is a component of our own.

`view` has what they show: `curves` (throughput and lag), `tiles` and `heat` (the chunk map), `event_feed`,
`reader_timeline`, `run_timeline`.
"""
