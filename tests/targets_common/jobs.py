"""The database that the processes of one consumer share."""

import os
import sqlite3
import threading
from pathlib import Path


def database():
    file = Path(os.environ["STATE"]).with_name("jobs.db")  # each process has a state of its own, in one folder
    db = sqlite3.connect(file, check_same_thread=False, isolation_level=None, timeout=10)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("CREATE TABLE IF NOT EXISTS jobs (id TEXT PRIMARY KEY, mail TEXT, state TEXT, free_at REAL)")
    return db, threading.Lock()
