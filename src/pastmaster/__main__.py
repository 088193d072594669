"""``python -m pastmaster``."""

from pastmaster.cli import main

main(prog_name="pastmaster")
