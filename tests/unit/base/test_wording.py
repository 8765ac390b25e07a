"""Texts as sentences."""

from engine.base.wording import listing, sentences, stop_sentence, utc_time


def test_texts_from_outside_are_ended_like_sentences() -> None:
    """Only between two: the last one may be a statement to copy."""
    assert sentences("[errno 2] No such file", "Readers fail too.") == "[errno 2] No such file. Readers fail too."
    assert sentences("Done.", "", None, "Run: tidemark x") == "Done. Run: tidemark x"
    assert sentences("Really?", "Yes…", "no") == "Really? Yes… no"
    assert sentences("", None) == ""


def test_times_are_shown_as_the_console_shows_them() -> None:
    """To the second; what is no time stays as it is."""
    assert utc_time("2026-11-27T12:30:05.123456Z") == "2026-11-27 12:30:05 UTC"
    assert [utc_time(text) for text in ("soon", None, "")] == ["soon", "—", "—"]


def test_a_long_list_of_names_says_how_many_follow() -> None:
    """With a separator that is not a comma, it stands before the last part too."""
    assert listing(["a", "b"], 2) == "a, b"
    assert listing(["a", "b", "c"], 2) == "a, b and 1 more"
    assert listing(["a x", "b y", *["c z"] * 1000], 2, "; ") == "a x; b y; and 1,000 more"


def test_a_stop_names_its_table_once() -> None:
    """Decoders begin with the table, other errors do not."""
    assert stop_sentence("d.t", "d.t: a row image lacks columns.") == "d.t stopped: a row image lacks columns."
    assert stop_sentence("d.t", "It was dropped.") == "d.t stopped: It was dropped."
