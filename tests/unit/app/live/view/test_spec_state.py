"""Where a run and the spec's file differ."""

from app.live.view.spec_state import Unapplied, to_apply, unapplied

RUNNING = {
    "snapshot": {"readers": 2, "chunk_rows": 100},
    "throttle": {"max_rows_per_s": 0, "hours": [], "max_load": {}},
    "sink": {"mirror": "auto"},
    "source": {"tables": ["d.*"]},
}


def test_each_setting_that_differs_says_how_the_files_takes_effect() -> None:
    """Limits can be put in force; others need a restart. Equal settings are not listed."""
    file = {
        "snapshot": {"readers": 4, "chunk_rows": 100},
        "throttle": {"max_rows_per_s": 50, "hours": [], "max_load": {"Threads_running": 9.0}},
        "sink": {"mirror": "merge_on_read"},
        "source": {"tables": ["d.*", "!d.x"]},
        "poll_interval_s": 0.5,
    }
    found = unapplied(RUNNING, file)
    assert [(one.setting, one.in_force, one.in_file) for one in found] == [
        ("poll_interval_s", "not set", "0.5"),
        ("sink.mirror", '"auto"', '"merge_on_read"'),
        ("snapshot.readers", "2", "4"),
        ("source.tables", '["d.*"]', '["d.*", "!d.x"]'),
        ("throttle.max_load", "{}", "not set"),
        ("throttle.max_load.Threads_running", "not set", "9.0"),
        ("throttle.max_rows_per_s", "0", "50"),
    ]
    effects = {one.setting: one.effect for one in found}
    assert effects["throttle.max_rows_per_s"] == "Apply"
    assert effects["snapshot.readers"] == "Needs a restart"
    assert effects["sink.mirror"] == "Needs a restart, and for mirrors that exist a resnapshot"
    assert "under Tables" in effects["source.tables"]
    assert to_apply(found, file) == {"max_load": {"Threads_running": 9.0}, "max_rows_per_s": 50}
    assert unapplied(RUNNING, RUNNING) == []
    assert to_apply([Unapplied("snapshot.readers", "1", "2", "")], file) == {}
