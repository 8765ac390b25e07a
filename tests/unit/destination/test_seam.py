"""The seam stays small: who adds a destination implements a dozen members, and no more."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from engine.capture import landing
from engine.capture.landing import NoMirror, ReadsBack, StagesFiles, reader_of
from engine.destination import capabilities, destination_protocol
from engine.destination.delta.landing import DeltaLanding
from engine.destination.delta.read.delta_reader import DeltaReader
from engine.destination.staged_landing import StagedLanding
from engine.store.local_folder import LocalFolder
from tests.unit.destination.support import OLD

MOST_MEMBERS = 12
"""Of one protocol: its methods, properties and attributes."""


def protocols(*modules: Any) -> dict[str, type]:
    """The protocols that modules define."""
    return {
        name: one
        for module in modules
        for name, one in inspect.getmembers(module, inspect.isclass)
        if one.__module__ == module.__name__ and getattr(one, "_is_protocol", False)
    }


def members(protocol: type) -> set[str]:
    """What an implementation of a protocol must have."""
    return {name for name in {*vars(protocol), *inspect.get_annotations(protocol)} if not name.startswith("_")}


SEAM = protocols(destination_protocol, capabilities, landing)


@pytest.mark.parametrize("name", SEAM)
def test_a_protocol_has_at_most_twelve_members(name: str) -> None:
    """What more there is becomes a capability of its own, or a part with a true name."""
    assert 1 <= len(members(SEAM[name])) <= MOST_MEMBERS


def test_the_seam_has_its_protocols() -> None:
    """So that the bound holds something: an attribute counts as a member too."""
    assert {"Destination", "DestinationTable", "PublishedMirror", "Terms", "Maintainable", "Landing"} <= set(SEAM)
    assert {"ReadsBack", "StagesFiles"} <= set(SEAM)
    assert {"table", "mirror", "append"} <= members(SEAM["DestinationTable"])


@pytest.mark.parametrize("name", ["Destination", "DestinationTable", "PublishedMirror", "Terms"])
def test_each_member_says_what_it_does(name: str) -> None:
    """In a docstring of its own, except for attributes."""
    protocol = SEAM[name]
    bare = [one for one in members(protocol) if one in vars(protocol) and not inspect.getdoc(vars(protocol)[one])]
    assert not bare


def test_a_landing_has_what_its_destination_can_do_and_nothing_else(tmp_path: Path) -> None:
    """Files of Delta tables stay and are read back; staged files are deleted, and read by nobody else."""
    delta, staged = DeltaLanding(LocalFolder(tmp_path)), StagedLanding(LocalFolder(tmp_path))
    assert isinstance(delta, ReadsBack)
    assert not isinstance(delta, StagesFiles)
    assert isinstance(staged, StagesFiles)
    assert not isinstance(staged, ReadsBack)
    assert isinstance(reader_of(delta, OLD), DeltaReader)
    assert isinstance(reader_of(staged, OLD), NoMirror)
