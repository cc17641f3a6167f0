"""The tests of the library need nothing of the study, as the library itself."""

from pathlib import Path


def test_no_test_of_the_library_imports_the_study() -> None:
    tests = Path(__file__).parent
    text = "import rankbound_" + "study", "from rankbound_" + "study"
    assert [file.name for file in tests.glob("*.py") if any(words in file.read_text("utf-8") for words in text)] == []
