"""Asks a server for its health, again and again, in a process of its own: `python health_probe.py ADDRESS SECONDS`.

Prints how long each answer took, in seconds, as a JSON list.
"""

import json
import sys
import time

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

PAUSE = 0.01  # seconds


def main(address: str, seconds: float) -> None:
    took = []
    with grpc.insecure_channel(address) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        check(health_pb2.HealthCheckRequest(), wait_for_ready=True, timeout=30)
        print("ready", flush=True)
        over = time.monotonic() + seconds
        while time.monotonic() < over:
            began = time.perf_counter()
            check(health_pb2.HealthCheckRequest(), timeout=30)
            took.append(time.perf_counter() - began)
            time.sleep(PAUSE)
    print(json.dumps(took))


main(sys.argv[1], float(sys.argv[2]))
