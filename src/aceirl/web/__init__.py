"""The interview: a page on which a person is the expert."""
