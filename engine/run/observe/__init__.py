"""What a run shows of itself: status, terminal, lag, retention, metrics, alerts, and the bundle for whoever helps."""
