"""The interview about continuous observations: a person drives, is asked, takes over, and drives tests."""
