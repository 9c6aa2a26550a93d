"""SendGrid; its host is given in code."""

import os

import sending
from python_http_client.exceptions import HTTPError
from sendgrid import SendGridAPIClient
from sendgrid.helpers.mail import Cc, Mail, MailSettings, SandBoxMode

client = SendGridAPIClient(api_key="SG.one", host=os.environ["PROVIDER_URL"])


def send(mail):
    message = Mail(
        from_email=mail["from"],
        to_emails=mail["to"],
        subject=mail["subject"],
        plain_text_content=mail["text"],
        html_content=mail.get("html"),
    )
    for address in mail.get("cc", []):
        message.add_cc(Cc(address))
    if mail.get("sandbox"):
        message.mail_settings = MailSettings(sandbox_mode=SandBoxMode(enable=True))
    return client.send(message).headers["X-Message-Id"]


def told(error):
    if not isinstance(error, HTTPError):
        return {}
    return {"status": error.status_code, "code": error.to_dict["errors"][0]["message"]}


sending.run(send, told)
