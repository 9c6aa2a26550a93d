// Resend, pointed elsewhere by RESEND_BASE_URL. It returns its errors.
import { Resend } from 'resend';
import { run } from './sending.mjs';

const client = new Resend();

class Returned extends Error {
  constructor(error) {
    super(error.message);
    this.name = 'Returned';
    this.error = error;
  }
}

await run(
  async ({ key, ...mail }) => {
    const { data, error } = await client.emails.send(mail, key && { idempotencyKey: key });
    if (error) throw new Returned(error);
    return data.id;
  },
  ({ error }) => ({ status: error?.statusCode, code: error?.name }),
);
