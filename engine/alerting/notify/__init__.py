"""Where alerts go: routes to webhooks, Slack, PagerDuty and mail.

Runners, watchdogs and the console use the same ones.
"""
