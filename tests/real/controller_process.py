"""A process that becomes the controller and remains it until it is killed.

Usage: python controller_process.py CONNECT_STRING BROKER_ID; prints `elected EPOCH` after its election.
"""

import asyncio
import sys

from shunter.core.controller.events import Elected, Event
from shunter.drivers.election.seat import ControllerSeat
from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.model.broker import Broker, Endpoint


async def main(connect_string: str, broker_id: int) -> None:
    def post(event: Event) -> None:
        if isinstance(event, Elected):
            print(f"elected {event.controller_epoch}", flush=True)

    client = ZooKeeperClient(connect_string, session_timeout_ms=30_000)
    await ControllerSeat(client, Broker(broker_id, 0, (Endpoint("PLAINTEXT", "PLAINTEXT", "h", 1),)), post).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
