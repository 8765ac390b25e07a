"""A password that changes while a pipeline runs: `password_file` is read again at each login."""

from contextlib import suppress
from pathlib import Path

import pymysql

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, source_table
from tests.live.support.pipeline import Pipeline
from tests.servers import Server
from tests.servers.users import GRANTS, create_user

PASSWORDS = ("tide-Mark-11", "tide-Mark-12", "tide-Mark-13")


def test_a_changed_password_needs_no_restart(server: Server, database: str, new_pipeline: PipelineFactory) -> None:
    """With the file first, and with the server first, which refuses logins until the file follows.

    Nobody keeps an old connection.

    Coordinator, monitor, binlog streams and readers log in again, and so does another command.
    """
    user = f"rotated_{server.flavor}"
    create_user(server, user, GRANTS, PASSWORDS[0])
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, v INT)")
    server.execute(f"INSERT INTO `{database}`.t VALUES (1, 1)")
    pipeline = new_pipeline(server, database, user=user, poll=0.2, merge=0.5)
    secret = with_file(pipeline, PASSWORDS[0])
    runner = pipeline.start_streaming()

    secret.write_text(PASSWORDS[1])
    change(server, user, PASSWORDS[1])
    server.execute(f"UPDATE `{database}`.t SET v = 2")
    pipeline.wait_for(lambda: committed(pipeline) >= 2, runner)
    assert pipeline.command("redump", "--table", f"{database}.t").returncode == 0
    pipeline.wait_for(lambda: pipeline.events("command.done"), runner)

    change(server, user, PASSWORDS[2])
    pipeline.wait_for(lambda: any(one["refused"] for one in pipeline.events("source.away")), runner)
    backs = len(pipeline.events("source.back"))
    secret.write_text(PASSWORDS[2])
    pipeline.wait_for(lambda: len(pipeline.events("source.back")) > backs, runner)
    server.execute(f"INSERT INTO `{database}`.t VALUES (2, 2)")
    pipeline.finish(runner)
    verified = pipeline.command("verify")
    assert verified.returncode == 0, verified.stdout
    assert_equal(source_table(server, database, "t"), pipeline.mirror("t"), ["id"])
    written = pipeline.output + "".join(path.read_text() for path in (pipeline.home / "journal").glob("*.jsonl"))
    assert not any(password in written for password in PASSWORDS)


def with_file(pipeline: Pipeline, password: str) -> Path:
    """Let the spec name a file with the password; returns it."""
    file = pipeline.folder / "secret"
    file.write_text(password)
    text = pipeline.spec.read_text()
    pipeline.spec.write_text(text.replace('password_env = "TIDEMARK_TEST_PASSWORD"', 'password_file = "secret"'))
    return file


def change(server: Server, user: str, password: str) -> None:
    """Change the account's password, and end all of its connections."""
    server.execute(f"ALTER USER '{user}'@'%' IDENTIFIED BY '{password}'")
    for (connection,) in server.execute("SELECT ID FROM information_schema.PROCESSLIST WHERE USER = %s", (user,)):
        with suppress(pymysql.Error):  # it has just ended
            server.execute(f"KILL {connection}")


def committed(pipeline: Pipeline) -> int:
    """The changes that epochs have committed."""
    return sum(one["changes"] for one in pipeline.events("epoch.committed"))
