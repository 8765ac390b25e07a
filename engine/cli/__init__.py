"""The command line: what verbs share, and the verbs that are not in `engine.__main__`."""
