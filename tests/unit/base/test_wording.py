"""Texts as sentences."""

from engine.base.wording import sentences


def test_texts_from_outside_are_ended_like_sentences() -> None:
    """Only between two: the last one may be a statement to copy."""
    assert sentences("[errno 2] No such file", "Readers fail too.") == "[errno 2] No such file. Readers fail too."
    assert sentences("Done.", "", None, "Run: tidemark x") == "Done. Run: tidemark x"
    assert sentences("Really?", "Yes…", "no") == "Really? Yes… no"
    assert sentences("", None) == ""
