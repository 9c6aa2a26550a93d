// Postmark; its address is given in code.
import { ServerClient } from 'postmark';
import { run } from './sending.mjs';

const { host } = new URL(process.env.PROVIDER_URL);
const client = new ServerClient('one', { useHttps: false, requestHost: host });
const written = (mail) => ({
  From: mail.from,
  To: mail.to.join(', '),
  Cc: mail.cc?.join(', '),
  Subject: mail.subject,
  TextBody: mail.text,
});

await run(
  async (mail) => {
    if (!mail.batch) return (await client.sendEmail(written(mail))).MessageID;
    return (await client.sendEmailBatch(mail.batch.map(written))).map((one) => one.MessageID ?? one.ErrorCode);
  },
  (error) => ({ status: error.statusCode, code: error.code }),
);
