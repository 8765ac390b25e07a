"""The console: `python -m streamlit run app/main.py` from the root of the repository."""

import gc
from pathlib import Path

import streamlit as st

from app.common import access, badge, cell_links, copy_link, focus, page_switch, places, selection, times, watching


@st.cache_resource
def _frozen() -> set[str]:
    """The pages whose modules are exempt from garbage collection, which Streamlit runs after each rerun."""
    return set()


_HEADER = "[data-testid=stLayoutWrapper]:has(> .st-key-header)"
_BESIDE = "position: fixed; top: 0.75rem; right: 4rem; width: auto; z-index: 999991"
_ASSETS = Path(__file__).parent.parent / "assets"

watching.begin()
page_switch.keep_page()
selection.keep_address()
st.set_page_config(page_title="Tidemark", page_icon=str(_ASSETS / "icon.svg"), layout="wide")
# Streamlit fades stale elements during a rerun. Here that is every two seconds, and the page shows how old its numbers
# are.
st.html(
    "<style>[data-stale=true] {opacity: 1 !important; transition: none !important}"
    # On a wide screen the header stands beside the navigation; a login needs more room.
    f"@media (min-width: 1280px) {{{_HEADER}:not(:has(.st-key-log-out)) {{{_BESIDE}}}}}"
    f"@media (min-width: 1680px) {{{_HEADER} {{{_BESIDE}}}}}"
    # Between them there is room for the names of the pages and the number of alerts, but not for icons.
    "@media (min-width: 1280px) and (max-width: 1399px) "
    "{[data-testid=stTopNavLink] > :has([data-testid=stIconMaterial])"
    "{display: none}}"
    # A pipeline is always selected.
    ".st-key-pipeline [aria-label='Clear value'] {display: none}"
    # In the dark theme, white has too little contrast with the primary colour.
    ":is([data-testid^=stBaseButton-primary], [data-testid=stPopoverButton][kind=primary]):not(:disabled)"
    "{&, & * {color: light-dark(#ffffff, #0d171e)}}"
    # The browser's own ring hardly differs from the bar.
    "[data-testid=stTopNavLink]:focus-visible {outline: 2px solid currentColor; outline-offset: 2px}"
    # Only a screen reader has these.
    ".unseen, .st-key-spoken {position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%)}"
    # Components without a visible part.
    ".st-key-return-kept, .st-key-return-followed,"
    ".st-key-times-kept, .st-key-title-kept, .st-key-address-kept, .st-key-history-guard, "
    ".st-key-cell-links, "
    ".st-key-popover-focus {display: none}"
    "</style>"
)
copy_link.guard()
st.logo(str(_ASSETS / "logo.svg"), size="large")
screen = st.navigation(places.pages(operator=access.operator()), position="top")
selection.found_page(screen)
st.set_page_config(page_title=badge.title(screen.title))
with st.container(key="header", horizontal=True, horizontal_alignment="right", vertical_alignment="center"):
    badge.draw(screen.title)
    access.who()
    copy_link.draw()
    times.choose()
    cell_links.draw()
    focus.draw()
screen.run()
copy_link.complete(screen.url_path)
if screen.url_path not in _frozen():
    gc.collect()  # what is garbage now would stay for ever
    gc.freeze()
    _frozen().add(screen.url_path)
