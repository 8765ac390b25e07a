"""What a change log cannot take begins a new generation of it: no table stops, and nobody has to act."""

from collections.abc import Callable
from pathlib import Path

from tests.live.conftest import PipelineFactory
from tests.live.support.compare import assert_equal, lake_table, source_table
from tests.live.support.pipeline import Pipeline
from tests.servers import Server
from tests.support.delta import rows_at

CREATED = "(id INT PRIMARY KEY, v {}, w INT)"
CHANGES = {
    "again": ("VARCHAR(20)", ("ALTER TABLE {t} DROP COLUMN v", "ALTER TABLE {t} ADD COLUMN v INT DEFAULT 7")),
    "dated": ("DATETIME", ("ALTER TABLE {t} MODIFY v TIMESTAMP NULL",)),
    "binary": ("VARCHAR(20)", ("ALTER TABLE {t} MODIFY v VARBINARY(20)",)),
    "cased": ("INT", ("ALTER TABLE {t} RENAME COLUMN v TO V",)),
    "swapped": (
        "DATETIME",
        (
            "CREATE TABLE {d}._other (id INT PRIMARY KEY, v INT, w INT)",
            "RENAME TABLE {t} TO {d}._old, {d}._other TO {t}",
        ),
    ),
}
"""By table, the type of its column, and what happens to it."""


def test_what_the_change_log_cannot_take_begins_again(
    server_with: Callable[..., Server],
    flavor: str,
    new_database: Callable[[Server], str],
    new_pipeline: PipelineFactory,
) -> None:
    """Each table is resnapshotted by itself and streams on.

    Its old change log is beside the new one, whole and readable.
    """
    server = server_with(flavor, row_metadata="MINIMAL" if flavor == "mysql" else "FULL")
    database = new_database(server)
    for name, (kind, _) in CHANGES.items():
        server.execute(f"CREATE TABLE {database}.{name} {CREATED.format(kind)}")
        server.execute(f"INSERT INTO {database}.{name} (id, w) VALUES (1, 1), (2, 2)")
    pipeline = new_pipeline(server, database, poll=0.3, merge=1.0, tables=[f"{database}.*", "!*._*"])
    runner = pipeline.start()
    pipeline.wait_for(lambda: _streaming(pipeline) == dict.fromkeys(CHANGES, 1), runner)
    for name, (_, statements) in CHANGES.items():
        server.execute(f"INSERT INTO {database}.{name} (id, w) VALUES (3, 3)")
        for statement in statements:
            server.execute(statement.format(t=f"{database}.{name}", d=database))
    pipeline.wait_for(lambda: min(_streaming(pipeline).values()) >= 2, runner)
    for name in CHANGES:
        server.execute(f"INSERT INTO {database}.{name} (id, w) VALUES (9, 9)")
    pipeline.finish(runner)
    kept = {event["table"].partition(".")[2]: Path(event["folder"]) for event in pipeline.events("changelog.kept")}
    assert kept.keys() == CHANGES.keys()
    for name in CHANGES:
        source = source_table(server, database, name)
        assert_equal(source, lake_table(pipeline.mirror(name)).select(source.column_names))
        assert [row["id"] for row in rows_at(kept[name]).to_pylist()] == [3]
        assert rows_at(pipeline.changes(name)).to_pylist()[-1]["id"] == 9
        assert source.schema.field(1).name in rows_at(pipeline.changes(name)).column_names
    assert not [event for event in pipeline.events("table.state") if event["state"] == "stopped"]


def _streaming(pipeline: Pipeline) -> dict[str, int]:
    """How often each table began to stream."""
    states = [e["table"].partition(".")[2] for e in pipeline.events("table.state") if e["state"] == "streaming"]
    return {name: states.count(name) for name in CHANGES}
