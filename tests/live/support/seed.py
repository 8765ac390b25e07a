"""The ten-column table of the live tests, the demo and the benchmark, filled by the server itself."""

from contextlib import closing

from tests.servers import Server

BATCH_ROWS = 100_000
STATUSES = ("new", "paid", "packed", "shipped", "returned")

CREATE = """
CREATE TABLE {table} (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    customer_id INT NOT NULL,
    sku VARCHAR(32) NOT NULL,
    quantity INT NOT NULL,
    price DECIMAL(10,2) NOT NULL,
    status VARCHAR(16) NOT NULL,
    note VARCHAR(100) NULL,
    created_at DATETIME(6) NOT NULL,
    updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    score DOUBLE NOT NULL
) ENGINE=InnoDB CHARACTER SET utf8mb4
"""

DIGITS = "(SELECT 0 d UNION ALL " + " UNION ALL ".join(f"SELECT {digit}" for digit in range(1, 10)) + ")"

# Every value is a function of the id: two fills are equal, and a test knows what a row was before it was changed.
FILL = f"""
INSERT INTO {{table}}
SELECT id,
       CRC32(id) MOD 50000,
       CONCAT('SKU-', LPAD(CRC32(id * 7) MOD 10000, 5, '0'), '-', CHAR(65 + id MOD 26 USING utf8mb4)),
       1 + id MOD 9,
       (CRC32(id * 3) MOD 1000000) / 100,
       ELT(1 + CRC32(id * 5) MOD {len(STATUSES)}, {", ".join(f"'{status}'" for status in STATUSES)}),
       CASE WHEN id MOD 4 = 0 THEN NULL
            WHEN id MOD 10 = 1 THEN CONCAT('Grüße № ', id, ' – 配送 🚚')
            ELSE CONCAT('please leave parcel ', id, ' at the door') END,
       TIMESTAMPADD(MICROSECOND, CRC32(id * 11) MOD 1000000, TIMESTAMPADD(SECOND, id * 13 MOD 31536000, '2025-01-01')),
       TIMESTAMPADD(SECOND, id * 17 MOD 31536000, '2025-01-01'),
       SQRT(id) * IF(id MOD 3 = 0, -1, 1)
FROM (SELECT %s + 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS id
      FROM {DIGITS} a, {DIGITS} b, {DIGITS} c, {DIGITS} e, {DIGITS} f) numbers
WHERE id <= %s
ORDER BY id
"""


def seed_table(server: Server, database: str, table: str, rows: int, *, binlog: bool = True) -> None:
    """Create the table and fill ids 1 to `rows`, a transaction per 100 000; `binlog=False` keeps the rows out of it."""
    name = f"`{database}`.`{table}`"
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = 'STRICT_TRANS_TABLES'")
        cursor.execute(CREATE.format(table=name))
        cursor.execute("SET sql_log_bin = %s", (int(binlog),))
        for start in range(0, rows, BATCH_ROWS):
            cursor.execute(FILL.format(table=name), (start, rows))
        cursor.execute(f"ANALYZE NO_WRITE_TO_BINLOG TABLE {name}")
