"""The button that sends a test notification through a route, and the receiver's answer."""

from collections.abc import Mapping

import streamlit as st

from app.common import access, controls
from app.common.view import words
from engine.alerting.notify.routes import send_test
from engine.base import clock
from engine.spec.alert_settings import Alerts

_ANSWER = "answer to a test notification"
RouteOption = tuple[str, str]
"""A pipeline and the name of one of its routes."""


def section(rules: Mapping[str, Alerts], actor: str) -> None:
    """A choice of the routes of all pipelines, and the button. rules: by pipeline. actor: in whose name it is sent."""
    st.subheader("Test notification", anchor=False)
    routes = [(pipeline, name) for pipeline, rule in rules.items() for name in rule.all_routes()]
    if not routes:
        st.caption("No route is configured. Add [alerts.routes.NAME] to the spec, or set alerts.webhook_env.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        route = st.selectbox("Route", routes, key="route-to-test", width=320, format_func=" · ".join)
        click = controls.clicks(_key(route))
        st.button(
            "Send test",
            icon=":material/send:",
            key=f"test-{'-'.join(route)}-{click}",
            on_click=_send,
            args=(route, rules[route[0]], click, actor),
        )
    tested_route, colour, answer = st.session_state.get(_ANSWER, (None, "", ""))
    if tested_route == route:
        st.markdown(f":{colour}[{words.escape(answer)}]")
    st.caption("The console sends it, with the secret from its own environment or file. The secret is never shown.")


def _key(route: RouteOption) -> str:
    return f"test of {route[0]} {route[1]}"


def _send(route: RouteOption, rule: Alerts, click: int, actor: str) -> None:
    if not controls.first_time(_key(route), click) or not access.operator():
        return
    got = send_test(rule, route[1], route[0], actor)
    at = words.time_of_day(clock.utc_now())
    colour, answer = "red", f"{at}: not delivered: {got.problem}."
    if not got.problem:
        reply = f"answered {got.status}" if got.status else "took the mail"
        colour, answer = "green", f"{at}: {route[1]} {reply}."
    st.session_state[_ANSWER] = (route, colour, answer)
