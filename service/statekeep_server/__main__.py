"""`python -m statekeep_server` is the command `statekeep`."""

import sys

from statekeep_server.cli import main

sys.exit(main())
