"""What a run watches beside its work: lag, retention, space, hidden changes, blocked reads, the mirror."""
