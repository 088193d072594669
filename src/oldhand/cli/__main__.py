"""``python -m oldhand.cli``."""

from oldhand.cli import main

main()
