"""The command line's verbs, and what they share."""
