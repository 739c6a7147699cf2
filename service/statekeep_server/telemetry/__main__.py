"""Prints the table of metrics in docs/metrics.md, for `make docs`."""

import sys

from statekeep_server.telemetry.metrics import reference

sys.stdout.write(f"{reference()}\n")
