"""What a run decides before it reads."""

import tomllib
from pathlib import Path
from typing import Any, cast

from engine.journal import Journal
from engine.ledger.record_json import change_from_json
from engine.ledger.state import following
from engine.ledger.store import Ledger
from engine.run.lifecycle.run_start import RunStart
from engine.run.lifecycle.takeover import Takeover
from engine.spec.settings import Spec
from tests.unit.destination.support import (
    OLD,
    PLAN,
    SPEC,
    WHOLE_SPLIT,
    World,
    lake_destination,
    publish_story,
    story,
    switch,
)


def test_a_table_that_lacks_files_is_repaired_once(tmp_path: Path) -> None:
    """A run begins again when its source is back: what the start found is no news then."""
    story(world := World(tmp_path))
    publish_story(world, tmp_path, [])
    ledger, nobody = Ledger(tmp_path / "ledger"), cast("Any", None)
    takeover = Takeover(lake_destination(tmp_path), "a")
    takeover.missing_files = {"d.t": "1 data file is gone"}
    spec = Spec.model_validate(tomllib.loads(SPEC))
    journal = Journal(tmp_path / "again.jsonl", "a")
    start = RunStart(spec, nobody, nobody, journal, takeover, takeover.destination)

    def is_due() -> bool:
        assert ledger.state is not None
        return ledger.state.tables["d.t"].due is not None

    start._repair(ledger, ())
    assert is_due()
    for change in ({"resnapshot": switch(OLD, OLD, PLAN)}, {"split": WHOLE_SPLIT}):
        assert ledger.state is not None
        ledger.commit(following(ledger.state, "a", {"d.t": change_from_json(change)}))
    assert not is_due()
    start._repair(ledger, ())
    assert not is_due()
    journal.close()
