"""The check of the routes of alerts, in `check`.

A run starts without a route's secret, and the route fails until it is there.
"""

from engine.alerting.notify.routes import broken_routes
from engine.source.preflight import Check
from engine.spec.alert_settings import Alerts


def check_routes(settings: Alerts) -> list[Check]:
    """Whether the secret of each route can be used by this process; a warning for each that cannot."""
    broken = broken_routes(settings)
    why = "Alerts that take this route do not arrive until then. The other routes and the run do not wait for it."
    checks = []
    for name in settings.all_routes():
        problem = broken.get(name, "")
        fix = (
            "Set it for the processes that run the pipeline and the watchdog. A file is read again, "
            "no restart is needed."
        )
        actual = problem or "can be used"
        checks.append(
            Check(
                f"route {name}", "warn" if problem else "ok", "its secret is there", actual, why, fix if problem else ""
            )
        )
    return checks
