"""The status variables that limit the snapshot: whether the source has them."""

import difflib
from collections.abc import Collection

from engine.source.connect import Connection, query
from engine.source.preflight import Check


def check_status_variables(connection: Connection, names: Collection[str]) -> Check:
    """Whether the source has status variables of these names, in any case. Raises TransientError."""
    variables = {
        row["Variable_name"].casefold(): row["Variable_name"] for row in query(connection, "SHOW GLOBAL STATUS")
    }
    unknown = [name for name in names if name.casefold() not in variables]
    expected, why = "status variables of the source", "No chunk is read while the load is not known."
    if not unknown:
        return Check("throttle", "ok", expected, ", ".join(names), why)
    near = difflib.get_close_matches(unknown[0].casefold(), variables, 1)
    fix = f"The nearest is {variables[near[0]]}." if near else "SHOW GLOBAL STATUS lists them."
    return Check("throttle", "fail", expected, f"there is no {', '.join(unknown)}", why, fix)
