// Resend's SDK as its quick start has it, without an idempotency key. It returns its errors.
import { Resend } from "resend";

const SENT = 0, NOT_SENT = 1, UNKNOWN = 75;
const { TO, SUBJECT, TEXT } = process.env;

const resend = new Resend();
const { data, error } = await resend.emails.send(
  { from: "Acme <shop@acme.example>", to: [TO], subject: SUBJECT, text: TEXT },
  { signal: AbortSignal.timeout(3000) },
);
if (error) {
  console.error(error);
  // The network failed where there is no status, as its readme says.
  process.exit(error.statusCode >= 400 && error.statusCode < 500 ? NOT_SENT : UNKNOWN);
}
console.log("sent", data.id);
process.exit(SENT);
