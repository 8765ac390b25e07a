"""*Load the demo* in an empty console, on a private server with Spark."""

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import OpenPage
from tests.support.patience import PATIENCE_MS
from tests.tools.demo import console


def test_the_demo_is_loaded_leads_to_its_pipeline_and_leaves_nothing(open_page: OpenPage, tmp_path: Path) -> None:
    """Another browser sees the demo too, and cannot start a second one."""
    with console(tmp_path) as url:
        page = open_page(url)
        page.get_by_role("button", name="Load the demo").click()
        expect(page.get_by_text("Starting the demo")).to_be_visible()
        other = open_page(url, beside=True)
        expect(other.get_by_text("Starting the demo").or_(other.get_by_text("The demo is running"))).to_be_visible()
        expect(other.get_by_role("button", name="Load the demo")).to_have_count(0)
        page.wait_for_url("**/live?pipeline=demo**", timeout=PATIENCE_MS)
        expect(page.get_by_text("100.0%").or_(page.get_by_text("100%")).first).to_be_visible()
        other.get_by_role("button", name="End the demo").click()
        expect(other.get_by_text("No pipelines yet")).to_be_visible()
        assert not (tmp_path / "demo").exists()
        expect(other.get_by_role("button", name="Load the demo")).to_be_visible()


def test_a_demo_that_cannot_start_says_what_to_install(open_page: OpenPage, tmp_path: Path) -> None:
    """Nothing fails silently, and the console stays empty."""
    with console(tmp_path, environment={"JAVA_HOME": str(tmp_path)}) as url:
        page = open_page(url)
        page.get_by_role("button", name="Load the demo").click()
        alert = page.get_by_test_id("stAlert")
        expect(alert).to_contain_text("Not on this machine: Java.")
        expect(alert).to_contain_text("Run make setup")
        expect(page.get_by_role("button", name="New pipeline")).to_be_visible()
