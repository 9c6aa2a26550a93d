"""Connections to PostgreSQL that are used again, each statement a transaction of its own, or several one together."""

import contextlib
import os
import queue
import socket
import threading
import time

import psycopg
from psycopg.rows import dict_row


class Pool:
    def __init__(self, url, timeout=1.0):
        self._url, self._timeout, self._idle = url, timeout, queue.LifoQueue()

    def run(self, statement, values=None, tries=1):
        """Return the rows; a connection that broke is tried anew, for statements that may run twice."""
        for left in reversed(range(tries)):
            try:
                return self._run(statement, values)
            except psycopg.OperationalError:
                if not left:
                    raise
        return None

    def wait(self):
        """Wait until the server takes connections: it listens before it does."""
        while True:
            try:
                return self.run("SELECT 1")
            except psycopg.OperationalError:
                time.sleep(0.02)

    def _run(self, statement, values):
        connection = self._take()
        try:
            with self._limited(connection):
                cursor = connection.execute(statement, values)
                rows = cursor.fetchall() if cursor.description else []
        except BaseException:
            self._drop(connection)
            raise
        self._idle.put(connection)
        return rows

    @contextlib.contextmanager
    def transaction(self):
        """A connection in a transaction, for as long as the block."""
        connection = self._take()
        try:
            with self._limited(connection), connection.transaction():
                yield connection
        except BaseException:
            self._drop(connection)
            raise
        self._idle.put(connection)

    def _drop(self, connection):
        """What broke one connection may have broken those that are idle."""
        connection.close()
        with contextlib.suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()

    def _take(self):
        with contextlib.suppress(queue.Empty):
            return self._idle.get_nowait()
        # Nothing is prepared behind one's back: every statement is the same bytes each time.
        return psycopg.connect(
            self._url, autocommit=True, row_factory=dict_row, prepare_threshold=None, connect_timeout=2
        )

    @contextlib.contextmanager
    def _limited(self, connection):
        """libpq waits for an answer for ever: cut the connection when it takes too long."""
        limit = threading.Timer(self._timeout, cut, [connection.pgconn.socket])
        limit.start()
        try:
            yield
        finally:
            limit.cancel()
            limit.join()


def cut(descriptor):
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as one:
        one.shutdown(socket.SHUT_RDWR)
