"""Mailgun; its address is given in code."""

import os

import sending
from mailgun.client import Client


class Refused(Exception):
    """The SDK returns what it is answered, and leaves it to its caller to look."""

    def __init__(self, response):
        super().__init__(response.text)
        self.response = response


def send(mail):
    said = {name: mail[name] for name in ("from", "to", "cc", "subject", "text") if name in mail}
    if mail.get("sandbox"):
        said["o:testmode"] = "yes"
    attached = [("attachment", ("a.bin", b"\xff\xfe\x00 ", "application/octet-stream"))]
    response = client.messages.create(data=said, files=attached if mail.get("files") else None, domain="example.test")
    if response.status_code != 200:
        raise Refused(response)
    return response.json()["id"]


def told(error):
    response = getattr(error, "response", None)
    return {} if response is None else {"status": response.status_code, "code": response.json()["message"]}


with Client(auth=("api", "one"), api_url=os.environ["PROVIDER_URL"]) as client:
    sending.run(send, told)
