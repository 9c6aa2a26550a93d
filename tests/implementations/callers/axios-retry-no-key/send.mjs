// axios with axios-retry, both as their readmes have them: three retries with a growing pause. There is no key.
import axios from "axios";
import axiosRetry from "axios-retry";

const SENT = 0, NOT_SENT = 1, UNKNOWN = 75;
const { API_URL, TO, SUBJECT, TEXT } = process.env;

const client = axios.create({ baseURL: API_URL, timeout: 3000 });
axiosRetry(client, { retries: 3, retryDelay: axiosRetry.exponentialDelay });
try {
  const { data } = await client.post(
    "/emails",
    { from: "shop@acme.example", to: [TO], subject: SUBJECT, text: TEXT },
    { headers: { Authorization: "Bearer re_123" } },
  );
  console.log("sent", data.id);
  process.exit(SENT);
} catch (error) {
  console.error(error.code, error.message);
  const status = error.response?.status;
  process.exit(status === undefined || status >= 500 ? UNKNOWN : NOT_SENT);
}
