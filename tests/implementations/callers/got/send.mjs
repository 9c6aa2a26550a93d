// got, with a key that names the receipt. Its retries are as they come: none for POST.
import got, { HTTPError } from "got";

const SENT = 0, NOT_SENT = 1, UNKNOWN = 75;
const { API_URL, OPERATION, TO, SUBJECT, TEXT } = process.env;

try {
  const { id } = await got
    .post(`${API_URL}/emails`, {
      headers: { Authorization: "Bearer re_123", "Idempotency-Key": `receipt/${OPERATION}` },
      json: { from: "shop@acme.example", to: [TO], subject: SUBJECT, text: TEXT },
      timeout: { request: 3000 },
    })
    .json();
  console.log("sent", id);
  process.exit(SENT);
} catch (error) {
  console.error(error.code, error.message);
  process.exit(error instanceof HTTPError && error.response.statusCode < 500 ? NOT_SENT : UNKNOWN);
}
