"""One table of an audit.

It collects the table's images of the binlog, and compares them in batches with those of the change log.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.audit.audit_compare import AuditDifference, AuditImages, compared
from engine.audit.audit_range import AuditedRange
from engine.audit.audit_result import MOST_LISTED, ImageDifference, TableAudit
from engine.audit.audit_source import EventRows, Frames
from engine.audit.audit_values import UNSURE, Texts, ours, seconds, shown, theirs
from engine.capture.landing import PLACES, OrderedChanges
from engine.capture.position_order import orders_of, pack, unpack
from engine.decode.schema import TM_KIND, TM_POSITION, TM_REDUMP, TM_SEQ, TM_TS, TM_TX, Column, TableName
from engine.source.positions import file_of

_BATCH_IMAGES, _BATCH_BYTES = 4000, 8 << 20
"""Images of one table that are compared at once, and their bytes."""
_LOOKAHEAD = 2000
"""Changes of the log that are read beyond a position, and beyond the range, to find images that come too late."""
_OWN = (TM_KIND, TM_POSITION, TM_REDUMP, TM_TX, TM_TS)
_BEFORE = {"-D": "values", "+I": "values", "-U": "before_values", "+U": "after_values"}
"""Where the package has the values of an image, by kind."""


class _Values:
    """The rows of a log. `_tm_seq` numbers them and ascends."""

    def __init__(self, parts: Generator[pa.Table, None, None]) -> None:
        self._parts = parts
        self._last = -1
        self._later_rows: list[pa.Table] = []

    def close(self) -> None:
        self._parts.close()
        self._later_rows.clear()

    def take(self, numbers: Sequence[int], later: Sequence[int]) -> pa.Table:
        """The rows with these numbers, one at least, ascending.

        later: the numbers up to the last read that are taken later.
        """
        wanted, waiting, rows, later_rows = (
            pa.array(numbers),
            pa.array(later, pa.int64()),
            list[pa.Table](),
            list[pa.Table](),
        )
        for part in self._until(numbers[-1]):
            here = pc.is_in(part[TM_SEQ], wanted)
            rows.append(part.filter(here))
            rest = pc.or_(pc.greater(part[TM_SEQ], numbers[-1]), pc.is_in(part[TM_SEQ], waiting))
            later_rows.append(part.filter(pc.and_(rest, pc.invert(here))))
        self._later_rows = [part for part in later_rows if part.num_rows]
        return pa.concat_tables(rows)

    def _until(self, number: int) -> Iterator[pa.Table]:
        yield from self._later_rows
        while self._last < number and (part := next(self._parts, None)) is not None:
            if part.num_rows:
                self._last = part[TM_SEQ][-1].as_py()
            yield part


class _LoggedChanges:
    """The changes of a log in a range, without rows that were read from the table. `redumped`: those, as far as read.

    Images that come too late are looked for far ahead: by their positions, while their values are read when they are
    taken.
    """

    def __init__(self, log: OrderedChanges, columns: tuple[str, ...], start: int, end: int, seq: int) -> None:
        """seq: the least `_tm_seq` of its changes; 0 if unknown, and then the log is read to its end."""
        self._places = log.since(start, [*PLACES, TM_REDUMP], seq)
        self._seq = seq
        self._values = _Values(log.since(start, [*columns, *_OWN, TM_SEQ], seq))
        self._most = max(min(_BATCH_IMAGES, _BATCH_BYTES // log.row_bytes()), 1)
        self._start = start
        self._end = end
        self._orders: list[int] = []
        self._numbers: list[int] = []
        self._ascending = True
        self._beyond = 0
        self.redumped = 0

    def close(self) -> None:
        """Close the files that are being read; nothing more can be taken."""
        self._places.close()
        self._values.close()

    def cut(self, through: int) -> int:
        """A position up to which there are about a batch of changes, at most `through`."""
        while len(self._orders) < self._most and self._load():
            pass
        some = self._orders[: self._most]
        return min(through, max(some)) if len(some) == self._most else through

    def take(self, through: int) -> tuple[pa.Table | None, list[int]]:
        """The changes up to a position, in the order of `_tm_seq`, with their positions. None if there are none."""
        while sum(order > through for order in self._orders[-_LOOKAHEAD:]) < _LOOKAHEAD and self._load():
            pass
        if self._ascending:
            count = bisect_right(self._orders, through)
            numbers, self._numbers = self._numbers[:count], self._numbers[count:]
            orders, self._orders = self._orders[:count], self._orders[count:]
        else:
            pairs = list(zip(self._orders, self._numbers, strict=True))
            orders = [order for order, _ in pairs if order <= through]
            numbers = [number for order, number in pairs if order <= through]
            self._orders = [order for order, _ in pairs if order > through]
            self._numbers = [number for order, number in pairs if order > through]
            self._ascending = _is_ascending(self._orders)
        return self._values.take(numbers, self._numbers) if numbers else None, orders

    def _load(self) -> bool:
        part = next(self._places, None) if self._beyond < _LOOKAHEAD else None
        if part is None:
            return False
        part = part.filter(pc.greater_equal(part[TM_SEQ], self._seq))
        logged = pc.and_(pc.is_null(part[TM_REDUMP]), pc.is_valid(part[TM_TS]))
        changes = part.filter(logged)
        others = orders_of(part.filter(pc.invert(logged))[TM_POSITION].to_pylist())
        self.redumped += sum(self._start < order <= self._end for order in others)
        orders = orders_of(changes[TM_POSITION].to_pylist())
        if self._seq:  # else they may be positions of another server, with more changes after them
            self._beyond += sum(order > self._end for order in orders)
        inside = [
            (order, n) for order, n in zip(orders, changes[TM_SEQ].to_pylist(), strict=True) if self._is_in(order)
        ]
        self._orders += [order for order, _ in inside]
        self._numbers += [number for _, number in inside]
        self._ascending = _is_ascending(self._orders)
        return True

    def _is_in(self, order: int) -> bool:
        return self._start < order <= self._end


def _is_ascending(orders: list[int]) -> bool:
    return all(a <= b for a, b in pairwise(orders))


class AuditedTable:
    """One table. Give it its rows with `feed`, call `compare` between transactions, and at last `result`."""

    def __init__(
        self,
        audited: AuditedRange,
        log: OrderedChanges,
        texts: Texts,
        frames: Frames,
        unreadable: tuple[type[Exception], ...] = (),
    ) -> None:
        """unreadable: what a read of the log raises when files of it are gone or damaged."""
        table = audited.table
        self.name: TableName = (table.database, table.name)
        self.range = audited
        self._texts = texts
        self._frames = frames
        self.listed: list[ImageDifference] = []
        names = tuple(column.name for column in audited.columns)
        self._names = names
        self._key = [names.index(name) for name in table.key if name in names]
        self._columns: dict[str, Column] = {column.name: column for column in audited.columns}
        self._start = pack(*audited.start.order)
        self._end = pack(*audited.end.order)
        self._published = _LoggedChanges(log, names, self._start, self._end, audited.seq)
        self._version = log.version
        self._orders: list[int] = []
        self._kinds: list[str] = []
        self._facts: list[tuple[Any, int]] = []
        self._rows: list[Mapping[str, Any]] = []
        self._nones: list[Mapping[str, str]] = []
        self._limits: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._images = 0
        self._transactions = 0
        self._last = 0
        self._size = 0
        self._excluded = ""
        self._unreadable = unreadable

    def feed(self, rows: EventRows) -> None:
        """Take the rows of one row event."""
        if not self._start < rows.order <= self._end or self._excluded:
            return
        if missing := [n for n in self._names if n not in rows.rows[0][_BEFORE[rows.kinds[-1]]]]:
            self._excluded = f"the rows in the binlog have no column {', '.join(missing)}"
            return
        self._transactions += rows.transaction != self._last
        self._last = rows.transaction
        for row in rows.rows:
            for kind in rows.kinds:
                values = _BEFORE[kind]
                self._rows.append(row[values])
                self._nones.append(row[values.replace("values", "none_sources")])
        self._size += rows.size
        count = len(rows.rows) * len(rows.kinds)
        self._orders += [rows.order] * count
        self._kinds += [*rows.kinds] * len(rows.rows)
        self._facts += [(rows.tx, rows.ts)] * count

    def compare(self, through: int | None = None) -> None:
        """Compare what was fed, if it is a batch. through: the end of the range, to compare the rest."""
        small = len(self._orders) < _BATCH_IMAGES and self._size < _BATCH_BYTES
        if self._excluded or self.name in self._frames.undecoded or (through is None and small):
            return
        try:
            self._compare_until(self._orders[-1] if through is None else through)
        except self._unreadable as error:
            self._excluded = unreadable_log(str(error))

    def _compare_until(self, until: int) -> None:
        logged = self._logged()
        cut, begin = -1, 0
        while cut < until:  # the change log may have many changes where nothing was fed
            cut = self._published.cut(until)
            end = bisect_right(logged.orders, cut, begin)
            self._compare(logged.part(begin, end), self._stored(*self._published.take(cut)))
            begin = end

    def _logged(self) -> AuditImages:
        """The collected images; none are left."""
        columns = []
        for name in self._names:
            values = [row[name] for row in self._rows]
            columns.append(theirs(self._columns[name], values, self._nones, self._texts, self._limits))
        self._limits["tagged_gtid"] += sum(tx is UNSURE for tx, _ in self._facts)
        columns += [[tx for tx, _ in self._facts], [ts for _, ts in self._facts]]
        images = AuditImages(self._orders, self._kinds, columns)
        self._orders = []
        self._kinds = []
        self._facts = []
        self._rows = []
        self._nones = []
        self._size = 0
        return images

    def _stored(self, rows: pa.Table | None, orders: list[int]) -> AuditImages:
        """The changes of the log, without those that the package cannot decode."""
        if rows is None or not len(orders):
            return AuditImages([], [], [[] for _ in range(len(self._names) + 2)])
        opaque = self._frames.opaque.get(self.name, {})
        unknown = [opaque.get(order) or self._frames.anywhere.get(order) for order in orders]
        if any(unknown):
            self._limits.update(limit for limit in unknown if limit)
            rows = rows.filter(pa.array([limit is None for limit in unknown]))
            orders = [order for order, limit in zip(orders, unknown, strict=True) if limit is None]
        columns = [ours(self._columns[name], rows[name], self._limits) for name in self._names]
        return AuditImages(orders, rows[TM_KIND].to_pylist(), [*columns, rows[TM_TX].to_pylist(), seconds(rows[TM_TS])])

    def _compare(self, logged: AuditImages, stored: AuditImages) -> None:
        self._images += len(logged)
        for difference in compared(logged, stored, self._key):
            self._counts[difference.kind] += 1
            if len(self.listed) < MOST_LISTED:
                self.listed.append(self._described(difference))

    def _described(self, difference: AuditDifference) -> ImageDifference:
        row = difference.theirs or difference.ours or []
        names = [*self._names, TM_TX, TM_TS]
        about = [self._columns.get(name) for name in names]
        key = [shown(about[n], row[n]) for n in self._key]

        def texts(values: list[Any] | None) -> dict[str, str]:
            return {names[n]: shown(about[n], values[n]) for n in difference.columns if values is not None}

        position = self._position(difference.order)
        columns = [names[n] for n in difference.columns]
        full = self.range.table.full_name
        return ImageDifference(
            full, difference.kind, position, key, columns, texts(difference.ours), texts(difference.theirs)
        )

    def _position(self, order: int) -> str:
        number, offset = unpack(order)
        return f"{self._frames.names.get(number) or file_of(number, self.range.end.file)}:{offset}"

    def result(self, unsure: Mapping[TableName, str]) -> TableAudit:
        """The result, after the end of the range. Closes the change log.

        unsure: tables whose rows of the binlog cannot be trusted.
        """
        self._published.close()
        excluded = self._excluded or unsure.get(self.name, "") or self._frames.undecoded.get(self.name, "")
        if excluded:
            self.listed.clear()
            return TableAudit(self.range.table.full_name, excluded=excluded)
        return TableAudit(
            self.range.table.full_name,
            self._images,
            self._transactions,
            str(self.range.start),
            str(self.range.end),
            self._version,
            self._counts.total(),
            dict(self._counts),
            self._published.redumped,
            {name: count for name, count in sorted(self._limits.items()) if count},
            self.range.notes,
        )


def unreadable_log(why: str) -> str:
    """Why nothing of a table was compared whose change log cannot be read."""
    first = why.strip().partition("\n")[0]
    return f"its change log cannot be read: {first}. A resnapshot mends it: tidemark redump SPEC --table …"


def first_change(log: OrderedChanges, audited: AuditedRange) -> Iterator[int]:
    """The position of the first change that is left in the log, packed.

    Nothing if it is before the range, or there is none.
    """
    first = log.first()
    if first is not None and first[1] >= audited.seq:  # else its position may be that of another server
        yield first[0]
