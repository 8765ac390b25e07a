"""The verdict of a table: whether its mirror equals its source, as far as is known.

One owner: `status`, and all pages of the console, decide by `verdict_of` and use its words. A verdict is about the
past: when the table was compared. So it also says what has made it obsolete since.
"""

from dataclasses import dataclass
from typing import Literal

from engine.base.wording import rows_differ
from engine.journal.verification_summary import Summary, Unreadable
from engine.pipeline.verification_records import ForeignChanges
from engine.pipeline.verifications import RESNAPSHOTTED, has_proved, stale_at_s, unreadable

VerificationState = Literal["verified", "stale", "diverged", "unverifiable"]
NO_KEY = "it has no key, so it has no mirror"
NO_MIRRORS = "its destination keeps no mirrors"
CHANGES_ONLY = "the pipeline copies no tables, so its mirror has only the rows that changed"
NEVER_COMPARED = (NO_KEY, NO_MIRRORS, CHANGES_ONLY)
"""Why a table can never be compared, whatever becomes of its mirror."""
WRITTEN = "another program changed its mirror"
"""Why a table is stale that was verified before that."""
STOPPED = "it is stopped"
"""Why a stopped table is stale: its mirror stays as it was, whatever was verified before."""
LACKS = "its mirror lacks changes"
"""Why a table is stale whose mirror does not get the changes that were committed after its verification."""
MISMATCHED = "its destination is not what the ledger has published"
"""Why a table is stale whose files were gone, or replaced, when a run started."""
LABELS: dict[VerificationState, str] = {
    "verified": "Verified",
    "stale": "Not verified",
    "diverged": "Rows differ",
    "unverifiable": "Cannot be verified",
}
UNREADABLE = "Mirror cannot be read"
STATES = (*LABELS.values(), UNREADABLE)
"""Every verdict in words; the number of rows that differ may stand before one."""


@dataclass(frozen=True)
class TableFacts:
    """What is known of a table."""

    summary: Summary | None = None
    """Its last comparisons; None if it was never compared."""
    generation: int | None = None
    """Of its current snapshot; None if that is not known, so that the comparisons count as those of the current one."""
    incomparable: str = ""
    """Why it can never be compared, known from its plan or the spec: `incomparable`. Empty if it can be."""
    foreign: ForeignChanges | None = None
    """What other programs have changed in its mirror."""
    stopped: bool = False
    lacks_since: str | None = None
    """Since when its mirror has lacked committed changes, if that is too long: UTC text."""
    mismatched_since: str | None = None
    """When the newest run ended because the table's destination is not what the ledger has published: UTC text."""


@dataclass(frozen=True)
class Verdict:
    """Whether a mirror equals its source."""

    state: VerificationState
    why: str = ""
    """The reason as a clause; empty if none is needed."""
    since: str | None = None
    """Since when the reason holds: UTC text; None if the reason does not need it."""
    differences: int = 0
    """Rows that differ."""
    broken: Unreadable | None = None
    """Why the mirror cannot be read, and what to do; None if it can, as far as known."""

    @property
    def label(self) -> str:
        """The verdict in words."""
        return label_of(self.state, self.differences, readable=self.broken is None)

    @property
    def comparable(self) -> bool:
        """Whether a comparison can have a result, whatever became of the last one."""
        return self.why not in NEVER_COMPARED


def label_of(state: VerificationState, differences: int, *, readable: bool) -> str:
    """A verdict in words. differences: rows that differ. readable: whether the mirror can be read, as far as known."""
    if differences:
        return rows_differ(differences)
    return LABELS[state] if readable else UNREADABLE


def incomparable(*, key: bool, copies: bool, mirrors: bool) -> str:
    """Why a table can never be compared; empty if it can be.

    key: whether it has one. copies: whether the pipeline copies tables (`source.startup`). mirrors: whether the
    destination keeps them.
    """
    if not mirrors:
        return NO_MIRRORS
    if not copies:
        return CHANGES_ONLY
    return "" if key else NO_KEY


def verdict_of(facts: TableFacts, period_s: float, now_s: float) -> Verdict:
    """The verdict of a table.

    period_s: twice that is the age at which a verification is stale. now_s: seconds since 1970.
    """
    return _unable(facts) or _differing(facts) or _obsolete(facts, period_s, now_s) or Verdict("verified")


def _unable(facts: TableFacts) -> Verdict | None:
    """By its plan, the table can never be compared. That it has stopped is more urgent."""
    return Verdict("unverifiable", facts.incomparable) if facts.incomparable and not facts.stopped else None


def _differing(facts: TableFacts) -> Verdict | None:
    """What the last comparisons found, if that is a fact until another comparison."""
    summary, broken = facts.summary, unreadable(facts.summary, _generation(facts))
    if summary is None or not summary.last:
        return None
    if summary.differences:
        return Verdict("diverged", differences=summary.differences, broken=broken)
    if broken:
        return Verdict("unverifiable", broken.why, broken=broken)
    refused = summary.verdict == "unverifiable" and not facts.stopped
    return Verdict("unverifiable", summary.why) if refused else None


def _obsolete(facts: TableFacts, period_s: float, now_s: float) -> Verdict | None:
    """Why its comparisons do not verify it now; the most urgent reason."""
    if facts.stopped:
        return Verdict("stale", STOPPED)
    if facts.mismatched_since and not (facts.summary and facts.summary.at > facts.mismatched_since):
        return Verdict("stale", MISMATCHED, facts.mismatched_since)
    if facts.foreign is not None and not has_proved(facts.summary, facts.foreign.version):
        return Verdict("stale", WRITTEN)
    if why := _why_stale(facts.summary, _generation(facts), period_s, now_s):
        return Verdict("stale", why)
    return Verdict("stale", LACKS, facts.lacks_since) if facts.lacks_since else None


def _generation(facts: TableFacts) -> int:
    if facts.generation is not None:
        return facts.generation
    return facts.summary.generation if facts.summary else 0


def _why_stale(summary: Summary | None, generation: int, period_s: float, now_s: float) -> str:
    """Why a table's comparisons do not verify it now; empty if they do."""
    if summary is None or not summary.last:
        return "it was not compared yet"
    if summary.generation != generation or (not summary.parts and summary.why == RESNAPSHOTTED):
        return RESNAPSHOTTED
    if not summary.parts:
        return "none of its parts were compared since"
    if not summary.at:
        return f"{summary.compared:,} of {summary.parts:,} parts were compared so far"
    return "it was verified too long ago" if now_s > stale_at_s(summary.at, period_s) else ""
