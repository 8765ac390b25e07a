"""Drafts: the spec so far, and the findings of the steps."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.common.view.draft import (
    STEPS,
    Draft,
    blockers,
    first_spec,
    from_dict,
    missing,
    name_fault,
    outdated,
    state_of,
    unknowns,
    variable_fault,
    why_open,
)
from app.common.view.template import toml
from engine.spec import settings
from tests.unit.app.support import AT, draft

WRITTEN = 'name = "shop"  # as in the ticket\n'


def test_a_removed_value_leaves_no_empty_section() -> None:
    """The spec is as before."""
    before = draft()
    after = before.put("snapshot", "tables", "shop.orders", "chunk_rows", value=5)
    assert after.put("snapshot", "tables", "shop.orders", "chunk_rows", value=None).spec == before.spec


def test_a_draft_survives_the_round_trip_through_json() -> None:
    """Including its findings."""
    kept = draft(step="Plan", connection="prod", changed=AT, written=WRITTEN).note(
        "Connect", "ok", "MySQL answered.", AT
    )
    assert from_dict(json.loads(json.dumps(kept.as_dict()))) == kept
    older = {name: value for name, value in kept.as_dict().items() if name != "written"}
    assert from_dict(older).written == ""


@pytest.mark.parametrize(
    ("path", "value", "stale"),
    [
        (("source", "host"), "elsewhere", {"Connect", "Preflight", "Plan"}),
        (("source", "tables"), ["crm.*"], {"Preflight", "Plan"}),
        (("snapshot", "chunk_rows"), 5, {"Plan"}),
        (("spark", "master"), "local[1]", {"Spark"}),
        (("sink", "path"), "other", {"Spark", "Destination"}),
        (("sink", "merge_interval_s"), 5.0, {"Destination"}),
    ],
)
def test_a_change_invalidates_the_findings_that_depend_on_it(
    path: tuple[str, ...], value: Any, stale: set[str]
) -> None:
    """And no others: choosing a table does not invalidate the test of Spark."""
    kept, steps = draft(), ("Connect", "Preflight", "Plan", "Destination", "Spark")
    for step in steps:
        kept = kept.note(step, "ok", "good", AT)
    after = kept.put(*path, value=value)
    assert {step for step in steps if after.finding(step) is None} == stale


def test_each_step_has_a_state() -> None:
    """Open until it is done."""
    one = draft().note("Connect", "fail", "refused", AT).note("Spark", "warn", "slow", AT)
    assert [state_of(one, step) for step in STEPS] == ["fail", "open", "ok", "open", "open", "warn", "open"]
    assert blockers(one, []) == [("Connect", "refused")]
    assert [step for step, _ in unknowns(one)] == ["Preflight", "Plan", "Spark"]
    assert dict(unknowns(draft()))["Spark"].startswith("Spark was not tested")
    assert dict(unknowns(draft(), spark_test=True))["Spark"].startswith("The test of Spark is still running")


def test_an_open_step_says_why() -> None:
    """What does it; or that the settings have changed since it was done."""
    one = draft().note("Connect", "ok", "good", AT)
    assert why_open(one, "Spark").startswith("not done yet: test Spark")
    assert why_open(one, "Launch") == "not done yet: save or launch"
    changed = one.put("source", "user", value="other")
    assert state_of(changed, "Connect") == "open"
    assert why_open(changed, "Connect") == "done with other settings: user changed since 2026-01-31 15:30 UTC"
    assert outdated(one) == ""
    assert outdated(changed.note("Spark", "ok", "good", AT)) == ("Connect: user changed since (test the connection)")
    assert why_open(Draft("0123abcd", first_spec()), "Tables") == "not done yet: choose tables"


def test_tables_that_are_chosen_after_the_preflight_are_named_as_what_has_changed() -> None:
    """Its checks depend on the tables: the tick is hollow, and says why. Other settings are named too."""
    green = draft().put("source", "tables", value=None).note("Preflight", "ok", "12 checks passed", AT)
    chosen = green.put("source", "tables", value=["shop.*"])
    assert why_open(chosen, "Preflight") == "done with other settings: tables changed since 2026-01-31 15:30 UTC"
    assert outdated(chosen) == "Preflight: tables changed since (it runs when you open it, and before a launch)"
    more = chosen.put("source", "host", value="h").put("source", "new_tables", value="refuse")
    assert more.changes_since("Preflight") == ["host", "tables", "settings of the source"]
    earlier = replace(green, findings={"Preflight": replace(green.findings["Preflight"], of="0123456789abcdef")})
    assert earlier.changes_since("Preflight") == ["settings"]
    assert (green.changes_since("Preflight"), green.changes_since("Plan")) == ([], [])


def test_a_login_without_a_password_is_known() -> None:
    """So an error of the login does not ask to check a password that was never named."""
    assert not Draft("0123abcd", first_spec()).sends_password
    assert Draft("0123abcd", first_spec()).put("source", "password_file", value="/run/p").sends_password


def test_a_launch_needs_a_name_and_tables() -> None:
    """A missing setting is reported with its step."""
    empty = Draft("0123abcd", first_spec())
    assert [step for step, _ in blockers(empty, [])] == ["Connect", "Tables"]
    assert blockers(draft(), []) == []
    assert blockers(draft(), ["shop"])[0][0] == "Connect"
    unreachable = draft().note("Preflight", "fail", "nobody answers", AT)
    assert (missing(unreachable, []), blockers(unreachable, [])) == ([], [("Preflight", "nobody answers")])


@pytest.mark.parametrize(
    ("name", "good"), [("shop", True), ("", False), ("a b", False), ("-x", False), ("x" * 65, False)]
)
def test_valid_names_are_those_of_the_spec(name: str, good: bool) -> None:
    """The engine and the console agree."""
    assert (not name_fault(name, [])) == good
    if good:
        settings.parse(toml(draft().put("name", value=name).spec), Path("p"))


def test_a_password_is_refused_as_a_variable_name_and_not_repeated() -> None:
    """Someone will paste one."""
    assert variable_fault("SHOP_PASSWORD") == ""
    assert "hunter-2!" not in variable_fault("hunter-2!") != ""
