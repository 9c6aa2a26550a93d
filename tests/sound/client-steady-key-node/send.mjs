// Makes the key from the operation, so that every attempt and every process has the same one, builds the
// body once, and waits as it is told. It says unknown whenever a request may have got through.

const SENT = 0, NOT_SENT = 1, UNKNOWN = 75;
const WAIT = new Set(["rate_limit_exceeded", "concurrent_idempotent_requests"]);
const ATTEMPTS = 6;
const { API_URL, API_KEY = "key", OPERATION, TO, SUBJECT, TEXT } = process.env;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Milliseconds to wait: what the server asks for, within reason, or a growing pause.
function pause(retryAfter, attempt) {
  const asked = retryAfter === null ? NaN
    : Number.isNaN(Number(retryAfter)) ? Date.parse(retryAfter) - Date.now() : Number(retryAfter) * 1000;
  return Number.isNaN(asked) ? Math.min(5000, 100 * 2 ** attempt) : Math.min(30_000, Math.max(0, asked));
}

async function send() {
  const body = JSON.stringify({ from: "shop@house.example", to: [TO], subject: SUBJECT, text: TEXT });
  const key = `shop-${OPERATION}-mail`; // the key names the work: all attempts and processes share it
  let mayBeSent = false;
  let wait = 0;
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    await sleep(wait);
    wait = pause(null, attempt);
    let response, answer;
    try {
      response = await fetch(`${API_URL}/emails`, {
        method: "POST",
        redirect: "manual",
        headers: {
          Authorization: `Bearer ${API_KEY}`,
          "Content-Type": "application/json",
          "User-Agent": "acme-shop/1.0",
          "Idempotency-Key": key,
        },
        body,
        signal: AbortSignal.timeout(5000),
      });
      answer = await response.json();
    } catch (problem) {
      if (problem.cause?.code !== "ECONNREFUSED") mayBeSent = true; // no answer, or a cut one
      continue;
    }
    if (response.status === 200 && answer?.id) return SENT;
    if (response.status === 202) return UNKNOWN; // somebody else decides now; asking again changes nothing
    const name = answer?.name;
    if (response.status >= 500 || response.status < 400 || name === "concurrent_idempotent_requests") {
      mayBeSent = true;
    } else if (!WAIT.has(name)) {
      return mayBeSent ? UNKNOWN : NOT_SENT;
    }
    wait = pause(response.headers.get("retry-after"), attempt);
  }
  return mayBeSent ? UNKNOWN : NOT_SENT;
}

process.exit(await send());
