"""Questions about what is published: SQL over mirrors and change logs, one key through time, a table as it was."""
