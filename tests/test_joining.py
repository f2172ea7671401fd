"""Lines that were split at a buffer's border."""

from __future__ import annotations

from builders import line

from classifiers.joining import joined


def test_parts_of_one_stream_become_one_line():
    """Other ranks' lines in between do not matter."""
    parts = [
        line("CUDA out of ", 0, rank=0, partial=True),
        line("step 7", 1, rank=1),
        line("memory. Tried ", 2, rank=0, partial=True),
        line("to allocate", 3, rank=0),
    ]

    assert ["step 7", "CUDA out of memory. Tried to allocate"] == [whole.text for whole in joined(parts)]


def test_a_part_without_its_rest_stands_for_itself():
    """Nothing is lost where the stream ends within a line."""
    assert ["CUDA out of "] == [whole.text for whole in joined([line("CUDA out of ", partial=True)])]


def test_whole_lines_stay_as_they_are():
    """The usual batch holds no parts."""
    lines = [line("a", 0), line("b", 1)]

    assert lines == joined(lines)
