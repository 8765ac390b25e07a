"""The account of a connection, in statements that are shown and in the catalog's privileges."""

from contextlib import closing

from engine.source.column_grants import missing_columns
from engine.source.connect import Endpoint, open_connection
from engine.source.own_account import own_account
from engine.source.programs import sees_whole_catalog
from tests.servers import Server
from tests.servers.users import PASSWORD


def test_an_account_with_an_at_sign_and_a_quote_is_named_as_it_is(server: Server) -> None:
    """Its grants count, and a statement that names it can be run."""
    quoted, name = "'o''hara@shop'@'%'", "o'hara@shop"
    server.execute(f"CREATE USER {quoted} IDENTIFIED BY '{PASSWORD}'")
    server.execute(f"GRANT SELECT ON *.* TO {quoted}")
    try:
        endpoint = Endpoint(server.host, server.port, name, PASSWORD)
        with closing(open_connection(endpoint)) as connection:
            assert own_account(connection) == quoted
            assert not sees_whole_catalog(connection)
            assert missing_columns(connection, {("d", "t"): [{"name": "a", "place": 2, "privileges": ""}]}) == {}
            server.execute(f"GRANT TRIGGER, SHOW VIEW ON *.* TO {own_account(connection)}")
        with closing(open_connection(endpoint)) as connection:
            assert sees_whole_catalog(connection)
    finally:
        server.execute(f"DROP USER {quoted}")
