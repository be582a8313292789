"""``python -m rbx``."""

from rbx.cli.main import main

main()
