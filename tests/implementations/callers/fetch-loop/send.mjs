// fetch, and the loop that everybody writes by hand.
const SENT = 0, NOT_SENT = 1, UNKNOWN = 75;
const { API_URL, OPERATION, TO, SUBJECT, TEXT } = process.env;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function send(mail, key) {
  for (let attempt = 1; ; attempt += 1) {
    let wait = 200 * 2 ** attempt;
    try {
      const response = await fetch(`${API_URL}/emails`, {
        method: "POST",
        headers: { Authorization: "Bearer re_123", "Content-Type": "application/json", "Idempotency-Key": key },
        body: JSON.stringify(mail),
        signal: AbortSignal.timeout(3000),
      });
      if (response.ok) {
        const { id } = await response.json();
        console.log("sent", id);
        return SENT;
      }
      console.error(response.status, await response.text());
      if (response.status !== 429 && response.status < 500) return NOT_SENT;
      const retryAfter = Number(response.headers.get("retry-after"));
      if (retryAfter) wait = retryAfter * 1000;
    } catch (error) {
      console.error(error);
    }
    if (attempt === 4) return UNKNOWN;
    await sleep(wait);
  }
}

const mail = { from: "shop@acme.example", to: [TO], subject: SUBJECT, text: TEXT };
process.exit(await send(mail, `receipt/${OPERATION}`));
