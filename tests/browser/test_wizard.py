"""The steps of a new pipeline in a real browser, without a source."""

import json
import re
import tomllib
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.conftest import Console, OpenPage, healthy
from tests.servers.kafka_broker import kafka_broker
from tests.servers.postgres import postgres
from tests.servers.registry import schema_server


def fill(page: Page, label: str, text: str) -> None:
    """Fill a field and leave it, which saves the draft."""
    field = page.get_by_label(label, exact=True)
    field.fill(text)
    field.press("Enter")
    page.wait_for_timeout(500)  # the rerun has started
    expect(page.get_by_test_id("stStatusWidget")).to_have_count(0)


def choose(page: Page, label: str, option: str) -> None:
    """Choose an option of a list, which saves the draft."""
    page.get_by_role("combobox", name=re.compile(label)).click()
    page.get_by_role("option", name=option, exact=True).click()
    page.wait_for_timeout(500)  # the rerun has started
    expect(page.get_by_test_id("stStatusWidget")).to_have_count(0)


def test_a_draft_is_resumed_in_another_browser_and_holds_no_secret(simulated: Console, open_page: OpenPage) -> None:
    """By its URL and from the list. A pasted password is not saved anywhere."""
    address = f"{simulated.url}/new?draft=0000abcd&step=Connect"
    page = open_page(address)
    fill(page, "Pipeline name", "shop")
    expect(page.get_by_text("A pipeline called shop already exists")).to_be_visible()
    expect(page.get_by_role("button", name="Continue to preflight")).to_be_disabled()
    fill(page, "Pipeline name", "crm-copy")
    fill(page, "Host", "db.example.com")
    fill(page, "Name of the environment variable", "hunter-2!")
    expect(page.get_by_text("This is not the name of an environment variable")).to_be_visible()
    expect(page.get_by_label("Name of the environment variable", exact=True)).to_have_value("")
    page.get_by_role("button", name="Destination", exact=True).click()
    expect(page).to_have_url(re.compile("step=Destination"))
    fill(page, "Destination folder", "elsewhere")
    healthy(page)
    kept = [path.read_text() for path in simulated.home.rglob("*.json")]
    assert any("db.example.com" in text for text in kept)
    assert not any("hunter-2" in text for text in kept)
    other = open_page(f"{simulated.url}/new")
    card = other.locator("[class*='st-key-draft-0000abcd']")
    expect(card).to_contain_text("at step 5. Destination")
    card.get_by_role("button", name="Resume").click()
    expect(other.get_by_label("Destination folder", exact=True)).to_have_value("elsewhere")
    other.get_by_role("button", name="Connect", exact=True).click()
    expect(other.get_by_label("Host", exact=True)).to_have_value("db.example.com")
    healthy(other)


def test_an_unreachable_source_is_shown_at_every_step(simulated: Console, open_page: OpenPage) -> None:
    """In three parts, and nothing hangs. The spec can be saved, but not launched."""
    page = open_page(f"{simulated.url}/new?draft=0000abce&step=Connect")
    fill(page, "Pipeline name", "web")
    fill(page, "Port", "1")
    fill(page, "Name of the environment variable", "TIDEMARK_DEMO_PASSWORD")
    page.get_by_role("button", name="Test connection").click()
    alert = page.get_by_test_id("stAlert")
    expect(alert).to_contain_text("Connecting to 127.0.0.1:1 as tidemark failed")
    expect(alert).to_contain_text("What to do")
    for step in ("Preflight", "Tables"):
        page.get_by_role("button", name=step, exact=True).click()
        expect(page).to_have_url(re.compile(f"step={step}"))
        expect(page.get_by_test_id("stAlert").first).to_contain_text("Connecting to 127.0.0.1:1 as tidemark failed")
        healthy(page)
    page.get_by_role("button", name="Edit as TOML").click()
    text = page.get_by_label("pipeline.toml")
    expect(text).to_have_value(re.compile("tables = "))
    text.fill(text.input_value().replace("tables = []", 'tables = ["shop.*"]'))
    text.press("Control+Enter")
    expect(page.get_by_text("The spec is valid.")).to_be_visible()
    page.get_by_role("button", name="Review and launch").click()
    expect(page.get_by_role("button", name="Launch", exact=True).last).to_be_disabled()
    page.get_by_role("button", name="Save without starting").click()
    expect(page).to_have_url(re.compile(r"/live\?pipeline=web"))
    spec = tomllib.loads((simulated.home / "web" / "pipeline.toml").read_text())
    assert (spec["name"], spec["source"]["tables"], spec["source"]["port"]) == ("web", ["shop.*"], 1)
    healthy(page)


