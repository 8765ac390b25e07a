"""Which tests `make test` runs on one server alone."""

from tests.servers import FLAVORS
from tests.support.depth import SAME_ON_BOTH, of_one_server
from tests.support.pages import ROOT


def test_each_module_exists_and_each_test_runs_on_one_server() -> None:
    """Another module's tests run on both."""
    for module in SAME_ON_BOTH:
        assert (ROOT / "tests" / "live" / f"{module}.py").is_file(), module
        for test in ("test_a", "test_on_mariadb"):
            assert sum(of_one_server(module, test, flavor) for flavor in FLAVORS) == 1
    assert all(of_one_server("test_values", "test_a", flavor) for flavor in FLAVORS)
