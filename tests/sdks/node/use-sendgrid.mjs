// SendGrid; its address is given in code.
import sendgrid from '@sendgrid/mail';
import { run } from './sending.mjs';

sendgrid.setApiKey('SG.one');
sendgrid.client.setDefaultRequest('baseUrl', process.env.PROVIDER_URL);

await run(
  async ({ sandbox, ...mail }) => {
    if (sandbox) mail.mailSettings = { sandboxMode: { enable: true } };
    const [response] = await sendgrid.send(mail);
    return response.headers['x-message-id'];
  },
  (error) => ({ status: error.response && error.code, code: error.response?.body.errors[0].message ?? error.code }),
);
