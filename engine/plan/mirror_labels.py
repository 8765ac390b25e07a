"""What the ways of merging a mirror are called."""

from engine.spec.sink_settings import Merging

LABELS: dict[Merging | None, str] = {
    "copy_on_write": "copy on write",
    "merge_on_read": "merge on read",
    None: "change log alone",
}
