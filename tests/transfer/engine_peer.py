"""A process with memory that is written to: says where, then what is in it when it is told of."""

from __future__ import annotations

import sys
import time
from typing import cast

import numpy as np

from kvproto.transfer.engines.open_engine import EngineKind, open_engine

NBYTES = 1 << 20


def main() -> None:
    engine = open_engine(cast("EngineKind", sys.argv[1]))
    memory = np.zeros(NBYTES, np.uint8)
    engine.register([(memory.ctypes.data, NBYTES)])
    print(memory.ctypes.data, engine.metadata().hex(), flush=True)
    peer = engine.connect(bytes.fromhex(sys.stdin.readline()))
    while not (notifications := engine.notifications(peer)):
        time.sleep(0.001)
    print(memory.tobytes().hex(), *(each.hex() for each in notifications), flush=True)
    sys.stdin.readline()  # until it is closed, or the process is killed


if __name__ == "__main__":
    main()
