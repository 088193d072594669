"""The log: one JSON object to a line, on standard error."""

from __future__ import annotations

import json
import logging
import time
import traceback


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON: when, how bad, what happened, and its fields."""

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line = {"time": when, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= record.__dict__.get("fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = "".join(traceback.format_exception(*record.exc_info))[-4000:]
        return json.dumps(line, ensure_ascii=True)  # nothing in it can do anything to a terminal


def start_log() -> logging.Logger:
    """The service's log, written to standard error; uvicorn's own errors go there too."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    for name, level in (("uvicorn.error", logging.WARNING), ("pastmaster.service", logging.INFO)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    return logger
