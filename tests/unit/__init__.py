"""Tests of the pure parts: no server, no Spark. The folders mirror those of `engine` and `app`."""
