"""``python -m distembed``: the command line."""

from __future__ import annotations

from distembed.cli.main import main

if __name__ == "__main__":
    main()
