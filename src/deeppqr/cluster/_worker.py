"""A worker process: it gets a call once and items one by one, and sends their results.

Pickle goes through the pipe between it and the process that started it, and nowhere else:
nothing that was written to a file, or came from elsewhere, is ever unpickled.
"""

import multiprocessing
import os
import pickle
import signal
import threading
from multiprocessing.connection import Connection, wait

from ._executor import Failed, attempt

READY = b"ready"
UNUSABLE = b"unusable "


def serve(connection: Connection) -> None:
    """Work until the other end of the connection is closed."""
    if hasattr(signal, "pthread_sigmask"):  # SIGINT stays blocked: the driver ends us
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    try:
        connection.send_bytes(READY)
        call = _call(connection, connection.recv_bytes())
        while True:
            result = attempt(call, pickle.loads(connection.recv_bytes()))
            connection.send_bytes(_packed(result))
    except (EOFError, OSError):
        os._exit(0)  # nothing is left to do, and unloading JAX takes time


def _call(connection: Connection, message: bytes):
    try:
        return pickle.loads(message)
    except Exception as problem:
        text = f"{type(problem).__name__}: {problem}"
        connection.send_bytes(UNUSABLE + text.encode())
        os._exit(0)


def _packed(result) -> bytes:
    try:
        return pickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as problem:
        text = f"{type(problem).__name__}: {problem}"
        return pickle.dumps(Failed(f"its result could not be sent: {text}"))


def _leave_with_parent() -> None:
    """End at once when the driver does, however it ends: no worker is left behind."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
