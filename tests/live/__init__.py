"""Tests on real servers and a real Spark."""
