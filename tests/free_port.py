# SPDX-License-Identifier: Apache-2.0
"""Prints a TCP port of 127.0.0.1 on which a test may listen: below the range from which the kernel takes the ports of
outgoing connections, so that no other test holds it by chance before the listener is up."""

import random
import socket

FIRST, LIMIT = 20000, 32000


def is_free(port):
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


# SystemRandom: tests that start in the same moment must not draw the same ports.
ports = (random.SystemRandom().randrange(FIRST, LIMIT) for _ in range(1000))
print(next(filter(is_free, ports)))
