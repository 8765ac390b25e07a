"""Finds the rows of a mirror's large files by key, without reading their key columns at each merge.

For each file, the index has a code of every row's key, sorted, with the row's position; it is mapped into memory, and a
merge only touches the pages that its keys need. (Page faults are most of a search's cost. So a file in the order of its
codes, as copies and rewrites leave it, needs no positions.) A single integer key is its own code. Other keys have two
hashes of 64 bits, so that two keys of a billion rows share a code with a probability of less than 10⁻¹⁸.

The index is a cache: a data file never changes, so neither does its entry, and an entry that is missing or cannot be
read is built again. The whole folder can be deleted at any time.

A flipped bit must not hide a row from a merge. Each page of an entry has a checksum, and a search is believed only
after a check of the pages that prove it: that of the code it found, or those of the two neighbours between which the
key would be; and those of the positions. However a search got there, two sound neighbours around a key prove where it
is, because the codes are sorted. An entry that fails is built again.
"""

import mmap
import os
import struct
import uuid
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.base.durable import sync_file

LEAST_ROWS = 1 << 16
"""The key columns of smaller files are read instead."""
_GATHER_ROWS = 1 << 16
_MAGIC, _HEADER = b"TMKEYS04", struct.Struct("<8s???5xQQ")
_PAGE_BITS = 12
_PAGE = 1 << _PAGE_BITS
_SUFFIX = ".keys"
_SEEDS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
U64 = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Codes:
    """The codes of keys, in the keys' order."""

    first: U64
    second: U64 | None
    """None if the first ones are unique."""

    def in_order(self) -> "Codes":
        """In the order of the first codes, as a search needs them."""
        order = np.argsort(self.first, kind="stable")
        return Codes(self.first[order], None if self.second is None else self.second[order])

    def between(self, low: np.uint64, high: np.uint64) -> "Codes":
        """Of ordered codes, those with a first one from `low` to `high`."""
        part = slice(self.first.searchsorted(low), self.first.searchsorted(high, side="right"))
        return Codes(self.first[part], None if self.second is None else self.second[part])


def codes_of(keys: pa.Table) -> Codes | None:
    """The codes of keys that are normalised for comparison; None for types without codes, and for NULL."""
    columns = [column.combine_chunks() for column in keys.columns]
    if any(column.null_count for column in columns):
        return None
    if len(columns) == 1 and pa.types.is_integer(columns[0].type):
        return Codes(_words(columns[0])[:, 0], None)
    codes = [np.full(keys.num_rows, seed, np.uint64) for seed in _SEEDS]
    for column in columns:
        parts = _parts(column)
        if parts is None:
            return None
        for rows, words in parts:
            for n, seed in enumerate(_SEEDS):
                codes[n][rows] = hash_words(codes[n][rows], words, seed)
    return Codes(codes[0], codes[1])


def _parts(column: pa.Array) -> list[tuple[npt.NDArray[np.int64] | slice, U64]] | None:
    """Rows of the same width, and their values as words of 64 bits; the width is the last word.

    None for other types.
    """
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _texts(column)
    if not (pa.types.is_primitive(kind) or pa.types.is_decimal128(kind)) or pa.types.is_boolean(kind):
        return None
    return [(slice(None), _words(column))]


