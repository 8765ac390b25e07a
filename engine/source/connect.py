"""Connections to the source: login, server identity and session settings.

Sessions are read-only: they send only SELECT, SHOW, SET of session variables, prepared SELECTs and binlog dumps.
"""

import re
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from engine.base import redaction
from engine.base.errors import (
    BinlogOffError,
    ConnectionLimitError,
    GtidModeError,
    LoginRefusedError,
    PreflightError,
    PrivilegesMissingError,
    SchemaChangedError,
    SourceAwayError,
    SourceChangedError,
    SourceLostError,
    TableGoneError,
    TidemarkError,
    TransientError,
)
from engine.spec.globs import EXACT, NameRule

if TYPE_CHECKING:
    import pymysql  # readers of specs, ledgers and journals need none

Connection: TypeAlias = "pymysql.connections.Connection[Any]"
Flavor = Literal["mysql", "mariadb"]
SILENCE_S = 30.0


RESNAPSHOT_ALL = "To resnapshot the tables: tidemark redump SPEC --all"


_passwords: dict[str, str] = {}
"""By file, the password that this process read last."""


@dataclass(frozen=True)
class Endpoint:
    """The address of a source and its login; `password` never appears in a repr.

    Two endpoints with different passwords of one account are equal: an open session outlives a change of the password.
    """

    host: str
    port: int
    user: str
    password: str = field(compare=False)
    """The password when the endpoint was made, or sent to a reader."""
    tls: str = "preferred"
    tls_ca: str | None = None
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 120.0
    silence_s: float = SILENCE_S
    """Seconds without data after which a binlog dump counts as dead."""
    identity: str | None = None
    """The required `Server.identity`; None while unknown."""
    few_connections: bool = False
    """Whether the user may open only a few connections: readers keep none from task to task."""
    password_file: str | None = None
    """The file that `password` was read from; read again at each login, and when the endpoint is sent to a reader."""
    tls_ca_text: str = field(default="", compare=False, repr=False)
    """The certificates in `tls_ca` when the endpoint was sent to a reader, which may not have the file."""

    def current_password(self) -> str:
        """The password to log in with now.

        A reader on another host may not have the file: there, the password with which its task was sent counts. A file
        that is empty or gone is being replaced at this moment: the password that this process read last counts.
        """
        if self.password_file is None:
            return self.password
        with suppress(OSError, UnicodeDecodeError):
            if secret := redaction.secret_in(self.password_file):
                _passwords[self.password_file] = secret
        return _passwords.get(self.password_file, self.password)

    def __getstate__(self) -> dict[str, object]:
        """Readers get the current password and certificates."""
        sent = {**vars(self), "password": self.current_password()}
        if self.tls_ca is not None:
            with suppress(OSError):  # then the reader needs a file of its own, and says so
                # Bundles have names of authorities in comments, in any language.
                sent["tls_ca_text"] = Path(self.tls_ca).read_text(encoding="ascii", errors="ignore")
        return sent

    def __repr__(self) -> str:
        return f"Endpoint({self.user}@{self.host}:{self.port})"


@dataclass(frozen=True)
class Server:
    """The connected server.

    Flavor, version as (major, minor, patch) and text, and an identity that survives restarts.
    """

    flavor: Flavor
    version: tuple[int, ...]
    version_text: str
    identity: str
    names: NameRule = EXACT

    @property
    def binlog_status(self) -> str:
        """The statement that shows the current position (MySQL 8.4 removed `SHOW MASTER STATUS`)."""
        return "SHOW BINARY LOG STATUS" if self.flavor == "mysql" and self.version >= (8, 2) else "SHOW MASTER STATUS"


