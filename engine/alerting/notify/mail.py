"""Alerts by mail, over SMTP with TLS."""

import hashlib
import smtplib
import ssl
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid

from engine.alerting.notify.http_post import TIMEOUT_S
from engine.alerting.notify.notice import DeliveryResult, Notice, footer, headline
from engine.alerting.notify.pagerduty import dedup_key
from engine.base import clock
from engine.base.redaction import redact
from engine.spec.alert_settings import Route


def send_mail(route: Route, password: str, notice: Notice) -> DeliveryResult:
    """Send one mail to all recipients of a route. The server's own words are part of the answer, without secrets."""
    try:
        with _connected(route) as server:
            if route.user:
                server.login(route.user, password)
            refused = server.send_message(mail_of(route, notice), to_addrs=list(route.recipients))
    except smtplib.SMTPResponseException as error:
        said = error.smtp_error.decode(errors="replace") if isinstance(error.smtp_error, bytes) else error.smtp_error
        return DeliveryResult(
            redact(f"it answered {error.smtp_code} {' '.join(said.split())}"), retry=error.smtp_code < 500
        )
    except smtplib.SMTPRecipientsRefused as error:
        codes = [code for code, _ in error.recipients.values()]
        return DeliveryResult(f"it refused all recipients ({codes[0]})", retry=max(codes) < 500)
    except smtplib.SMTPNotSupportedError as error:
        return DeliveryResult(redact(f"it cannot do what the route needs: {error}"))
    except (OSError, smtplib.SMTPException) as error:
        return DeliveryResult(redact(f"{type(error).__name__}: {error}"), retry=True)
    if refused:
        return DeliveryResult(f"it refused {len(refused)} of {len(route.recipients)} recipients")
    return DeliveryResult()


def _connected(route: Route) -> smtplib.SMTP:
    host = route.host or ""
    if route.tls == "off":
        return smtplib.SMTP(host, route.port, timeout=TIMEOUT_S)
    context = ssl.create_default_context(cafile=str(route.tls_ca) if route.tls_ca else None)
    if route.tls == "tls":
        return smtplib.SMTP_SSL(host, route.port, timeout=TIMEOUT_S, context=context)
    server = smtplib.SMTP(host, route.port, timeout=TIMEOUT_S)
    try:
        server.starttls(context=context)
    except BaseException:
        server.close()
        raise
    return server


def mail_of(route: Route, notice: Notice) -> EmailMessage:
    """The mail. Mails about one alert refer to each other, so that readers show them as one thread."""
    made = EmailMessage()
    made["Subject"] = f"[tidemark] {headline(notice)}"
    made["From"] = route.sender
    made["To"] = ", ".join(route.recipients)
    made["Date"] = format_datetime(clock.utc_now())
    made["Message-ID"] = make_msgid(domain="tidemark.invalid")
    thread = hashlib.sha256(dedup_key(notice).encode()).hexdigest()[:32]
    made["References"] = f"<{thread}@tidemark.invalid>"
    made["Auto-Submitted"] = "auto-generated"
    parts = [notice.message]
    if notice.hint:
        parts.append(f"What to do: {notice.hint}")
    made.set_content("\n\n".join([*parts, footer(notice)]) + "\n")
    return made
