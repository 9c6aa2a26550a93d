// Amazon SES v2 with the AWS SDK for JavaScript, pointed elsewhere by AWS_ENDPOINT_URL_SESV2 and otherwise as it comes.
import { SESv2Client, SendEmailCommand } from '@aws-sdk/client-sesv2';
import { run } from './sending.mjs';

const client = new SESv2Client({});

await run(
  async (mail) => {
    const Content = mail.mime
      ? { Raw: { Data: Buffer.from(mail.mime) } }
      : { Simple: { Subject: { Data: mail.subject }, Body: { Text: { Data: mail.text } } } };
    const Destination = mail.to && { ToAddresses: mail.to, CcAddresses: mail.cc };
    const answer = await client.send(new SendEmailCommand({ FromEmailAddress: mail.from, Destination, Content }));
    return answer.MessageId;
  },
  (error) => ({ status: error.$metadata?.httpStatusCode, code: error.name }),
);