_GRANT = "Grant the account what `tidemark check` lists, then start the run again."
# Server error number -> (error class, hint). Numbers: MySQL server error reference.
_ERRORS: dict[int, tuple[type[TidemarkError], str]] = {
    1054: (
        SchemaChangedError,
        "A column was dropped or renamed. The binlog shows how the table changed; it is read again after that.",
    ),
    1146: (SchemaChangedError, "The table was dropped or renamed. The binlog will show it in a moment."),
    1176: (SchemaChangedError, "The index used to read it was dropped. The binlog will show it in a moment."),
    1814: (
        TableGoneError,
        (
            "Import a tablespace, and the table is copied and streamed again. Or exclude it: "
            "tidemark remove-table SPEC --table …"
        ),
    ),
    1412: (SchemaChangedError, "The table was altered while it was being read. Tidemark reads it again."),
    1044: (PrivilegesMissingError, _GRANT),
    1045: (
        LoginRefusedError,
        (
            "Check source.user, and the password that source.password_env or source.password_file names. The file is "
            "read at each login, the variable when the run starts. A console gives its own variables to the runners "
            "that it starts: set a changed password there too, and restart the console. The server may require TLS."
        ),
    ),
    3159: (LoginRefusedError, "The server requires TLS: set source.tls to preferred, required or verify."),
    1049: (PreflightError, "Check the database's name."),
    1142: (PrivilegesMissingError, _GRANT),
    1143: (PrivilegesMissingError, "Grant the user SELECT on the whole table; `tidemark check` lists the statement."),
    1227: (PrivilegesMissingError, _GRANT),
    1236: (SourceLostError, "The server cannot send this part of the binlog. " + RESNAPSHOT_ALL),
    1130: (LoginRefusedError, "Allow this host to log in (the host part of the user's account)."),
    1698: (LoginRefusedError, "Check source.user; the account may require another login method."),
    1040: (SourceAwayError, "The server has no free connection: raise max_connections, or end some."),
    1129: (SourceAwayError, "The server blocks this host: run FLUSH HOSTS there (MariaDB: mariadb-admin flush-hosts)."),
    1203: (ConnectionLimitError, "The user has no free connection: raise its max_user_connections, or end some."),
    1226: (ConnectionLimitError, "The user has reached a resource limit: raise the limits of its account."),
}
_AWAY = frozenset(
    {
        1047,
        1053,
        1077,
        1079,
        1080,
        1152,
        1158,
        1159,
        1160,
        1161,
        1184,
        1927,
        2002,
        2003,
        2005,
        2006,
        2013,
        2055,
        3168,
        4031,
    }
)
"""The connection broke, or could not be opened. 1047: a Galera node that is not ready; 1053: shutdown."""
_CANNOT_CONNECT = 2003
_DUMP_FAILED = 1236
_SAME_ID = 4052
_NO_BINARY_LOGGING = 1381
_NOT_OPEN = "Binary log is not open"
"""The text of error 1236 for a dump while the binlog is off."""
# Error 1236 covers nearly everything that can happen to a dump. Its text, the same on both servers, tells what did.
_DUMPS: tuple[tuple[tuple[int, ...], str, type[TidemarkError], str], ...] = (
    (
        (_DUMP_FAILED, _SAME_ID),
        "same server_uuid/server_id",
        TransientError,
        "Another binlog reader has the same server id: set source.server_id to a range of its own. Tidemark retries.",
    ),
    (
        (_DUMP_FAILED,),
        "first log file",
        SourceLostError,
        "The server has purged this part of the binlog. To avoid this, raise binlog_expire_logs_seconds. "
        + RESNAPSHOT_ALL,
    ),
    (
        (_DUMP_FAILED,),
        "anonymous transaction",
        GtidModeError,
        "Set gtid_mode = ON_PERMISSIVE, run the pipeline until it has caught up, then set gtid_mode = ON.",
    ),
    (
        (_DUMP_FAILED,),
        "GTID-transaction",
        GtidModeError,
        "Set gtid_mode = OFF_PERMISSIVE, run the pipeline until it has caught up, then set gtid_mode = OFF.",
    ),
    (
        (_DUMP_FAILED,),
        "max_allowed_packet",
        SourceLostError,
        (
            "If the source was reset, its binlog has other bytes there: start the pipeline, which says what to do. "
            "Otherwise raise max_allowed_packet on the server to its largest value (1G), then start again."
        ),
    ),
)


