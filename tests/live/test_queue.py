"""Commands that wait for a runner are listed and withdrawn, and the run that begins carries out the others."""

import json

from tests.live.conftest import PipelineFactory
from tests.servers import Server
from tests.support.depth import on


@on("mariadb")
def test_a_withdrawn_command_is_not_carried_out_by_the_next_run(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """Nor mentioned in its journal. A command that is not there is refused."""
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY)")
    server.execute(f"INSERT INTO `{database}`.t VALUES (1), (2)")
    pipeline = new_pipeline(server, database)
    for setting in ("readers=3", "max_rows_per_s=900000"):
        sent = pipeline.command("throttle", setting, "--reason", "busy hours")
        assert sent.returncode == 0, sent.stderr
    first, second = pipeline.status()["queue"]
    assert (first["what"], second["what"]) == ("readers=3", "max_rows_per_s=900000")
    listed = pipeline.command("queue").stdout
    assert first["id"] in listed
    assert "busy hours" in listed
    assert "2 commands in the queue, no runner is alive" in pipeline.command("status").stdout
    done = pipeline.command("withdraw", first["id"], "--reason", "not needed", "--json")
    assert [one["id"] for one in json.loads(done.stdout)["withdrawn"]] == [first["id"]]
    again = pipeline.command("withdraw", first["id"])
    assert again.returncode == 2
    assert "No command" in again.stderr
    pipeline.run("caught-up")
    assert pipeline.status()["controls"]["throttle"] == {"max_rows_per_s": 900000}
    answered = {event["id"] for event in pipeline.events("command.accepted", "command.refused", "command.done")}
    assert answered == {second["id"]}
    assert pipeline.status()["queue"] == []
