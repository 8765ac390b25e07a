"""Proofs that what is published equals the source: the audit of change logs by an independent decoder (`audit*`)."""
