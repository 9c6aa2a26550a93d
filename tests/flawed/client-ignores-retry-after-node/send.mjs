// Retries by its own schedule, whatever the API asks for.
const SENT = 0, NOT_SENT = 1, UNKNOWN = 75;
const { API_URL, OPERATION, TO, SUBJECT, TEXT } = process.env;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const body = JSON.stringify({ from: "shop@house.example", to: [TO], subject: SUBJECT, text: TEXT });

async function send() {
  let mayBeOut = false;
  for (let attempt = 0; attempt < 5; attempt += 1) {
    if (attempt) await sleep(100 * 2 ** attempt);
    try {
      const response = await fetch(`${API_URL}/emails`, {
        method: "POST",
        redirect: "manual",
        headers: {
          Authorization: "Bearer key",
          "Content-Type": "application/json",
          "User-Agent": "acme-shop/1.0",
          "Idempotency-Key": `shop-${OPERATION}-mail`,
        },
        body,
        signal: AbortSignal.timeout(1000),
      });
      const answer = await response.json();
      if (response.status === 200 && answer?.id) return SENT;
      if (response.status < 500 && response.status !== 429 && answer?.name !== "concurrent_idempotent_requests") {
        return mayBeOut || response.status < 400 ? UNKNOWN : NOT_SENT;
      }
      mayBeOut ||= response.status !== 429;
    } catch (problem) {
      if (problem.cause?.code !== "ECONNREFUSED") mayBeOut = true;
    }
  }
  return mayBeOut ? UNKNOWN : NOT_SENT;
}

process.exit(await send());
