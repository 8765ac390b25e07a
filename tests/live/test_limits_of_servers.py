"""Servers that keep names in lower case, and users who may open few connections: said before anything is captured."""

from collections.abc import Callable

from tests.live.conftest import PipelineFactory
from tests.servers import PASSWORD, Server, create_user
from tests.servers.users import GRANTS
from tests.support.depth import on

PREFLIGHT_FAILED = 3


@on("mariadb")
def test_an_exclusion_in_another_case_is_refused(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """A server with lower_case_table_names = 1 keeps all names in lower case; the fix that is named lets the run begin."""
    server = private_server(flavor, lower_case_table_names=1)
    server.execute("CREATE DATABASE Shop")
    for name in ("Orders", "Audit_Log"):
        server.execute(f"CREATE TABLE Shop.{name} (id INT PRIMARY KEY)")
    pipeline = new_pipeline(server, "shop", tables=["shop.*", "!Shop.Audit_*"])
    for verb in ("check", "run"):
        refused = pipeline.command(verb)
        assert refused.returncode == PREFLIGHT_FAILED
        assert "The nearest table is shop.audit_log." in refused.stdout + refused.stderr
    pipeline.spec.write_text(pipeline.spec.read_text().replace("!Shop.Audit_*", "!shop.audit_*"))
    pipeline.run("caught-up")
    assert [table["table"] for table in pipeline.status()["tables"]] == ["shop.orders"]


def test_too_few_connections_are_refused_and_the_fix_is_enough(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """With two readers a run needs six connections; with one, five."""
    create_user(server, "few", GRANTS, PASSWORD)
    server.execute("ALTER USER 'few'@'%' WITH MAX_USER_CONNECTIONS 5")
    server.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY)")
    server.execute(f"INSERT INTO `{database}`.t VALUES (1), (2)")
    pipeline = new_pipeline(server, database, user="few", slots=2)
    refused = pipeline.command("run", "--until", "caught-up")
    assert refused.returncode == PREFLIGHT_FAILED
    assert "WITH MAX_USER_CONNECTIONS 6" in refused.stdout + refused.stderr
    pipeline.spec.write_text(pipeline.spec.read_text().replace("local[2]", "local[1]"))
    pipeline.run("caught-up")
    server.execute("DROP USER 'few'@'%'")
