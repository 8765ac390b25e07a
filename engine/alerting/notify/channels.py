"""Delivers one notice through one route, once: the four types of receivers."""

from engine.alerting.notify.http_post import post_json
from engine.alerting.notify.mail import send_mail
from engine.alerting.notify.notice import DeliveryResult, Notice
from engine.alerting.notify.pagerduty import pagerduty_events
from engine.alerting.notify.slack import slack_message
from engine.base.errors import SpecError
from engine.spec.alert_settings import Route
from engine.spec.settings import route_secret


def secret_problem(name: str, route: Route) -> str:
    """Why the secret of a route cannot be used now; empty if it can. It is read again each time."""
    try:
        route_secret(name, route)
    except SpecError as error:
        return _problem(error)
    return ""


def _problem(error: SpecError) -> str:
    text = error.message.removesuffix(".")
    return text[:1].lower() + text[1:]


def deliver(name: str, route: Route, notice: Notice) -> DeliveryResult:
    """Deliver a notice. Takes tens of seconds if the receiver does not answer; no error is raised.

    The secret is read each time, so a new key in a file needs no restart.
    """
    try:
        secret = route_secret(name, route)
    except SpecError as error:
        return DeliveryResult(_problem(error), retry=True)
    if route.type == "email":
        return send_mail(route, secret, notice)
    if route.type == "slack":
        return post_json(secret, slack_message(notice))
    if route.type == "webhook":
        return post_json(secret, notice.to_json())
    answer = DeliveryResult()
    for event in pagerduty_events(notice, secret):
        answer = post_json(route.endpoint, event)
        if answer.problem:
            break
    return answer
