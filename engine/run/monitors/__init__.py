"""What a run watches beside its work, and journals.

lag, retention         how far it is behind, and when the source purges what it needs (`engine.alerting`
                       compares the lag with thresholds)
progress               its phase, and the states of tables
space                  the disk of the destination, and when it will be full; `request_monitor`: requests to buckets
mirror_monitor         other programs that change a mirror; `unpublished_monitor`: a destination that takes nothing
hidden_monitor         changes without an event in the binlog; `source_drift`: what changed on the source
blocked_monitor        reads that wait for a lock on the source
"""
