"""Steps 5 and 6: the destination and the startup mode, and Spark."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from app.common import engine, jobs, messages, source_queries
from app.common.view import words
from app.common.view.draft import Draft
from app.common.view.template import toml
from app.wizard import catalog, database, drafts, frame, kafka, writer
from app.wizard.view import destination_kind
from engine.base.errors import TidemarkError, printed_error
from engine.base.writable import write_fault
from engine.explore.server_trial import fault_of_servers
from engine.spec.settings import Spec
from engine.store import folder_trial

_STARTS = {
    "initial": "Copy everything, then follow changes",
    "snapshot": "Copy everything, then end",
    "latest": "Follow from now on, copy nothing",
    "earliest": "Follow from the oldest binlog, copy nothing",
    "timestamp:": "Follow from a time",
    "position:": "Follow from a binlog position",
    "gtid:": "Follow after a GTID set",
}
_ARGUMENTS = {
    "timestamp:": ("Time, UTC", "2026-01-31T00:00:00Z"),
    "position:": ("File and offset", "mysql-bin.000003:4"),
    "gtid:": ("GTID set", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"),
}
MIRRORS = {
    "auto": "By the table's size",
    "copy_on_write": "Copy on write: for every Delta reader",
    "merge_on_read": "Merge on read: for readers of deletion vectors",
}
MIRROR_HELP = (
    "Copy on write rewrites each file with a changed row. Merge on read writes only the changes; deltalake's pandas "
    "and Arrow exports cannot read it. Tables from 16 MiB on are merged on read by default."
)
_PLACES = ("This machine", "Cluster or Connect server")
_TRY_S = 400.0
_BROKERS_S = 4.0
"""How long brokers have for an answer while the page waits."""


def destination(draft: Draft) -> None:
    """The destination's kind and folder, how it merges, and the startup mode."""
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.markdown(f"**Destination** :gray[{destination_kind.KEEPS.get(destination_kind.kind_of(draft), '')}]")
        _kind(draft)
        kafka.fields(draft)
        database.fields(draft)
        writer.fields(draft)
        frame.text(
            destination_kind.folder_label(draft),
            draft,
            "sink",
            "path",
            help="Relative to the pipeline's folder, or absolute; shared when Spark is remote. Or a place in a bucket: "
            "s3://bucket/lake, or az://container/lake on Azure",
        )
        if destination_kind.has_mirrors(draft):
            _merging(draft)
        _start(draft)
    with right:
        try:
            spec = source_queries.spec_of(draft)
        except TidemarkError as problem:
            messages.error(problem)
            draft = frame.note(draft, "Destination", "fail", problem.message)
        else:
            draft = _folder(draft, spec)
    frame.foot(draft, "Destination")


def _kind(draft: Draft) -> None:
    now = destination_kind.kind_of(draft)
    key = frame.synced(f"{draft.id} kind", now, partial(_keep_kind, draft.id))
    st.selectbox(
        "Kind",
        list(destination_kind.KINDS),
        index=list(destination_kind.KINDS).index(now) if now in destination_kind.KINDS else None,
        format_func=destination_kind.KINDS.__getitem__,
        key=key,
        on_change=_keep_kind,
        args=(draft.id, key),
    )
    if not destination_kind.has_mirrors(draft):
        kind = destination_kind.kind_of(draft)
        is_database = kind in destination_kind.DATABASES
        lacks = destination_kind.IN_DATABASES if is_database else destination_kind.WITHOUT_MIRRORS
        st.caption(lacks.format(destination_kind.KINDS.get(kind, "They")))


def _keep_kind(identity: str, key: str) -> None:
    if kind := st.session_state[key]:
        drafts.change(identity, lambda draft: destination_kind.with_kind(draft, kind))


def _merging(draft: Draft) -> None:
    frame.number(
        "Seconds between merges into the mirror",
        draft,
        "sink",
        "merge_interval_s",
        default=10.0,
        min_value=0.0,
        step=5.0,
        format="%g",
        help="The change log is written at once; the mirror follows at this interval. Fewer merges cost less.",
    )
    frame.choice("Merging into the mirror", draft, MIRRORS, "sink", "mirror", default="auto", help=MIRROR_HELP)
    _formats(draft)


