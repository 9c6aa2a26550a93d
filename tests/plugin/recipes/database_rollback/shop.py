"""Orders and their receipts in a database: the receipt's key is stored before it is sent for the first time."""

import os
import uuid

import httpx

SCHEMA = "CREATE TABLE IF NOT EXISTS receipts (order_id TEXT PRIMARY KEY, key TEXT NOT NULL, state TEXT NOT NULL)"


def send_receipt(db, order_id, to, subject, text):
    """Send the receipt of an order once, however often it is asked for; return what became of it."""
    db.execute("INSERT OR IGNORE INTO receipts VALUES (?, ?, 'new')", (order_id, str(uuid.uuid4())))
    key, state = db.execute("SELECT key, state FROM receipts WHERE order_id = ?", (order_id,)).fetchone()
    if state in ("sent", "not_sent"):
        return state
    mail = {"from": "shop@x.test", "to": [to], "subject": subject, "text": text}
    headers = {"Authorization": "Bearer re_123", "Idempotency-Key": key}
    state = "unknown"
    for _ in range(3):
        try:
            answer = httpx.post(f"{os.environ['RESEND_API_URL']}/emails", json=mail, headers=headers, timeout=2)
        except httpx.TransportError:
            continue
        if answer.status_code < 500 and "concurrent" not in answer.text:
            state = "sent" if answer.status_code == 200 else "not_sent"
            break
    db.execute("UPDATE receipts SET state = ? WHERE order_id = ?", (state, order_id))
    return state
