"""Backup and restore of a pipeline."""
