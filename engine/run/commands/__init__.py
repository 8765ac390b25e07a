"""What the outside world may ask of a runner, by commands and signals (SIGTERM), and what operators have set.

`control_thread` listens; `heartbeat` writes `runner.json`.
"""
