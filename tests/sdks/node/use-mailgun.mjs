// Mailgun; its address is given in code. A form in parts is what it always sends.
import Mailgun from 'mailgun.js';
import { run } from './sending.mjs';

const client = new Mailgun(FormData).client({ username: 'api', key: 'one', url: process.env.PROVIDER_URL });

await run(
  async ({ sandbox, files, ...mail }) => {
    if (sandbox) mail['o:testmode'] = 'yes';
    if (files) mail.attachment = { data: Buffer.from([0xff, 0xfe, 0x00, 0x20]), filename: 'a.txt' };
    return (await client.messages.create('example.test', mail)).id;
  },
  (error) => ({ status: error.status, code: error.details ?? error.message }),
);
