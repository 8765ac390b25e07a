"""The command line's verbs, and what they share.

pipeline               the verbs that run and operate a pipeline
published              `read`; `other_engines`: `catalog`
verification, auditing, backups, queueing, silencing, watching    their verbs
known_pipeline         a pipeline by its newest run, while its spec cannot be read
command                what all verbs have in common; `consoles`: how they print; `ending`: how their process ends
systemd_unit           what `service` prints

`engine.base.errors` gives each error its exit code; `engine.base.exit_codes` has their meanings.
"""
