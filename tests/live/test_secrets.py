"""A canary in every setting that may hold a secret appears nowhere.

No file, output, process, page of Spark or of the console.
"""

import json
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from streamlit.testing.v1 import AppTest

from app.common import access
from app.common.view.roles import OPERATOR, VIEWER
from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import read_runner
from engine.source.connect import Endpoint, describe, open_connection
from engine.source.preflight import Context, _tls
from engine.spec.settings import Source
from tests.live.conftest import PipelineFactory
from tests.live.support.pipeline import ROOT, Pipeline
from tests.servers import PASSWORD, USER, Server
from tests.servers.users import GRANTS, create_user
from tests.support.patience import PATIENCE_S

ENVIRONMENT = {
    "TIDEMARK_TEST_PASSWORD": "canary-password-1",
    "CANARY_WEBHOOK": "http://127.0.0.1:1/hooks/canary-webhook-2?t=canary-webhook-query-3",
    "CANARY_SLACK": "http://127.0.0.1:1/services/canary-slack-21",
    "CANARY_KEY": "canary-integration-key-22",
    "CANARY_MAIL": "canary-mail-password-23",
    "SPARK_CONNECT_AUTHENTICATE_TOKEN": "canary-connect-token-4",
    "AWS_SECRET_ACCESS_KEY": "canary-aws-secret-5",
}
CONF = {
    "spark.hadoop.fs.s3a.access.key": "canary-s3-access-6",
    "spark.hadoop.fs.s3a.secret.key": 'canary-s3-"secret"/7',
    "spark.hadoop.fs.s3a.session.token": "canary-s3-session-8",
    "spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net": "canary-azure-9",
    "spark.hadoop.fs.s3a.encryption.algorithm": "canary-s3-any-10",
    "spark.ssl.keyStorePassword": "canary-keystore-11",
    "spark.executorEnv.SERVICE": "canary-executor-env-12",
    "spark.hadoop.my.proxy": "http://me:canary-userinfo-13@proxy:3128/",
    "spark.executor.extraJavaOptions": "-Djavax.net.ssl.trustStorePassword=canary-java-14",
}
SALT = "canary-salt-15"
ROUTES = """
[alerts.routes.chat]
type = "slack"
url_env = "CANARY_SLACK"
[alerts.routes.pager]
type = "pagerduty"
key_env = "CANARY_KEY"
endpoint = "http://127.0.0.1:1/enqueue"
[alerts.routes.team]
type = "email"
host = "127.0.0.1"
port = 1
user = "mailer"
password_env = "CANARY_MAIL"
sender = "a@example.com"
recipients = ["b@example.com"]
"""
WITHIN = ("canary-webhook-2", "canary-slack-21", "canary-webhook-query-3", "canary-userinfo-13", "canary-java-14")
"""Canaries within settings. All canaries begin alike, so that one search finds each of them."""
SIGN = "canary-"
ROLES = (OPERATOR, VIEWER)


def _pipeline(server: Server, database: str, new_pipeline: PipelineFactory, folder: Path) -> Pipeline:
    (folder / "salt").write_text(SALT)
    user = "canary_user"
    create_user(server, user, GRANTS, ENVIRONMENT["TIDEMARK_TEST_PASSWORD"])
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v VARCHAR(20))")
    server.execute(f"INSERT INTO {database}.t VALUES (1, 'a'), (2, 'b')")
    server.execute(f"CREATE TABLE {database}.gone (id INT PRIMARY KEY)")
    conf = "\n".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in CONF.items())
    return new_pipeline(
        server,
        database,
        user=user,
        poll=0.2,
        merge=1.0,
        environment=ENVIRONMENT,
        spark=f'master = "local[2]"\n[spark.conf]\n{conf}',
        more=f'\n[alerts]\nwebhook_env = "CANARY_WEBHOOK"\n{ROUTES}[tables."{database}.t"]\nmask = ["v"]\n',
    )


