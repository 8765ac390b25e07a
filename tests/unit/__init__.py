"""Tests of the pure parts: no server, no Spark. Folders mirror `engine` and `app/view`."""
