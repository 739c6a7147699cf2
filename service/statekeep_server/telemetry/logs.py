"""The log: standard `logging` on stderr, a line of JSON for each message, or text with colours for people.

Modules log with `logging.getLogger(__name__)`, and give what a program should find as `extra={…}`.
"""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

_TIME = "time"
_FIRST = (_TIME, "level", "event")


def configure(level: str, form: str) -> None:
    """Write all that is logged in this process to stderr.

    `level` is debug, info, warning or error; `form` is json, text, or auto: text on a terminal, else json.
    """
    terminal = sys.stderr.isatty()
    handler = logging.StreamHandler()
    handler.addFilter(_not_metadata)
    handler.setFormatter(_text(colors=terminal) if form == "text" or (form == "auto" and terminal) else _json())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    logging.captureWarnings(True)
    for chatty in ("asyncio", "grpc", "opentelemetry"):  # what they say below that is for their own developers
        logging.getLogger(chatty).setLevel(max(logging.WARNING, logging.getLogger().level))


def _not_metadata(record: logging.LogRecord) -> bool:
    """Leave out what gRPC says of metadata that is no text: it shows the metadata, and that may be a token."""
    return not (record.name.startswith("grpc.") and str(record.msg).startswith("Invalid encoding"))


def _json() -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_PARTS,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _ordered,
            structlog.processors.JSONRenderer(),
        ],
    )


def _text(*, colors: bool) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_PARTS,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.dev.ConsoleRenderer(
                colors=colors, timestamp_key=_TIME, exception_formatter=structlog.dev.plain_traceback
            ),
        ],
    )


_PARTS: list[structlog.types.Processor] = [
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True, key=_TIME),
]


def _ordered(logger: Any, method: str, parts: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Return the parts with those first that every line has, for those who read it all the same."""
    return {name: parts.pop(name) for name in _FIRST} | dict(parts)
