"""What the outside world may ask of a runner, by commands and signals (SIGTERM), and what operators have set.

Console and command line put each command as a file into `inbox/` (`pipeline.command_file`).

`control_thread` listens; `heartbeat` writes `runner.json`. `command_intake` takes each file and hands it to the
component for its kind; `command_answers` writes the answer, done or refused.

Who refuses a command: `command_intake`, if its file cannot be read; `inbox.unfit` (unknown, done before, of another
pipeline); `state_commands`, if it is for another run or the run's state does not allow it; `settings_commands`; and,
for commands about tables, their parsers (`run.tables.table_commands`, `run.tables.membership_commands`,
`capture.redump_requests`, `maintain`), `run.redump.rules` and `run.redump.executor`, and `run.tables.membership` for
tables that cannot join. `command_answers.claimed` refuses one that its sender has withdrawn meanwhile. The command line
asks the parsers before it sends (`check` in each). What a login of the console may send at all: `app.common.access`.
"""
