"""Step 7: a summary of the pipeline, and the button that launches it."""

import streamlit as st

from app.common import home, messages, places, source_queries
from app.common.view import words
from app.common.view.draft import Draft, blockers, missing, unknowns
from app.common.view.template import toml
from app.wizard import drafts, frame, preflight, target
from app.wizard.view.checks import headline, outcome
from app.wizard.view.summary import facts, happens
from engine.base.durable import write_atomically
from engine.base.errors import TidemarkError
from engine.pipeline.directory import Directory
from engine.spec import settings


def page(draft: Draft) -> None:
    """The summary and the buttons on the left; the steps of the launch and the spec on the right."""
    text = toml(draft.spec, draft.written)
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.markdown("**What will run**")
        with st.container(border=True, gap="small"):
            for label, lines in facts(draft):
                name, values = st.columns([1, 5], gap="small")
                name.markdown(f":gray[{label}]")
                values.markdown("  \n".join(map(words.escape, lines)))
        with st.container():  # keeps its position, so that the buttons below stay
            draft = _checked(draft)
            blocking = blockers(draft, frame.pipeline_names())
            _problems(draft, blocking)
        _buttons(draft, text, whole=not missing(draft, frame.pipeline_names()), ready=not blocking)
    with right:
        st.markdown("**What happens next**")
        st.markdown("\n".join(f"{n}. {words.escape(line)}" for n, line in enumerate(happens(draft), 1)))
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            st.markdown("**pipeline.toml** :gray[the file for the command line]", width="content")
            st.download_button(
                "Download", text, "pipeline.toml", "application/toml", icon=":material/download:", key="download"
            )
        st.code(text, language="toml", height=380 if text.count("\n") > 16 else "content")
    frame.foot(draft, "Launch")


def _checked(draft: Draft) -> Draft:
    """The draft with a current finding of the preflight, since tables may have been chosen after it ran."""
    if not draft.get("source", "tables"):
        return draft
    try:
        spec = source_queries.spec_of(draft)
        settings.password(spec.source)
        draft = target.examined(draft, spec)
        if draft.finding("Preflight") is None:
            result = preflight.result_of(draft, spec)
            if result is not None:
                draft = frame.note(draft, "Preflight", outcome(result), headline(result))
    except TidemarkError as problem:
        frame.error(problem)
        draft = frame.note(draft, "Preflight", "fail", problem.message)
    return draft


def _problems(draft: Draft, blocking: list[tuple[str, str]]) -> None:
    for icon, colour, some in (
        (":material/error:", "red", blocking),
        (":material/warning:", "orange", unknowns(draft, spark_test=target.tests_spark(draft))),
    ):
        for number, (step, why) in enumerate(some):
            line, link = st.columns([5, 1], vertical_alignment="center")
            line.markdown(f":{colour}[{icon}] {words.escape(why)}")
            with link:
                if st.button(step, type="tertiary", key=f"to {colour} {number}", help=f"Go to {step}"):
                    frame.go(draft, step)


def _buttons(draft: Draft, text: str, *, whole: bool, ready: bool) -> None:
    with st.container(horizontal=True, horizontal_alignment="right", vertical_alignment="center"):
        if not ready:
            st.caption("Fix the problems in red before you launch.", width="content")
        saving = st.button("Save without starting", key="save", icon=":material/save:", disabled=not whole)
        launching = st.button(
            "Launch", type="primary", icon=":material/rocket_launch:", key="launch", disabled=not ready
        )
    if not (saving or launching):
        return
    try:
        spec = settings.parse(text, home.home() / draft.name / "pipeline.toml")
        settings.password(spec.source)
        where = _saved(draft, text)
        if launching:
            home.launch(where)
    except TidemarkError as problem:
        frame.error(problem)
    except OSError as problem:
        messages.three_parts(
            f"The pipeline could not be saved or started: {problem}.",
            "Nothing was read from the source.",
            f"Check free space and permissions of {home.home()}.",
        )
    else:
        drafts.discard(draft.id)
        st.session_state.pop("fresh draft", None)
        places.go_live(draft.name)


def _saved(draft: Draft, text: str) -> Directory:
    """Write the spec into the pipeline's folder."""
    where = Directory(home.home() / draft.name)
    if where.spec.exists():
        raise TidemarkError(
            f"A pipeline called {draft.name} already exists.",
            detail="It is unchanged.",
            hint="Choose another name in the first step, or open and start that pipeline.",
        )
    where.root.mkdir(parents=True, exist_ok=True)
    write_atomically(where.spec, text)
    return where