def test_an_unknown_key_in_toml_gets_a_suggestion(simulated: Console, open_page: OpenPage) -> None:
    """The editor accepts what the command line accepts. A password is refused and not saved."""
    page = open_page(f"{simulated.url}/new?draft=0000abcf&step=TOML")
    text = page.get_by_label("pipeline.toml")
    spec = (
        'name = "t"\n[source]\nhost = "h"\nuser = "u"\ntables = ["a.*"]\n'
        '[snapshot]\nchunk_row = 5\n[sink]\npath = "lake"\n'
    )
    text.fill(spec)
    text.press("Control+Enter")
    expect(page.get_by_test_id("stAlert")).to_contain_text("the nearest known key is 'chunk_rows'")
    text.fill(spec.replace("chunk_row", "chunk_rows").replace('user = "u"', 'user = "u"\npassword = "hunter-3"'))
    text.press("Control+Enter")
    expect(page.get_by_test_id("stAlert")).to_contain_text("The spec contains a password")
    text.fill(spec.replace("chunk_row", "chunk_rows"))
    text.press("Control+Enter")
    expect(page.get_by_text("The spec is valid.")).to_be_visible()
    page.get_by_role("button", name="Back to the steps").click()
    expect(page.get_by_label("Host", exact=True)).to_have_value("h")
    assert not any("hunter-3" in path.read_text() for path in simulated.home.rglob("*.json"))


def test_parquet_files_have_no_settings_of_mirrors(simulated: Console, open_page: OpenPage) -> None:
    """The choice removes what the spec would refuse, and the page shows what is written and what is missing."""
    page = open_page(f"{simulated.url}/new?draft=0000abd0&step=Destination")
    choose(page, "Merging into the mirror", "Copy on write: for every Delta reader")
    draft = simulated.home / ".drafts/0000abd0.json"
    assert json.loads(draft.read_text())["spec"]["sink"]["mirror"] == "copy_on_write"
    expect(page.get_by_test_id("stCode")).to_contain_text("__changes")
    choose(page, "Kind", "Parquet files")
    expect(page.get_by_text("Parquet files have no mirrors.")).to_be_visible()
    expect(page.get_by_label("Merging into the mirror")).to_have_count(0)
    expect(page.get_by_label("Seconds between merges into the mirror")).to_have_count(0)
    expect(page.get_by_test_id("stCode")).to_contain_text("_manifests/<epoch>.json")
    expect(page.get_by_test_id("stAlert")).to_have_count(0)
    assert json.loads(draft.read_text())["spec"]["sink"] == {"type": "parquet", "path": "lake"}
    healthy(page)
    page.get_by_role("button", name="Launch", exact=True).first.click()
    expect(page.get_by_text("Parquet files in lake")).to_be_visible()
    page.get_by_role("button", name="Destination", exact=True).click()
    choose(page, "Kind", "Delta tables")
    expect(page.get_by_label("Merging into the mirror", exact=True)).to_be_visible()
    healthy(page)


def _destination(
    simulated: Console, open_page: OpenPage, draft: str, kind: str, folder: str = "Folder for files until they are sent"
) -> Page:
    """The page of a new pipeline's destination. folder: the label of its field."""
    page = open_page(f"{simulated.url}/new?draft={draft}&step=Connect")
    fill(page, "Pipeline name", "events")
    fill(page, "Host", "db.example.com")
    page.get_by_role("button", name="Destination", exact=True).click()
    expect(page).to_have_url(re.compile("step=Destination"))
    choose(page, "Kind", kind)
    fill(page, folder, "staged")
    return page


