"""Fields whose values belong to a table."""

from streamlit.testing.v1 import AppTest


def page() -> None:
    """A table, and the chunks of it."""
    import streamlit as st

    from app.common import selection, table_fields

    selection.keep_address()
    table_fields.take("p", "chunks")
    table = selection.table(["d.t", "d.u"], usual=None)
    table_fields.settle("chunks", ("p", table or ""))
    table_fields.keep(
        "chunks", st.text_input("Chunks", table_fields.value("chunks"), key=table_fields.key("chunks")) or ""
    )


def test_the_value_of_one_table_never_reaches_another() -> None:
    """Not even with an autorefresh, which still has the fields of before.

    Nor after the address named a table that is gone.
    """
    live = AppTest.from_function(page)
    live.query_params |= {"table": "d.t", "chunks": "5"}
    live.run(timeout=30)
    assert live.text_input[0].value == "5"
    live.selectbox[0].set_value("d.u")
    sent = live._tree.get_widget_states()
    for _ in range(2):  # the browser has not received the empty field when the autorefresh is due
        live._run(sent, timeout=30)
        assert live.text_input[0].value == ""
        assert "chunks" not in live.query_params
    live.text_input[0].set_value("7").run(timeout=30)
    live.run(timeout=30)
    assert live.text_input[0].value == "7"
    gone = AppTest.from_function(page)
    gone.query_params |= {"table": "d.gone", "chunks": "5"}
    gone.run(timeout=30)
    gone.selectbox[0].set_value("d.u").run(timeout=30)
    assert gone.text_input[0].value == ""
