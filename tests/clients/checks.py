"""What the flows in Python share."""

import time


def check(condition, message):
    """Stops the flow with a plain message."""
    if not condition:
        raise AssertionError(message)


def until(what, probe):
    """Polls until the probe returns something true; at most 15 s."""
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        value = probe()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"gave up waiting for {what}")
