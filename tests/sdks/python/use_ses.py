"""Amazon SES v2 with boto3, pointed elsewhere by AWS_ENDPOINT_URL_SESV2 and otherwise as it comes."""

import boto3
import sending
from botocore.exceptions import ClientError

client = boto3.client("sesv2")


def content(mail):
    if "mime" in mail:
        return {"Raw": {"Data": mail["mime"].encode()}}
    return {"Simple": {"Subject": {"Data": mail["subject"]}, "Body": {"Text": {"Data": mail["text"]}}}}


def send(mail):
    said = {"FromEmailAddress": mail["from"], "Content": content(mail)}
    if "to" in mail:
        said["Destination"] = {"ToAddresses": mail["to"], "CcAddresses": mail.get("cc", [])}
    return client.send_email(**said)["MessageId"]


def told(error):
    if not isinstance(error, ClientError):
        return {}
    answer = error.response
    return {"status": answer["ResponseMetadata"]["HTTPStatusCode"], "code": answer["Error"]["Code"]}


sending.run(send, told)
