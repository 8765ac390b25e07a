"""Servers that keep names in lower case, and users who may open few connections: said before anything is captured."""

import json
from collections.abc import Callable

from engine.globs import folded
from tests.live.conftest import PipelineFactory
from tests.live.support.compare import lake_table
from tests.servers import PASSWORD, Server, create_user
from tests.servers.users import GRANTS

PREFLIGHT_FAILED = 3


FOLDING_SPEC = """
[tables."SHOP.Customers"]
exclude = ["Secret"]
mask = ["mail"]
[tables."Shop.Größe"]
where = "id > 1"
"""


def test_globs_follow_a_server_that_disregards_case(
    flavor: str, private_server: Callable[..., Server], new_pipeline: PipelineFactory
) -> None:
    """Every setting and every command names tables in any case, as with lower_case_table_names = 1. What is excluded stays out."""
    server = private_server(flavor, lower_case_table_names=1)
    _folds_as_the_server(server)
    server.execute("CREATE DATABASE Shop")
    for name in ("Orders", "Audit_Log", "Größe"):
        server.execute(f"CREATE TABLE Shop.`{name}` (id INT PRIMARY KEY)")
        server.execute(f"INSERT INTO Shop.`{name}` VALUES (1), (2), (3)")
    server.execute("CREATE TABLE Shop.Customers (id INT PRIMARY KEY, mail VARCHAR(9), secret INT)")
    server.execute("INSERT INTO Shop.Customers VALUES (1, 'a@b', 7)")
    pipeline = new_pipeline(
        server,
        "shop",
        tables=["SHOP.*", "!Shop.Audit_*"],
        snapshot='priority = ["Shop.GRÖSSE"]\ntables = { "Shop.Orders" = { chunk_rows = 1 } }',
        sink='tables = { "Shop.Cust*" = { mirror = "merge_on_read" } }',
        more=FOLDING_SPEC,
    )
    checks = json.loads(pipeline.command("check", "--json").stdout)["checks"]
    named = [one["name"] for one in checks if one["actual"] == "matches none"]
    assert named == ["snapshot.priority shop.grösse"]
    assert {t["table"]: len(t["chunks"]) for t in json.loads(pipeline.command("plan", "--json").stdout)["tables"]} == {
        "shop.customers": 1,
        "shop.größe": 1,
        "shop.orders": 3,
    }
    pipeline.run("caught-up")
    assert lake_table(pipeline.mirror("customers")).column_names[:2] == ["id", "mail"]
    assert lake_table(pipeline.mirror("gr%C3%B6%C3%9Fe"))["id"].to_pylist() == [2, 3]
    for verb, *arguments in (
        ("redump", "--table", "Shop.Orders", "--keys", "1"),
        ("add-table", "--table", "Shop.Audit_LOG"),
        ("pause", "--table", "Shop.Orders"),
        ("resume", "--table", "Shop.ORDERS"),
    ):
        sent = pipeline.command(verb, *arguments)
        assert sent.returncode == 0, sent.stdout + sent.stderr
    pipeline.run("caught-up")
    assert not pipeline.events("command.refused")
    states = {table["table"]: table["state"] for table in pipeline.status()["tables"]}
    assert states == dict.fromkeys(["shop.audit_log", "shop.customers", "shop.größe", "shop.orders"], "streaming")
    for verb in ("verify", "audit", "remove-table"):
        result = pipeline.command(verb, "--table", "Shop.Orders")
        assert result.returncode == 0, result.stdout + result.stderr


def _folds_as_the_server(server: Server) -> None:
    """For every character that a name may have, and a table of some that differ in newer Unicode."""
    characters = "".join(map(chr, [*range(1, 0xD800), *range(0xE000, 0x10000)]))
    ((lower,),) = server.execute("SELECT LOWER(CONVERT(%s USING utf8mb3) COLLATE utf8mb3_general_ci)", (characters,))
    assert [(a, b) for a, b in zip(map(folded, characters), lower, strict=True) if a != b] == []
    name = "xΣİÄẞȠⱠ"
    server.execute("CREATE DATABASE folding")
    server.execute(f"CREATE TABLE folding.`{name}` (id INT)")
    ((stored,),) = server.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'folding'")
    assert stored == folded(name)


def test_an_exclusion_in_another_case_is_refused_where_case_counts(
    server: Server, database: str, new_pipeline: PipelineFactory
) -> None:
    """It would exclude nothing, and a table that someone excluded would be captured."""
    server.execute(f"CREATE TABLE `{database}`.audit_log (id INT PRIMARY KEY)")
    pipeline = new_pipeline(server, database, tables=[f"{database}.*", f"!{database}.Audit_*"])
    refused = pipeline.command("check")
    assert refused.returncode == PREFLIGHT_FAILED
    assert f"The nearest table is {database}.audit_log." in " ".join(refused.stdout.split())


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
