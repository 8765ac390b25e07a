"""Pure functions that turn the dataclasses of `engine.history` into text, tiles and figures. No Streamlit.

health          the three layers; `troubles`, `write_words`: what a live runner lacks
status_style    the colour and the icon of each state
verification    the fourth light; `alert_list`: alerts; `progress`: the copy
words, zone     numbers and times as text; `hints`, `glossary`: advice and the meanings of words
draft           a pipeline that is being made; `template`: its spec
"""