def _words(column: pa.Array) -> U64:
    """Values of a fixed width as words of 64 bits."""
    width = column.type.bit_width // 8
    data = np.frombuffer(column.buffers()[1], np.uint8)[column.offset * width :][: len(column) * width]
    if width >= 8:
        return data.view(np.uint64).reshape(len(column), width // 8)
    return data.view(f"i{width}").astype(np.int64).view(np.uint64).reshape(len(column), 1)


def _texts(column: pa.Array) -> list[tuple[npt.NDArray[np.int64] | slice, U64]]:
    """Texts by length, padded to words."""
    _, offsets_buffer, data_buffer = column.buffers()
    ends = np.frombuffer(offsets_buffer, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    begins, lengths = ends[:-1], np.diff(ends)
    groups: list[tuple[npt.NDArray[np.int64] | slice, U64]] = []
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        for first in range(0, len(rows), _GATHER_ROWS):
            some = rows[first : first + _GATHER_ROWS]
            padded = np.zeros((len(some), -(-int(length) // 8) * 8 + 8), np.uint8)
            padded[:, :length] = data[begins[some][:, None] + np.arange(length)]
            words = padded.view(np.uint64)
            words[:, -1] = length
            groups.append((some, words))
    return groups


def hash_words(state: U64, words: U64, seed: int) -> U64:
    """Each row's words mixed into its state: the finaliser of SplitMix64, word by word."""
    for n in range(words.shape[1]):
        state = _mix((state ^ words[:, n]) + np.uint64((seed * (2 * n + 1)) & (2**64 - 1)))
    return state


def _mix(x: U64) -> U64:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class KeyIndex:
    """The index of one mirror, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, name: str, codes: Codes, read_keys: Callable[[], pa.Table]) -> npt.NDArray[np.int64] | None:
        """The positions of a file's rows with one of the keys, ascending; None if its keys have no codes.

        codes: ordered, so that searches for neighbours touch the same pages. read_keys: reads the file's keys,
        normalised for comparison, if they are not indexed yet.
        """
        entry = self._open(name)
        if entry is not None:
            with suppress(_DamagedError):
                return entry.find(codes)
        entry = self._build(name, read_keys)
        return None if entry is None else entry.find(codes)

    def keep_only(self, names: Collection[str]) -> None:
        """Delete the entries of all other files."""
        with suppress(FileNotFoundError):
            for path in self._folder.iterdir():
                if path.stem not in names or path.suffix != _SUFFIX:
                    path.unlink(missing_ok=True)

    def _open(self, name: str) -> "_IndexEntry | None":
        try:
            file = os.open(self._path(name), os.O_RDONLY)
        except OSError:
            return None
        try:
            return _IndexEntry.from_map(mmap.mmap(file, 0, access=mmap.ACCESS_READ))
        except (OSError, ValueError):  # it is empty or torn
            return None
        finally:
            os.close(file)

    def _build(self, name: str, read_keys: Callable[[], pa.Table]) -> "_IndexEntry | None":
        codes = codes_of(read_keys())
        if codes is None:
            return None
        order = np.argsort(codes.first, kind="stable")
        checks = None if codes.second is None else codes.second[order]
        first, rows = codes.first[order], order.astype(np.uint32)
        in_order = bool((rows[1:] > rows[:-1]).all())
        last, unique = first[-1] if len(first) else np.uint64(0), bool((first[1:] != first[:-1]).all())
        entry = _IndexEntry(first, last, checks, None if in_order else rows, unique, None)
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder / f".{uuid.uuid4().hex}"
        with suppress(OSError):  # without room for it, the next merge builds it again
            try:
                with temporary.open("xb") as file:
                    for part in entry.parts():
                        file.write(part)
                sync_file(temporary)
                temporary.replace(self._path(name))
            finally:
                temporary.unlink(missing_ok=True)
        return entry

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{_SUFFIX}"


def _places(codes: U64, last: np.uint64, key_codes: U64) -> npt.NDArray[np.int64]:
    """As `searchsorted`: where unique codes have the wanted ones, which are between the first and the last.

    Ascending numbers are close to a straight line, so most are where the line says, on one page. A binary search
    touches several.
    """
    slope = (len(codes) - 1) / max(int(last - codes[0]), 1)
    places: npt.NDArray[np.int64] = np.rint((key_codes - codes[0]).astype(np.float64) * slope).astype(np.int64)
    np.minimum(places, len(codes) - 1, out=places)
    is_wrong = codes[places] != key_codes
    if is_wrong.any():
        places[is_wrong] = codes.searchsorted(key_codes[is_wrong])
    return places


class _DamagedError(Exception):
    """A page of an entry is not what was written."""


class _Pages:
    """The pages of an entry's file, and their checksums."""

    def __init__(self, data: mmap.mmap, sums: npt.NDArray[np.uint32]) -> None:
        self._data = memoryview(data)
        self._sums = sums
        self._sound = np.zeros(len(sums), bool)

    def require(self, begin: int, width: int, places: npt.NDArray[np.int64]) -> None:
        """Raises _DamagedError unless the pages of some elements are sound.

        begin: of the first element; width: of each.
        """
        needed = np.zeros(len(self._sums), bool)
        needed[(begin + places * width) >> _PAGE_BITS] = True
        end = len(self._sums) << _PAGE_BITS
        for page in np.flatnonzero(needed & ~self._sound).tolist():
            if zlib.crc32(self._data[page << _PAGE_BITS : min((page + 1) << _PAGE_BITS, end)]) != self._sums[page]:
                raise _DamagedError
        self._sound |= needed


@dataclass(frozen=True)
class _IndexEntry:
    """The index of one file.

    Its file has a page for the header, the codes, the checks if there are any, and the rows if they are needed, padded
    to a page, and the checksums of all pages.
    """

    codes: U64
    """Sorted."""
    last: np.uint64
    """The last code."""
    checks: U64 | None
    """The second codes, if the first are not unique."""
    rows: npt.NDArray[np.uint32] | None
    """The rows' positions in the order of the codes; None if that is the file's order."""
    unique: bool
    """Whether no code is there twice."""
    pages: _Pages | None
    """None if it was not read from a file."""

    def find(self, key_codes: Codes) -> npt.NDArray[np.int64]:
        """The positions of the rows with one of the keys, ascending. Raises _DamagedError."""
        codes = self.codes
        if not len(codes):
            return np.empty(0, np.int64)
        self._require(0, np.zeros(1, np.int64))
        key_codes = key_codes.between(codes[0], self.last)
        if self.unique:
            begins = _places(codes, self.last, key_codes.first)
            has_row: npt.NDArray[np.bool_] = codes[begins] == key_codes.first
            self._prove(begins[~has_row], key_codes.first[~has_row])
            self._require(0, begins[has_row])
            if self.rows is None and key_codes.second is None:
                return begins[has_row]
            counts = has_row.astype(np.int64)
        else:
            begins = codes.searchsorted(key_codes.first)
            ends = codes.searchsorted(key_codes.first, side="right")
            self._prove(begins, key_codes.first)
            self._prove(ends, key_codes.first, right=True)
            counts = ends - begins
        places = np.repeat(begins - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) + np.arange(counts.sum())
        if key_codes.second is not None and self.checks is not None:
            self._require(1, places)
            places = places[self.checks[places] == np.repeat(key_codes.second, counts)]
        if self.rows is None:
            return np.unique(places)
        self._require(2, places)
        return np.unique(self.rows[places].astype(np.int64))

    def _prove(self, places: npt.NDArray[np.int64], key_codes: U64, *, right: bool = False) -> None:
        """Raises _DamagedError unless these are the places of the wanted codes.

        Then what is before is less, and what is there is not.
        """
        before, after = np.maximum(places - 1, 0), np.minimum(places, len(self.codes) - 1)
        self._require(0, before)
        self._require(0, after)
        less, more = self.codes[before], self.codes[after]
        low = (less <= key_codes) if right else (less < key_codes)
        high = (more > key_codes) if right else (more >= key_codes)
        if not ((low | (places == 0)) & (high | (places == len(self.codes)))).all():
            raise _DamagedError

    def _require(self, part: int, places: npt.NDArray[np.int64]) -> None:
        """Raises _DamagedError unless a part of the file is as it was written, at these places.

        part: the codes, the checks or the rows (0, 1, 2).
        """
        if self.pages is not None:
            width = len(self.codes) * 8
            begin = _PAGE + width * (part if self.checks is not None else min(part, 1))
            self.pages.require(begin, 4 if part == 2 else 8, places)

    def parts(self) -> Iterator[bytes | memoryview]:
        """The parts of the file."""
        has = self.checks is not None, self.rows is not None
        header = _HEADER.pack(_MAGIC, *has, self.unique, len(self.codes), int(self.last)).ljust(_PAGE, b"\0")
        sums, rest = [zlib.crc32(header)], b""
        yield header
        for part in (self.codes, self.checks, self.rows):
            if part is None:
                continue
            whole = np.ascontiguousarray(part).data.cast("B")
            yield whole
            first = min(-len(rest) % _PAGE, len(whole))
            rest += bytes(whole[:first])
            if len(rest) == _PAGE:
                sums.append(zlib.crc32(rest))
                rest = b""
            stop = len(whole) - (len(whole) - first) % _PAGE
            sums += [zlib.crc32(whole[at : at + _PAGE]) for at in range(first, stop, _PAGE)]
            rest += bytes(whole[stop:])
        if rest:
            yield bytes(-len(rest) % _PAGE)
            sums.append(zlib.crc32(rest.ljust(_PAGE, b"\0")))
        yield np.array(sums, np.uint32).tobytes()

    @staticmethod
    def from_map(data: mmap.mmap) -> "_IndexEntry":
        """The content of a file. Raises ValueError when it is not whole, or of another version."""
        if len(data) < _HEADER.size:
            raise ValueError("no header")
        magic, has_checks, has_rows, unique, count, last = _HEADER.unpack_from(data)
        width = count * 8
        pages = 1 + -(-(width * (1 + has_checks) + count * 4 * has_rows) // _PAGE)
        if magic != _MAGIC or len(data) != pages * (_PAGE + 4):
            raise ValueError("not an index")
        sums = np.frombuffer(data, np.uint32, pages, pages << _PAGE_BITS)
        if zlib.crc32(data[:_PAGE]) != sums[0]:
            raise ValueError("its header is damaged")
        begin = _PAGE
        codes = np.frombuffer(data, np.uint64, count, begin)
        checks = np.frombuffer(data, np.uint64, count, begin + width) if has_checks else None
        rows = np.frombuffer(data, np.uint32, count, begin + width * (1 + has_checks)) if has_rows else None
        return _IndexEntry(codes, np.uint64(last), checks, rows, unique, _Pages(data, sums))
