"""The command line's verbs, and what they share. `engine.base.exit_codes` has its exit codes."""