def test_no_canary_comes_out(
    server_with: Any, new_database: Any, new_pipeline: PipelineFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even though a table stops, an alert cannot be posted, a command is refused and the console opens every page."""
    server = server_with("mysql")
    database = new_database(server)
    pipeline = _pipeline(server, database, new_pipeline, tmp_path)
    spec = pipeline.spec.read_text()
    pipeline.spec.write_text(f'mask_salt_file = "salt"\n{spec}')
    runner = pipeline.start_streaming(killed=True)
    try:
        server.execute(f"DROP TABLE {database}.gone")
        pipeline.wait_for(lambda: sum(e["error"] == "RouteError" for e in pipeline.events("error")) == 4, runner)
        found = read_runner(Directory(pipeline.home))
        assert found
        _check("processes", "\n".join(_commands(runner.pid)))
        _check_spark(found.spark_ui or "")
        for verb in ("status", "check", "plan"):
            result = pipeline.command(verb, "--json")
            _check(verb, result.stdout + result.stderr)
        _check_console(pipeline, tmp_path, monkeypatch)
    finally:
        pipeline.kill()
    _check("output", pipeline.output)
    for file in (file for file in pipeline.home.rglob("*") if file.is_file() and file.name != "pipeline.toml"):
        _check(str(file), file.read_text(errors="replace"))
    _check_bundle(pipeline, tmp_path / "bundle.zip")


def _check_spark(ui: str) -> None:
    """Spark's environment page and its JSON."""
    _check("Spark's environment page", _get(f"{ui}/environment/"))
    (application,) = json.loads(_get(f"{ui}/api/v1/applications"))
    environment = _get(f"{ui}/api/v1/applications/{application['id']}/environment")
    assert all(name in environment for name in CONF), "the settings are in force"
    _check("Spark's environment", environment)


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as page:  # noqa: S310 - Spark's own address
        return str(page.read().decode())


def _check(where: str, text: str) -> None:
    at = text.find(SIGN)
    assert at < 0, f"{where}: …{text[max(at - 200, 0) : at + 60]}…"


def _commands(pid: int) -> Iterator[str]:
    """The command lines of a process and of all its descendants, including Spark's JVM and workers."""
    processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    lines = [Path(f"/proc/{process.pid}/cmdline").read_text() for process in processes]
    assert any("SparkSubmit" in line for line in lines), "Spark's JVM is one of them"
    return iter(lines)


def _check_bundle(pipeline: Pipeline, out: Path) -> None:
    assert pipeline.command("bundle", "--out", str(out)).returncode == 0
    with zipfile.ZipFile(out) as packed:
        for name in packed.namelist():
            _check(f"bundle: {name}", packed.read(name).decode())


def _check_console(pipeline: Pipeline, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page and section, for both roles.

    The log on display contains secrets that no process of ours would write.
    """
    monkeypatch.setenv("TIDEMARK_HOME", str(home))
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    secrets = [*ENVIRONMENT.values(), *CONF.values(), SALT, *WITHIN]
    directory = Directory(pipeline.home)
    directory.log.write_text("".join(f"somebody wrote {secret} here\n" for secret in secrets))
    screens = sorted((ROOT / "app" / "screens").glob("[a-z]*.py"))
    for role in ROLES:
        monkeypatch.setattr(access, "role", lambda role=role: role)
        for screen in screens:
            sections = ("Events", "Spec") if screen.name == "live.py" else ("",)
            for section in sections:
                text = _shown(screen, section)
                _check(f"{screen.name} {section} for a {role}", text)
                if section == "Spec":
                    assert "spark.hadoop.fs.s3a.secret.key" in text, "it is the spec"
                    assert "somebody wrote *** here" in text, "it is the log"
    directory.log.unlink()


def _shown(screen: Path, section: str) -> str:
    page = AppTest.from_file(str(screen), default_timeout=PATIENCE_S)
    page.query_params["pipeline"] = "shop"
    if section:
        page.query_params["section"] = section
    page.run()
    return "\n".join(_texts(page.main))


def _texts(block: Any) -> Iterator[str]:
    for child in block.children.values():
        yield str(child.proto)
        if hasattr(child, "children"):
            yield from _texts(child)


@pytest.mark.parametrize(
    ("tls", "host", "outcome", "said"),
    [
        ("preferred", "db.example.com", "warn", "It does not stop an active attacker"),
        ("required", "db.example.com", "warn", "It does not stop an active attacker"),
        ("off", "db.example.com", "warn", "Nothing protects them"),
        ("verify", "db.example.com", "ok", ""),
        ("preferred", "127.0.0.1", "ok", ""),
    ],
)
def test_check_says_what_tls_protects_against(server: Server, tls: str, host: str, outcome: str, said: str) -> None:
    """Unverified encryption is a warning with the setting to change; a local source needs none."""
    source = Source(host=host, user=USER, tables=("d.*",), tls=tls)
    endpoint = Endpoint(server.host, server.port, USER, PASSWORD)
    with closing(open_connection(endpoint)) as connection:
        check = _tls(Context(endpoint, source, 1, connection, describe(connection), {}))
    assert check.outcome == outcome
    assert said in check.why
    assert check.actual.startswith(tls)
    assert ("source.tls" in check.fix) == (outcome == "warn")
