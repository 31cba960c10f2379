"""A worker process: receives a call once, then items one by one, and sends back results.

Pickle is used only on the pipe between a worker and the process that started it. Nothing
read from a file or a network is unpickled.
"""

import multiprocessing
import os
import pickle
import signal
import threading
from multiprocessing.connection import Connection, wait

from ._executor import Failed, attempt

# Messages to the parent other than pickled results, which never begin like this.
READY = b"ready"
UNUSABLE = b"unusable "


def serve(connection: Connection) -> None:
    """Work until the other end of the connection is closed."""
    if hasattr(signal, "pthread_sigmask"):  # SIGINT stays blocked: the parent ends us
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    # In a thread, because the main one may be inside a computation for minutes.
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    try:
        connection.send_bytes(READY)
        call = _load_call(connection, connection.recv_bytes())
        while True:
            result = attempt(call, pickle.loads(connection.recv_bytes()))
            connection.send_bytes(_pickled(result))
    except (EOFError, OSError):
        os._exit(0)  # without Python's shutdown, in which unloading JAX takes time


def _load_call(connection: Connection, message: bytes):
    try:
        return pickle.loads(message)
    except Exception as problem:
        text = f"{type(problem).__name__}: {problem}"
        connection.send_bytes(UNUSABLE + text.encode())
        os._exit(0)


def _pickled(result) -> bytes:
    try:
        return pickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as problem:
        text = f"{type(problem).__name__}: {problem}"
        return pickle.dumps(Failed(f"its result could not be pickled: {text}"))


def _exit_with_parent() -> None:
    """Exit when the parent does, even if it was killed and closed nothing."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
