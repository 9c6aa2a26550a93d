"""Resend, pointed elsewhere by RESEND_API_URL."""

import resend
import sending


def send(mail):
    options = {"idempotency_key": mail["key"]} if "key" in mail else {}
    said = {name: mail[name] for name in ("from", "to", "cc", "subject", "text") if name in mail}
    return resend.Emails.send(said, options)["id"]


def told(error):
    return {"status": getattr(error, "code", None), "code": getattr(error, "error_type", None)}


sending.run(send, told)
