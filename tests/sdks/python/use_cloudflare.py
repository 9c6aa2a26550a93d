"""Cloudflare Email Sending, pointed elsewhere by CLOUDFLARE_BASE_URL."""

import cloudflare
import sending

client = cloudflare.Cloudflare(api_token="one")


def send(mail):
    if "mime" in mail:
        return client.email_sending.send_raw(
            account_id="acc", from_=mail["from"], recipients=mail["to"], mime_message=mail["mime"]
        ).message_id
    return client.email_sending.send(
        account_id="acc",
        from_={"address": mail["from"], "name": "Shop"},
        to=mail["to"],
        cc=mail.get("cc", []),
        subject=mail["subject"],
        text=mail["text"],
    ).message_id


def told(error):
    errors = getattr(error, "errors", None)
    return {"status": getattr(error, "status_code", None), "code": errors[0].code if errors else None}


sending.run(send, told)
