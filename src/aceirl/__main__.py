"""`python -m aceirl`."""

from aceirl.cli import main

main()
