"""Where bytes are kept: a folder of a file system, or one of a bucket. The rooms above do not know which."""