def _formats(draft: Draft) -> None:
    now = destination_kind.iceberg_of(draft)
    key = frame.synced(f"{draft.id} formats", now, partial(_keep_formats, draft.id))
    st.selectbox(
        "Formats",
        list(destination_kind.FORMATS),
        index=list(destination_kind.FORMATS).index(now),
        format_func=destination_kind.FORMATS.__getitem__,
        key=key,
        on_change=_keep_formats,
        args=(draft.id, key),
        help=destination_kind.FORMATS_HELP,
    )
    catalog.fields(draft)


def _keep_formats(identity: str, key: str) -> None:
    version = st.session_state[key] or ""
    drafts.change(identity, lambda draft: destination_kind.with_iceberg(draft, version))


def _start(draft: Draft) -> None:
    mode, colon, argument = str(draft.get("source", "startup", default="initial")).partition(":")
    # A mode with an argument is saved when the argument is entered; until then it is only on the page.
    mode = st.session_state.get(f"{draft.id} start-wanted") or mode + colon
    key = frame.synced(f"{draft.id} start", mode, lambda key: _keep_start(draft.id, key, ""))
    text_key = f"{draft.id} start-at {mode}"
    modes = list(_STARTS)
    start_mode = st.selectbox(
        "Start",
        modes,
        index=modes.index(mode),
        format_func=_STARTS.__getitem__,
        key=key,
        on_change=_keep_start,
        args=(draft.id, key, ""),
    )
    if start_mode in _ARGUMENTS:
        label, example = _ARGUMENTS[start_mode]
        st.text_input(
            label,
            argument,
            key=text_key,
            placeholder=example,
            on_change=_keep_start,
            args=(draft.id, key, text_key),
        )
        if not st.session_state.get(text_key):
            st.caption("Until it is entered, the draft keeps the previous mode.")


def _keep_start(identity: str, key: str, text_key: str) -> None:
    mode = st.session_state[key]
    argument = (st.session_state.get(text_key) or "").strip() if text_key else ""
    incomplete = mode in _ARGUMENTS and not argument
    st.session_state[f"{identity} start-wanted"] = mode if incomplete else ""
    if not incomplete:
        value = mode + argument if mode in _ARGUMENTS else mode
        drafts.change(identity, lambda draft: draft.put("source", "startup", value=value))


def examined(draft: Draft, spec: Spec) -> Draft:
    """The draft with a finding about the folder on this machine.

    Workers of a remote Spark must see it under the same path.
    """
    path = spec.sink.local_path
    if fault := fault_of_servers(spec.sink, _BROKERS_S):
        return frame.note(draft, "Destination", "fail", fault)
    if path is None:
        trial = folder_trial.tried(spec.sink.folder)
        text = f"{trial.fault.rstrip('.')}. {trial.remedy}" if trial.fault else f"{spec.sink.path} is writable."
        return frame.note(draft, "Destination", "fail" if trial.fault else "ok", text)
    if fault := write_fault(path):
        return frame.note(draft, "Destination", "fail", f"{fault.rstrip('.')}. It cannot be written.")
    if path.is_dir() and any(path.iterdir()):
        return frame.note(draft, "Destination", "warn", f"The folder {path} is not empty.")
    return frame.note(draft, "Destination", "ok", f"{path} is writable.")


def _folder(draft: Draft, spec: Spec) -> Draft:
    path = spec.sink.path
    st.markdown("**Layout**")
    st.code(f"{path}\n{destination_kind.layout(draft)}", language=None, wrap_lines=True)
    draft = examined(draft, spec)
    finding = draft.finding("Destination")
    if finding is not None and finding.outcome == "fail":
        messages.three_parts(
            finding.text,
            "Nothing can be published there.",
            destination_kind.REMEDIES.get(spec.sink.type, destination_kind.FOLDER_REMEDY),
        )
    elif finding is not None and finding.outcome == "warn":
        messages.three_parts(
            finding.text,
            "This pipeline would write to tables of the same names.",
            "Choose another folder, unless you want to add to this one.",
            amber=True,
        )
    else:
        answers = destination_kind.ANSWERS.get(spec.sink.type, "")
        st.markdown(f":green[:material/check_circle:] {answers}writable{_room(spec.sink.local_path)}")
    return draft


