"""Checks of every file that any of these tests has written."""

from tests.written_files import writers_keep_the_file_they_are_given

__all__ = ["writers_keep_the_file_they_are_given"]
