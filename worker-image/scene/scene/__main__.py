"""The worker's process: gets Blender ready, waits for one job, carries it out and ends."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from .protocol import BAD_JOB, CANCELLED, DONE, RENDER_FAILED, Events, JobError

if TYPE_CHECKING:
    from .output import Output

def main() -> int:
    # Every thread made from here on inherits this mask, so that only the thread below takes the signals. As the first
    # process of a container this one would otherwise ignore them, and Python's own handlers wait for Blender to return.
    # numpy and Blender start threads as they are imported, so they come later.
    stop = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)
    from .output import Output

    options = arguments()
    folder = tempfile.TemporaryDirectory()
    output = Output(Path(folder.name))
    threading.Thread(target=cancel_on, args=(stop, output), daemon=True).start()
    events = Events()

    # Blender takes about a second to load: that is what a warm worker has behind it.
    from . import job, world

    events.send("ready")
    text = sys.stdin.readline()
    if not text.strip():
        return DONE
    with tempfile.TemporaryDirectory() as scratch:
        try:
            world.render(job.parse(text, Path(scratch)), output, Path(scratch), events, options.threads)
        except JobError as error:
            events.send("error", code="bad_job", field=error.field, message=error.message)
            return BAD_JOB
        except Exception as error:
            # The text of an error may contain a path or a label, so only its kind and place are sent.
            trace = error.__traceback__
            while trace and trace.tb_next:
                trace = trace.tb_next
            place = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""
            events.send("error", code="render_failed", field="", message=f"{type(error).__name__} at {place}")
            return RENDER_FAILED
        finally:
            output.discard_parts()
    return DONE


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scene", description="Renders one 360-degree scene from a JSON job.")
    parser.add_argument(
        "--threads", type=int, default=os.cpu_count() or 1, help="how many threads the renderer may use"
    )
    return parser.parse_args()


def cancel_on(signals: set[signal.Signals], output: Output) -> None:
    signal.sigwait(signals)
    output.discard_parts()
    os._exit(CANCELLED)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Blender's own clean-up at exit takes time and can crash; every file is in place by now.
    os._exit(code)