def _room(path: Path | None) -> str:
    """The free space of a folder's disk; a bucket has no bound."""
    if path is None:
        return ""
    free = shutil.disk_usage(next(parent for parent in (path, *path.parents) if parent.exists())).free
    return f" · {words.size(free)} free"


def spark(draft: Draft) -> None:
    """Local or remote Spark, its settings, and a button to test it."""
    left, right = st.columns([3, 2], gap="large")
    master = str(draft.get("spark", "master", default="local[*]"))
    with left:
        st.markdown("**Spark** :gray[runs the readers, on this machine or on a cluster]")
        key = f"{draft.id} spark-place"
        local = master.startswith("local")
        place = st.segmented_control(
            "Where it runs", _PLACES, default=_PLACES[0 if local else 1], key=key, required=True
        )
        if place == _PLACES[0]:
            _local(draft, master if local else "local[*]", switched=not local)
        else:
            _remote(draft, "" if local else master)
        _conf(draft)
    with right:
        draft = _trial(draft)
    frame.foot(draft, "Spark")


def _local(draft: Draft, master: str, *, switched: bool) -> None:
    cores = os.cpu_count() or 1
    inside = master.removeprefix("local").strip("[]").partition(",")[0].strip()
    now = None if inside == "*" else int(inside or 1)
    key = frame.synced(f"{draft.id} slots", now, partial(_keep_slots, draft.id))
    st.number_input(
        "Chunks read at once",
        min_value=1,
        max_value=256,
        value=now,
        step=1,
        key=key,
        placeholder=f"automatic: {cores}, one for each core",
        on_change=_keep_slots,
        args=(draft.id, key),
        help=f"Empty: one for each of this machine's {cores} cores",
    )
    if switched:
        drafts.change(draft.id, lambda now: now.put("spark", "master", value=master))
        st.rerun()


def _keep_slots(identity: str, key: str) -> None:
    slots = st.session_state[key]
    drafts.change(identity, lambda draft: draft.put("spark", "master", value=f"local[{slots or '*'}]"))


def _remote(draft: Draft, master: str) -> None:
    key = frame.synced(f"{draft.id} master", master, partial(_keep_master, draft.id))
    st.text_input(
        "Address",
        master,
        key=key,
        placeholder="spark://host:7077",
        on_change=_keep_master,
        args=(draft.id, key),
        help="spark://host:7077 (standalone), sc://host:15002 (Connect), yarn, k8s://https://host:6443. A token comes "
        "from SPARK_CONNECT_AUTHENTICATE_TOKEN, never from the spec.",
    )
    if problem := st.session_state.get(f"{draft.id} master-fault"):
        messages.error(problem)
    elif not master:
        st.caption("Until an address is entered, the draft keeps this machine.")
    st.caption(
        "Workers need Python of this version, the packages of requirements.txt, "
        "and the destination folder under the same path."
    )


def _keep_master(identity: str, key: str) -> None:
    """Save the address, unless it is invalid: it may contain a token."""
    value = (st.session_state[key] or "").strip()
    st.session_state.pop(f"{identity} master-fault", None)
    if not value:
        return
    draft = drafts.load(identity).put("spark", "master", value=value)
    try:
        source_queries.spec_of(draft)
    except TidemarkError as problem:
        st.session_state[f"{identity} master-fault"] = problem
        return
    drafts.change(identity, lambda now: now.put("spark", "master", value=value))


def _conf(draft: Draft) -> None:
    conf = draft.get("spark", "conf", default={})
    text = "\n".join(f"{name} = {value}" for name, value in conf.items())
    key = frame.synced(f"{draft.id} conf", text, partial(_keep_conf, draft.id))
    with st.expander("Spark settings", expanded=bool(conf)):
        st.text_area(
            "One per line: name = value",
            value=text,
            key=key,
            placeholder="spark.executor.memory = 2g",
            on_change=_keep_conf,
            args=(draft.id, key),
        )


