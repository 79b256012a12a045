"""Run a campaign: `python -m tests.campaigns NAME --seed 0 --times N`; `NAME --help` lists its own options."""

from __future__ import annotations

import importlib
import pkgutil
import sys

from benchmarks.measures import run_main
from tests import campaigns

if __name__ == "__main__":
    modules = (module.name for module in pkgutil.iter_modules(campaigns.__path__))
    names = sorted(name for name in modules if not name.startswith(("_", "test_")))
    if len(sys.argv) < 2 or sys.argv[1] not in names:
        sys.exit(f"{__doc__}\nThe campaigns are {', '.join(names)}.")
    run_main(importlib.import_module(f"{campaigns.__name__}.{sys.argv.pop(1)}").main)
