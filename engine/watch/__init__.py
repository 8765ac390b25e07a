"""The watchdog: it posts alerts about runners that are lost or hang, and restarts lost ones if the spec asks for it.

watchdog.py           looks after one pipeline: raises, restarts, gives up; `background` does so for all, in a loop
restart_rules.py      decides whether and when a runner is started again; pure. `pipeline.runner_file` tells it whether
                      one is alive
own_alerts.py         the watchdog's alerts; `announcing` posts them
record.py             what the watchdogs of a pipeline know together; `stop_requests`: what cancels a restart
watch_status.py       what it will do, for `status` and the console
"""