def _keep_conf(identity: str, key: str) -> None:
    parts = (line.partition("=") for line in (st.session_state[key] or "").splitlines() if "=" in line)
    conf = {name.strip(): value.strip() for name, _, value in parts if name.strip()}
    drafts.change(identity, lambda draft: draft.put("spark", "conf", value=conf or None))


def tests_spark(draft: Draft) -> bool:
    """Whether the test of Spark with these settings is running."""
    try:
        return jobs.running(_spark_key(draft, source_queries.spec_of(draft)))
    except TidemarkError:
        return False


def _spark_key(draft: Draft, spec: Spec) -> str:
    return f"spark {draft.fingerprint('Spark')} {spec.sink.path}"


def _trial(draft: Draft) -> Draft:
    st.markdown("**Spark test** :gray[starts or joins Spark as the run would, and checks its workers]")
    try:
        spec = source_queries.spec_of(draft)
    except TidemarkError as problem:
        messages.error(problem)
        return frame.note(draft, "Spark", "fail", problem.message)
    key = _spark_key(draft, spec)
    finding = draft.finding("Spark")
    tested = finding is not None or jobs.exists(key)
    pressed = st.button(
        "Test Spark again" if tested else "Test Spark",
        type="secondary" if tested else "primary",
        icon=":material/bolt:",
        key="test-spark",
        disabled=jobs.running(key),
    )
    text = toml(
        draft.put("name", value=spec.name)
        .put("source", "tables", value=list(spec.source.tables))
        .put("sink", "path", value=str(spec.sink.path))
        .spec
    )
    if pressed:
        jobs.forget(key)
        jobs.start(key, lambda: tried(text))
        st.rerun()
    if not jobs.exists(key):
        frame.earlier_finding(
            finding, "Not tested yet. It takes about ten seconds locally, and up to three minutes on a busy cluster."
        )
        return draft
    try:
        spark_facts = jobs.result(key, f"Starting Spark at {spec.spark.master}", lambda: tried(text))
    except TidemarkError as problem:
        messages.error(problem)
        return frame.note(draft, "Spark", "fail", problem.message)
    if spark_facts is None:
        return draft
    slots = words.plural(int(spark_facts["slots"]), "chunk")
    with st.container(border=True, gap="small"):
        st.markdown(f"#### :green[:material/check_circle: Spark {spark_facts['version']} is ready]", anchors=False)
        st.markdown(f"Reads {slots} at once · {words.escape(spark_facts['master'])}")
        st.caption("The test session has ended; the run starts its own.")
    return frame.note(
        draft, "Spark", "ok", f"Spark {spark_facts['version']} at {spark_facts['master']} reads {slots} at once."
    )


def tried(spec: str) -> dict[str, Any]:
    """Test Spark in a separate process, so that neither a JVM nor a client stays in the console.

    Raises TidemarkError.
    """
    with tempfile.TemporaryDirectory(prefix="tidemark-trial-") as folder:
        file = Path(folder) / "pipeline.toml"
        file.write_text(spec, encoding="utf-8")
        try:
            process = subprocess.run(
                [sys.executable, "-m", "engine.spark.trial", str(file)],
                cwd=engine.ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TRY_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise TidemarkError(
                f"Spark did not start within {_TRY_S:.0f} s.",
                detail="Nothing was read.",
                hint="Check the Spark UI and the logs of Spark.",
            ) from None
    lines = [line for line in process.stdout.splitlines() if line.startswith("{")]
    answer: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    if "error" in answer:
        raise printed_error(answer)
    if process.returncode or not answer:
        raise TidemarkError(
            f"Spark could not be tested: {(process.stderr.strip().splitlines() or ['no output'])[-1]}",
            detail="Nothing was read.",
            hint=f"For the full output, run python -m engine.spark.trial SPEC in {engine.ROOT}.",
        )
    return answer
