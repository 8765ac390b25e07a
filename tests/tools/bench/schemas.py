"""The tables that are measured.

A narrow one, as in most published figures, and a wide one with a column of nearly every type.

Every value is a function of the id, so that servers and runs hold the same rows. In the wide table every column but the
key is NULL in half of the rows, each in other ones.
"""

from contextlib import closing
from dataclasses import dataclass

from tests.live.support.seed import BATCH_ROWS, CREATE, DIGITS, FILL
from tests.servers import Server


@dataclass(frozen=True)
class Schema:
    """A table, and how it is filled and changed.

    create, fill: with `{table}`; fill takes the ids after one and up to another. insert, update: single-row statements
    of the procedure of `workloads`, with `{table}`; update serves bulk too. rows, changes: how many are measured by
    default.
    """

    name: str
    table: str
    columns: int
    create: str
    fill: str
    insert: str
    update: str
    rows: int
    changes: int


NARROW = Schema(
    name="narrow",
    table="orders",
    columns=10,
    create=CREATE,
    fill=FILL,
    insert="INSERT INTO {table} (customer_id, sku, quantity, price, status, note, created_at, updated_at, score) "
    "VALUES (n, CONCAT('sku-', n), 1, 9.99, 'new', NULL, NOW(6), NOW(), n / 7)",
    update="quantity = quantity + 1, status = 'changed'",
    rows=2_000_000,
    changes=500_000,
)

# Of `a` to `d`, hashes of the id, the values are made; the bits of `a` say which of them are NULL.
_WIDE = (
    ("tiny TINYINT", "b MOD 256 - 128"),
    ("tiny_u TINYINT UNSIGNED", "b MOD 256"),
    ("small SMALLINT", "b MOD 65536 - 32768"),
    ("medium_u MEDIUMINT UNSIGNED", "b MOD 16777216"),
    ("whole INT", "c MOD 1000000 - 500000"),
    ("whole_u INT UNSIGNED", "c"),
    ("big BIGINT", "(c - 2147483648) * 2147483648 + b"),
    ("big_u BIGINT UNSIGNED", "CAST(c AS UNSIGNED) * 4294967296 + b"),
    ("price DECIMAL(10,2)", "(b MOD 2000000 - 1000000) / 100"),
    ("amount DECIMAL(30,10)", "(c - 2147483648) * 1000000007.0 + b / 4294967296"),
    (
        "huge DECIMAL(60,20)",
        "CAST(CONCAT(IF(b & 1, '-', ''), c, d, b, '.', LPAD(d, 10, '0'), LPAD(b, 10, '0')) AS DECIMAL(60,20))",
    ),
    ("ratio FLOAT", "b / 4294967296"),
    ("score DOUBLE", "SQRT(c) * IF(b & 2, -1, 1)"),
    ("day DATE", "DATE_ADD('1990-01-01', INTERVAL c MOD 16000 DAY)"),
    (
        "created_at DATETIME(6)",
        "TIMESTAMPADD(MICROSECOND, b MOD 1000000, TIMESTAMPADD(SECOND, c MOD 1000000000, '2000-01-01'))",
    ),
    ("updated_at TIMESTAMP NULL", "TIMESTAMPADD(SECOND, d MOD 1000000000, '2000-01-01')"),
    ("took TIME(3)", "SEC_TO_TIME((c MOD 360000000 - 180000000) / 1000)"),
    ("built YEAR", "1950 + d MOD 100"),
    ("code CHAR(8)", "LEFT(HEX(c), 8)"),
    (
        "name VARCHAR(80)",
        "CONCAT(ELT(1 + b MOD 5, 'Åsa Öberg', 'Νίκος Παππάς', '山田 太郎', 'Ada Lovelace', 'Łukasz Żak'), ' ', c)",
    ),
    (
        "city VARCHAR(60) CHARACTER SET latin1",
        "CONCAT(ELT(1 + d MOD 5, 'Malmö', 'São Paulo', 'Springfield', 'Düsseldorf', 'Lyon'), ' ', b MOD 1000)",
    ),
    (
        "note TEXT",
        (
            "CONCAT(ELT(1 + c MOD 3, 'Bitte klingeln: ', 'please leave it at the door, ', '配送 🚚 – '), id, "
            "REPEAT(' …', d MOD 12))"
        ),
    ),
    ("token VARBINARY(32)", "UNHEX(CONCAT(LPAD(HEX(b), 8, '0'), LPAD(HEX(c), 8, '0'), LPAD(HEX(d), 8, '0')))"),
    ("body BLOB", "REPEAT(UNHEX(LPAD(HEX(c), 8, '0')), d MOD 20)"),
    ("status ENUM('new','paid','packed','shipped','returned')", "1 + b MOD 5"),
    ("tags SET('gift','fragile','cold','express','insured','übergroß')", "c MOD 64"),
    ("flags BIT(12)", "d MOD 4096"),
    ("active BIT(1)", "d & 1"),
    (
        "document JSON",
        """CONCAT('{"sku": "A-', b MOD 10000, '", "quantity": ', c MOD 9, ', "price": ', d MOD 100000 / 100, \
', "gift": ',
             ELT(1 + (b & 1), 'true', 'false'), ', "note": "für ', c MOD 1000, '"}')""",
    ),
)
_WIDE_VALUES = ",\n       ".join(["id", *(f"IF(a >> {n} & 1, NULL, {value})" for n, (_, value) in enumerate(_WIDE))])
_WIDE_INSERT = f"""
INSERT INTO {{table}}
SELECT {_WIDE_VALUES}
FROM (SELECT id, CAST(CRC32(id) AS SIGNED) a, CAST(CRC32(id * 3) AS SIGNED) b, CAST(CRC32(id * 5) AS SIGNED) c,
             CAST(CRC32(id * 7) AS SIGNED) d FROM {{ids}}) hashes"""
_IDS = f"""(SELECT %s + 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS id
      FROM {DIGITS} a, {DIGITS} b, {DIGITS} c, {DIGITS} e, {DIGITS} f) numbers"""

WIDE = Schema(
    name="wide",
    table="parcels",
    columns=1 + len(_WIDE),
    create="CREATE TABLE {table} (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, "
    + ", ".join(column for column, _ in _WIDE)
    + ") ENGINE=InnoDB CHARACTER SET utf8mb4",
    fill=_WIDE_INSERT.replace("{ids}", _IDS) + "\nWHERE id <= %s ORDER BY id",
    insert=_WIDE_INSERT.replace("{ids}", "(SELECT rows_there + 1 + n AS id) number").strip(),
    update="whole = IFNULL(whole, 0) + 1, status = 'packed', updated_at = NOW()",
    rows=500_000,
    changes=100_000,
)
SCHEMAS = {schema.name: schema for schema in (NARROW, WIDE)}


def fill(server: Server, database: str, schema: Schema, rows: int) -> None:
    """Create the table and fill ids 1 to `rows`, a transaction per 100 000, past the binlog."""
    table = f"`{database}`.`{schema.table}`"
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = 'STRICT_TRANS_TABLES', sql_log_bin = 0")
        cursor.execute(schema.create.replace("{table}", table))
        for start in range(0, rows, BATCH_ROWS):
            cursor.execute(schema.fill.replace("{table}", table), (start, rows))
        cursor.execute(f"ANALYZE NO_WRITE_TO_BINLOG TABLE {table}")
