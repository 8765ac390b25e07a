"""Other formats over the files of Delta tables."""
