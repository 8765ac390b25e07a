"""Helpers that several layers of tests share. `hint_trials` names the test that tries each hint in an error."""
