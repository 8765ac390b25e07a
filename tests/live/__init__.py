"""Tests on real servers and a real Spark, with what they share: a busy table and ways to compare it with its copy."""
