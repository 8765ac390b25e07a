"""The parts of *Alerts*. The page itself is `app/screens/alerts.py`; `engine.alerting` raises and words the alerts.

alert_acts            the buttons that end the cause of an alert
silence_section       silences; `route_test`: a test notification
"""