def test_a_destination_in_a_database(simulated: Console, open_page: OpenPage, tmp_path: Path) -> None:
    """A server that does not answer is named; one that does is tried. The spec has what was chosen."""
    with postgres(tmp_path) as server:
        page = _destination(simulated, open_page, "0000abd0", "PostgreSQL tables")
        expect(page.get_by_text("PostgreSQL tables are verified, and redumped in parts.")).to_be_visible()
        fill(page, "Server", "127.0.0.1")
        fill(page, "Its port", "1")
        fill(page, "Database", "postgres")
        fill(page, "Login", "tidemark")
        expect(page.get_by_test_id("stAlert").last).to_contain_text("Connection refused")
        expect(page.get_by_test_id("stAlert").last).to_contain_text("Correct the server, the login or its password")
        fill(page, "Its port", str(server.port))
        expect(page.get_by_text("the database answers · writable")).to_be_visible()
        fill(page, "Table", "lake.{database}_{table}")
        page.screenshot(path=tmp_path / "database.png", full_page=True)
        healthy(page)
    (draft,) = [text for path in simulated.home.rglob("*.json") if "lake.{database}" in (text := path.read_text())]
    assert all(word in draft for word in ('"postgresql"', "127.0.0.1", str(server.port), "staged"))


def test_a_destination_of_a_function(simulated: Console, open_page: OpenPage, tmp_path: Path) -> None:
    """One that is not there is named; one that can be imported is tried."""
    page = _destination(simulated, open_page, "0000abce", "Calls of a Python function", "Destination folder")
    fill(page, "Function", "nowhere.write")
    expect(page.get_by_test_id("stAlert").last).to_contain_text("There is no function nowhere.write")
    expect(page.get_by_test_id("stAlert").last).to_contain_text("Correct the function's name")
    fill(page, "Function", "json.dumps")
    expect(page.get_by_text("the function is there · writable")).to_be_visible()
    page.screenshot(path=tmp_path / "function.png", full_page=True)
    healthy(page)


def test_a_destination_in_kafka(simulated: Console, open_page: OpenPage, tmp_path: Path) -> None:
    """Brokers that do not answer are named; those that do are tried. The spec has what was chosen."""
    with kafka_broker(tmp_path) as broker, schema_server(tmp_path) as registry:
        page = _destination(simulated, open_page, "0000abcf", "Kafka topics")
        expect(page.get_by_text("Kafka topics have no mirrors.")).to_be_visible()
        fill(page, "Brokers", "127.0.0.1:1")
        expect(page.get_by_test_id("stAlert").last).to_contain_text("Kafka at 127.0.0.1:1")
        expect(page.get_by_test_id("stAlert").last).to_contain_text("Correct the brokers' addresses")
        fill(page, "Brokers", broker.address)
        expect(page.get_by_text("the brokers answer · writable")).to_be_visible()
        fill(page, "Topic", "shop.{table}")
        choose(page, "Messages", "Plain rows; a deletion is a message without a value")
        choose(page, "Messages", "Rows in Avro, with a schema registry")
        expect(page.get_by_test_id("stAlert").last).to_contain_text("registry")
        page.screenshot(path=tmp_path / "no-registry.png", full_page=True)
        fill(page, "Schema registry", "http://127.0.0.1:1")
        expect(page.get_by_test_id("stAlert").last).to_contain_text("The schema registry does not answer")
        fill(page, "Schema registry", registry.url)
        expect(page.get_by_text("the brokers answer · writable")).to_be_visible()
        page.screenshot(path=tmp_path / "kafka.png", full_page=True)
        healthy(page)
    (draft,) = [text for path in simulated.home.rglob("*.json") if "shop.{table}" in (text := path.read_text())]
    assert all(word in draft for word in ('"kafka"', broker.address, '"avro"', registry.url, "staged"))
