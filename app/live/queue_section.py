"""The commands that wait while no runner is alive, each with *Withdraw*."""

import streamlit as st

from app.common import access, controls, home
from app.common.autorefresh import autorefresh
from app.common.view import words
from app.live.view.queue_lines import queue_line
from engine.base.errors import TidemarkError
from engine.pipeline.command_queue import Waiting, waiting_commands, withdraw
from engine.pipeline.directory import Directory

_MOST = 20


@autorefresh()
def show(where: Directory) -> None:
    """Nothing if a runner responds, or if no command waits."""
    if home.runner(where).responds or not (commands := waiting_commands(where)):
        return
    with st.container(border=True, key="queue", gap="xsmall"):
        head = f"{words.plural(len(commands), 'command')} waiting for a runner"
        st.markdown(f"**:material/schedule: {head}** :gray[The next run takes them in this order.]")
        for one in commands[:_MOST]:
            _line(where, one)
        if len(commands) > _MOST:
            st.caption(f"and {len(commands) - _MOST:,} more: tidemark queue SPEC lists all.")


def _line(where: Directory, one: Waiting) -> None:
    click = controls.clicks(f"withdraw {one.id}")
    with st.container(horizontal=True, vertical_alignment="center", key=f"queued-{one.id}"):
        st.markdown(words.escape(queue_line(one)), width="stretch")
        if access.operator():
            st.button(
                "Withdraw",
                key=f"withdraw-{one.id}-{click}",
                disabled=not one.withdrawable,
                help=None if one.withdrawable else f"Not possible: {one.note}.",
                on_click=_withdraw,
                args=(where, one, click),
            )


def _withdraw(where: Directory, one: Waiting, click: int) -> None:
    if not access.operator() or not controls.first_time(f"withdraw {one.id}", click):
        return
    try:
        withdraw(where, one.id, actor=access.actor())
    except TidemarkError as problem:
        st.toast(words.escape(problem.message), icon=":material/error:")
    except OSError as problem:
        st.toast(words.escape(f"It could not be withdrawn: {problem}"), icon=":material/error:")
    else:
        commands = controls.sent(where.root.name)
        commands[:] = [command for command in commands if command.id != one.id]
