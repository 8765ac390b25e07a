"""Tests of `engine.destination.kafka` that need no broker."""
