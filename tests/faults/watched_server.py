"""A server that says how long it kept its event loop: `python watched_server.py`, ended by the end of stdin.

Prints its address when it is ready, and for each line on stdin, as a JSON list, the seconds of processor time that lay
between one chance for others and the next since the line before: however busy the machine is, that is the server's own
doing.
"""

import asyncio
import json
import sys
import time

from statekeep_server.engines import open_engine
from statekeep_server.server import Server

EVERY = 0.002  # seconds between two looks, where nobody keeps the loop


async def main() -> None:
    server = Server(open_engine("memory:"))
    address = server.listen("127.0.0.1:0")
    await server.start()
    loop = asyncio.get_running_loop()
    kept: list[float] = []
    since = time.thread_time()

    def look() -> None:
        nonlocal since
        now = time.thread_time()
        kept.append(now - since)
        since = now
        loop.call_later(EVERY, look)

    look()
    print(address, flush=True)
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(kept), flush=True)
        kept.clear()
    await server.stop(0)


asyncio.run(main())
