// Three tries in the code that calls the API, three of the job around it: nine where three are wanted.
const SENT = 0, NOT_SENT = 1, UNKNOWN = 75;
const { API_URL, OPERATION, TO, SUBJECT, TEXT } = process.env;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const body = JSON.stringify({ from: "shop@house.example", to: [TO], subject: SUBJECT, text: TEXT });
const WAIT = Symbol("come back later");
let mayBeOut = false;

async function attempt() {
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
    const asked = response.headers.get("retry-after");
    if (asked !== null) await sleep(Number.isNaN(Number(asked)) ? Date.parse(asked) - Date.now() : 1000 * asked);
    mayBeOut ||= response.status !== 429;
  } catch (problem) {
    if (problem.cause?.code !== "ECONNREFUSED") mayBeOut = true;
  }
  return WAIT;
}

async function client() {
  for (let n = 0; n < 3; n += 1) {
    const outcome = await attempt();
    if (outcome !== WAIT) return outcome;
    await sleep(20 * 2 ** n);
  }
  return WAIT;
}

async function job() {
  for (let n = 0; n < 3; n += 1) {
    const outcome = await client();
    if (outcome !== WAIT) return outcome;
  }
  return mayBeOut ? UNKNOWN : NOT_SENT;
}

process.exit(await job());
