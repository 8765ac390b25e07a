"""The preflight of a run, at its start and whenever another server answers."""

from dataclasses import dataclass
from functools import partial

from engine.base.errors import PreflightError
from engine.capture.projection.projection_rules import as_read
from engine.ledger.state import State
from engine.run.source_loss.outage import Account
from engine.run.tables.membership_commands import members_of
from engine.source.connect import Endpoint
from engine.source.grants import minimal_grants
from engine.source.preflight import Preflight, run_preflight
from engine.spec.globs import NameRule
from engine.spec.settings import Spec


@dataclass(frozen=True)
class SourceCheck:
    """The preflights of one run."""

    spec: Spec
    rule: NameRule | None
    """How the source compared names when the run began; None if it did not answer."""

    def preflight(self, endpoint: Endpoint, state: State | None) -> Preflight:
        """Raises PreflightError if the source compares names in another way now."""
        spec, members = self.spec, members_of(state)
        reads, rules, readers = partial(as_read, spec), spec.table_rules(), spec.parallel_readers()
        result = run_preflight(endpoint, spec.source, spec.first_server_id(), reads, members, rules, readers)
        if result.server.names != self.rule:
            raise PreflightError(
                "The source now compares names in another way than when the run began.",
                detail="The globs of the spec could select other tables. Nothing was read.",
                hint="Start again: the run then follows the server's lower_case_table_names.",
            )
        return result

    def account(self, preflight: Preflight, state: State | None) -> Account:
        """The account and its grants, for all tables that the globs select, or that were added."""
        also = sorted(f"{database}.{table}" for database, table in members_of(state).also)
        user, globs = self.spec.source.user, [*self.spec.source.tables, *also]
        return Account(user, tuple(minimal_grants(user, preflight.server, globs)))
