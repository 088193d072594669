"""``python -m pastmaster.cli``."""

from pastmaster.cli import main

main()