_LONGEST_NAMED = 300
"""Characters of the longest statement that an error names. Two names of tables may have 64 each."""
_without_tls: set[tuple[str, int]] = set()
"""Servers that offered no TLS, by host and port."""
_REFUSED_WITHOUT_TLS = (1045, 3159)
"""Server errors: the account, or the server, may require TLS."""


def explain(error: "pymysql.Error", doing: str) -> TidemarkError:
    """Convert an error of the driver to one of ours: terminal if a retry cannot help, otherwise transient."""
    import pymysql

    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    if number == _NO_BINARY_LOGGING or (number == _DUMP_FAILED and _NOT_OPEN in text):
        return binlog_off()
    broken = number in _AWAY or (not number and isinstance(error, pymysql.err.InterfaceError))  # used after it broke
    usual: type[TidemarkError] = SourceAwayError if broken else TransientError
    kind, hint = _ERRORS.get(number, (usual, "Tidemark retries. If it keeps failing, look at the server's error log."))
    kind, hint = next(((k, h) for numbers, says, k, h in _DUMPS if number in numbers and says in text), (kind, hint))
    if number == _CANNOT_CONNECT:
        hint = "Check source.host and source.port, and that the server is running and reachable from here."
    end_of_log = "Committed data stays correct, but changes after it can no longer be read from this server."
    detail = end_of_log if kind is SourceLostError else "Committed data is unaffected."
    if kind is GtidModeError:
        detail = (
            "With gtid_mode = ON the server sends no transaction without a GTID, with OFF none with one; the log "
            "contains such transactions. Published data is correct up to the committed position, and nothing is lost."
        )
    return kind(f"{doing} failed: {text} (error {number}).", detail=detail, hint=hint)


def binlog_off(at: str | None = None) -> BinlogOffError:
    """The error for a source that writes no binlog; at: when it wrote none, if it writes one again."""
    return BinlogOffError(
        "The source writes no binlog: log_bin is off."
        if at is None
        else f"The source wrote no binlog at {at}, after the committed position.",
        detail="Rows that change while the binlog is off are in no binlog, so nothing tells which. Published data is "
        "correct up to the committed position.",
        hint=("Start the server with log_bin. " if at is None else "") + RESNAPSHOT_ALL,
    )


def open_connection(endpoint: Endpoint) -> Connection:
    """Open a connection with the session settings that decoding relies on: UTC, utf8mb4, autocommit, no padding.

    Raises LoginRefusedError if the login is refused, SourceAwayError if the server cannot be reached.
    """
    import pymysql

    connection = _login(endpoint)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00', sql_mode = '', group_concat_max_len = 1048576")
            # The default ends a dump if its reader pauses for a minute.
            cursor.execute("SET net_write_timeout = 600, net_read_timeout = 600")
            # Query limits are meant for applications; reading a chunk may take any time.
            limit = "max_statement_time" if "mariadb" in connection.get_server_info().lower() else "max_execution_time"
            cursor.execute(f"SET SESSION {limit} = 0, sql_big_selects = 1")
            if "mariadb" not in connection.get_server_info().lower():
                # Use current statistics: by default they are up to a day old, and querying them writes them to disk.
                cursor.execute("SET SESSION information_schema_stats_expiry = 0")
            # Row images contain the generated invisible primary key, so the catalog must show it (MySQL 8.0.30 on).
            cursor.execute("SHOW SESSION VARIABLES LIKE 'show_gipk_in_create_table_and_information_schema'")
            if cursor.fetchall():
                cursor.execute("SET SESSION show_gipk_in_create_table_and_information_schema = ON")
    except pymysql.Error as error:
        raise explain(error, "Setting the session up") from error
    connection._read_timeout = round(endpoint.read_timeout_s)  # noqa: SLF001 - until here it was the login timeout
    if endpoint.identity is not None:
        check_identity(endpoint.identity, describe(connection))
    return connection


def break_off(connection: Connection) -> None:
    """Break a connection on which another thread may be waiting; that thread gets a SourceAwayError."""
    with suppress(OSError, AttributeError):  # already closed
        connection._sock.shutdown(socket.SHUT_RDWR)  # noqa: SLF001 - PyMySQL has no such call


