"""What a test asks of a server, and the command-line options that give it."""

import os
from dataclasses import dataclass, replace
from typing import Any

FLAVORS = ("mysql", "mariadb")
INIT_OPTIONS = ("lower_case_table_names", "innodb_page_size", "innodb_data_file_path")


@dataclass(frozen=True)
class Options:
    """Hashable options of a server; `extra` holds further ``--name=value`` options, sorted by name."""

    flavor: str
    release: str = ""  # MariaDB only: `binaries.NEWEST`, or the machine's own
    gtid: bool = True  # MySQL only: MariaDB always writes its GTIDs
    row_metadata: str = "FULL"  # FULL | MINIMAL (both), NO_LOG (MariaDB)
    row_image: str = "FULL"
    time_zone: str | None = None  # an offset such as "+05:30"; zone tables are not loaded
    charset: str = "utf8mb4"
    tls: bool = False
    sync_binlog: int = 1
    buffer_pool: str = "256M"
    on_disk: bool = False  # for more data than memory holds
    extra: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, flavor: str, **options: Any) -> "Options":
        """Options from keywords: the fields above by name, anything else as ``--name=value`` of the server."""
        if flavor not in FLAVORS:
            raise ValueError(f"no server flavor {flavor!r}; there are {', '.join(FLAVORS)}")
        return cls(flavor).changed(**options)

    def changed(self, **options: Any) -> "Options":
        """These options with some changed, by the same rules as `of`."""
        own = {name: value for name, value in options.items() if name in self.__dataclass_fields__}
        extra = dict(self.extra) | {name: _value(value) for name, value in options.items() if name not in own}
        return replace(self, **own, extra=tuple(sorted(extra.items())))

    def initial(self) -> tuple[tuple[str, str], ...]:
        """Those extra options that a data directory is initialised with and cannot change afterwards."""
        return tuple((name, value) for name, value in self.extra if name.replace("-", "_") in INIT_OPTIONS)


def arguments(options: Options, server_id: int) -> list[str]:
    """The server's command-line options but for folders, port and certificates."""
    settings: dict[str, Any] = {
        "server-id": server_id,
        "log-bin": f"{options.flavor}-bin",
        "binlog-format": "ROW",
        "binlog-row-image": options.row_image,
        "binlog-row-metadata": options.row_metadata,
        "sync-binlog": options.sync_binlog,
        "character-set-server": options.charset,
        "innodb-buffer-pool-size": options.buffer_pool,
        "max-connections": 300,
        "max-allowed-packet": "64M",
        "local-infile": 1,
        "log-bin-trust-function-creators": 1,
        "secure-file-priv": "",
    }
    if options.time_zone:
        settings["default-time-zone"] = options.time_zone
    if options.flavor == "mysql":
        on = "ON" if options.gtid else "OFF"
        settings |= {"gtid-mode": on, "enforce-gtid-consistency": on, "mysqlx": "OFF"}
        settings |= {"innodb-redo-log-capacity": "256M", "auto-generate-certs": "OFF"}
        if not options.tls:
            settings["tls-version"] = ""
    else:
        settings |= {"innodb-log-file-size": "256M"}
    for name, value in options.extra:
        settings[name.replace("_", "-")] = value
    return ["--skip-name-resolve", *(f"--{name}={value}" for name, value in settings.items())]


def run_as() -> list[str]:
    """Servers refuse to run as root unless told to."""
    return ["--user=root"] if os.geteuid() == 0 else []


def _value(value: Any) -> str:
    return ("1" if value else "0") if isinstance(value, bool) else str(value)
