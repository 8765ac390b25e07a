"""What a run shows: status, terminal, metrics, support bundle. From files alone."""