def check_identity(expected: str, server: Server) -> None:
    """Raises SourceChangedError if another server answers than the one in the ledger: positions mean nothing there."""
    if server.identity != expected:
        raise SourceChangedError(
            f"The source is now another server: {server.identity}; the ledger streamed {expected}.",
            detail="Nothing was read from it: the committed position means nothing there.",
            hint="Start again: the run continues by GTID if the new server provably has the same history.",
        )


def _login(endpoint: Endpoint) -> Connection:
    import pymysql

    options = {
        "host": endpoint.host,
        "port": endpoint.port,
        "user": endpoint.user,
        "password": endpoint.current_password(),
        "charset": "utf8mb4",
        "autocommit": True,
        "connect_timeout": max(1, round(endpoint.connect_timeout_s)),
        "read_timeout": max(1, round(min(endpoint.connect_timeout_s, endpoint.read_timeout_s))),
    }
    doing = f"Connecting to {endpoint.host}:{endpoint.port} as {endpoint.user}"
    try:
        if endpoint.tls == "off":
            return pymysql.connect(**options, ssl_disabled=True)
        if endpoint.tls == "preferred":
            return _login_preferring_tls(options)
        return pymysql.connect(**options, ssl=_tls(endpoint))
    except pymysql.Error as error:
        raise explain(error, doing) from error


def _login_preferring_tls(options: dict[str, Any]) -> Connection:
    """Use TLS if the server offers it, as the servers' own clients do.

    It does so on this machine too, which may be the end of a tunnel.

    A server that offered none is asked again only if it refuses a login without it.
    """
    import pymysql

    server = (str(options["host"]), int(options["port"]))
    if server not in _without_tls:
        try:
            return pymysql.connect(**options, ssl=_unverified())
        except pymysql.OperationalError as error:
            if "SSL" not in str(error):
                raise
            _without_tls.add(server)
    try:
        return pymysql.connect(**options, ssl_disabled=True)
    except pymysql.OperationalError as error:
        if error.args[0] not in _REFUSED_WITHOUT_TLS:
            raise
        with suppress(pymysql.OperationalError):
            connection = pymysql.connect(**options, ssl=_unverified())
            _without_tls.discard(server)
            return connection
        raise


def _tls(endpoint: Endpoint) -> ssl.SSLContext:
    if endpoint.tls == "required":
        return _unverified()
    if endpoint.tls_ca_text and not Path(endpoint.tls_ca or "").is_file():
        return ssl.create_default_context(cadata=endpoint.tls_ca_text)
    return ssl.create_default_context(cafile=endpoint.tls_ca)


def _unverified() -> ssl.SSLContext:
    """TLS without verification. Loads no certificate authorities, which would take 50 ms of CPU time per connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def query(connection: Connection, sql: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
    """Run a statement and return all rows as dictionaries. Raises one of our errors."""
    import pymysql

    try:
        with connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute(sql, tuple(parameters) or None)
            return list(cursor.fetchall())
    except pymysql.Error as error:
        raise explain(error, _named(sql)) from error


def _named(sql: str) -> str:
    """A statement, for an error: whole, or not at all if it is long or may contain values of rows."""
    line = " ".join(sql.split())
    return "A statement" if len(line) > _LONGEST_NAMED or " WHERE " in line.upper() else f"The statement {line}"


def describe(connection: Connection) -> Server:
    """Describe the connected server. Its identity is the server uuid; on MariaDB, which has none, the server id."""
    (row,) = query(connection, "SELECT VERSION() AS v, @@server_id AS id, @@lower_case_table_names AS names")
    names = NameRule(int(row["names"]))
    flavor: Flavor = "mariadb" if "mariadb" in row["v"].lower() else "mysql"
    numbers = re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)\.(\d+)", row["v"])
    version = tuple(int(n) for n in numbers.groups()) if numbers else (0,)
    if flavor == "mariadb":
        return Server(flavor, version, row["v"], f"mariadb-server-id-{row['id']}", names)
    return Server(flavor, version, row["v"], query(connection, "SELECT @@server_uuid AS u")[0]["u"], names)


def quote(*names: str) -> str:
    """Quote identifiers and join them with dots. The only place that does it."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)
