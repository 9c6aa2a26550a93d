"""Takes one job after the other, for a lease of half a second, and answers it under the key of its message: whoever
takes over a lease that has lapsed sends the same mail under the same key."""

import json
import sys
import time

sys.path.insert(0, "../../targets_common")
from jobs import database
from plumbing import NotAccepted, OutcomeUnknown, Refused, hand_over

LEASE = 0.5
db, lock = database()

while True:
    now = time.time()
    job = db.execute(
        "SELECT id, mail FROM jobs WHERE state = 'todo' AND free_at <= ? ORDER BY rowid", (now,)
    ).fetchone()
    if job is None:
        time.sleep(0.02)
        continue
    taken = "UPDATE jobs SET free_at = ? WHERE id = ? AND state = 'todo' AND free_at <= ?"
    if db.execute(taken, (now + LEASE, job[0], now)).rowcount == 0:
        continue  # another worker was faster
    try:
        hand_over(json.loads(job[1]), key=f"reply-to-{job[0]}", timeout=0.4)
    except (NotAccepted, OutcomeUnknown):
        continue  # when the lease is over, under the same key
    except Refused as refused:
        if refused.name == "concurrent_idempotent_requests":
            continue
    db.execute("UPDATE jobs SET state = 'done' WHERE id = ?", (job[0],))
