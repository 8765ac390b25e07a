"""XA events recognised in bulk, compared with each one read on its own."""

import struct

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.capture.binlog.xa_events import COMMIT, PREPARE, ROLLBACK, key_of, xa_events, xid_of
from engine.decode.binlog_events import Kind
from engine.decode.stream import EventBatch, StreamPosition
from engine.source.xa_places import Xid
from tests.support.depth import depth
from tests.unit.support.wire import Binlog, laid_out

XIDS = st.tuples(
    st.binary(max_size=64), st.binary(max_size=64), st.sampled_from([0, 1, 77, (1 << 31) - 1, (1 << 32) - 1])
)
ALIKE = st.tuples(st.binary(min_size=4, max_size=5), st.binary(min_size=2, max_size=2), st.just(1))
"""Ids of few lengths, as a transaction manager makes them; some end with zeros."""
VERBS = {
    "XA COMMIT ": COMMIT,
    "XA ROLLBACK ": ROLLBACK,
    "xa  commit ": COMMIT,
    "XA RECOVER ": None,
    "XA START ": None,
    "XA END ": None,
}


def quoted(xid: Xid, signed: bool, upper: bool) -> str:
    """An id as a server writes it; MariaDB's format ids have a sign."""
    gtrid, bqual, form = xid
    number = form - (1 << 32) if signed and form >> 31 else form
    text = f"X'{gtrid.hex()}',X'{bqual.hex()}'"
    return f"{text.upper() if upper else text},{number}"


def run_of(log: Binlog) -> EventBatch:
    """The log's events as one run."""
    position = StreamPosition(log.file, 4)
    *_, run = position.runs(*laid_out(log.payloads))
    return run


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["prepare", "one phase", "PLAIN", *VERBS, *["XA COMMIT "] * 8]),
            st.one_of(ALIKE, ALIKE, XIDS),
            st.booleans(),
            st.integers(0, 9),
        ),
        max_size=60,
    )
)
@settings(max_examples=depth(60, 2_000), deadline=None)
def test_events_in_bulk_are_those_read_one_by_one(happened: list[tuple[str, Xid, bool, int]]) -> None:
    """Whatever the ids contain, and whatever statements of the same length stand between."""
    log, expected, others, idle = Binlog(), list[tuple[int, Xid]](), 0, 0
    for how, xid, signed, odd in happened:
        gtrid, bqual, form = xid
        if how in ("prepare", "one phase"):
            log.add(38, struct.pack("<BIII", how != "prepare", form, len(gtrid), len(bqual)) + gtrid + bqual)
            expected += [(PREPARE, xid)] if how == "prepare" else []
            continue
        text = "ALTER TABLE t ADD c INT" if how == "PLAIN" else how + quoted(xid, signed, odd == 1)
        if how == "XA COMMIT " and odd == 2:
            text = text.replace("'", '"', 1)  # no statement of a server, and no decision
        log.query(text)
        verb = VERBS.get(how)
        if verb is not None and '"' not in text:
            expected.append((verb, xid))
        elif how in ("XA START ", "XA END "):
            idle += 1
        else:
            others += 1
    run = run_of(log)
    found = xa_events(run, np.flatnonzero(run.headers.kind == Kind.QUERY))
    assert [(v, xid_of(row.tobytes())) for v, row in zip(found.verb.tolist(), found.keys, strict=True)] == expected
    assert (np.diff(found.event) > 0).all()
    assert (len(found.other_events), len(found.idle)) == (others, idle)


@given(XIDS)
def test_a_key_gives_its_id(xid: Xid) -> None:
    """Also with padding."""
    assert xid_of(key_of(xid) + bytes(7)) == xid
