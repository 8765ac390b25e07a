"""A pipeline's folder and the files in it."""
