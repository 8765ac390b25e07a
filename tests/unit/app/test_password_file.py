"""What the wizard says of a file with a password."""

from pathlib import Path

from app.wizard.connect import file_fault


def test_a_file_is_given_by_its_whole_path_and_can_be_read(tmp_path: Path) -> None:
    """Relative paths would mean another file in the pipeline's folder. The password itself is not shown."""
    secret = tmp_path / "secret"
    assert "is not a file that this console can read" in file_fault(secret)
    secret.write_text("tide-Mark-9")
    assert file_fault(secret) == ""
    assert "an absolute path" in file_fault(Path("secret"))
    assert file_fault(tmp_path) != ""
