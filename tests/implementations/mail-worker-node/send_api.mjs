// One attempt to send a mail through an API, and what its answer says about the mail. Nothing is retried here.
//
// Two APIs are known, by the environment variable API: Resend, with the key in a header, and Postfleet, with the key in
// the body, where a mail may have to wait for a person's approval.
import http from "node:http";

// What an attempt may have come to. After the last two the same request may be made again, under the same key.
export const SENT = "sent"; // and `detail` is its id
export const PENDING = "pending"; // it waits for a person's approval: `detail` is the id of the draft
export const REFUSED = "refused"; // for good: this attempt sent nothing
export const CONFLICT = "conflict"; // the key stands for another request
export const NOTHING = "nothing"; // surely nothing was done
export const UNKNOWN = "unknown"; // it may have been sent, or is being sent

const POSTFLEET = process.env.API === "postfleet";
const PATH = POSTFLEET ? "/api/v1/send" : "/emails";
const IN_PROGRESS = ["concurrent_idempotent_requests", "idempotency_in_progress"];

// The bytes that ask for a mail, the same for every attempt.
export function bodyOf(mail, key) {
  const { from, to, subject, text } = mail;
  return JSON.stringify(POSTFLEET ? { mailbox_id: from, client_id: key, to: to[0], subject, text } : mail);
}

// Make one request; `timeout` (seconds) is for all of it. `wait`: seconds that the API asks to wait.
export function attempt(body, key, timeout) {
  return new Promise((resolve) => {
    let connected = false;
    const request = http.request(`${process.env.API_URL.replace(/\/$/, "")}${PATH}`, {
      method: "POST",
      agent: false, // a connection for each attempt: one that is kept may be dead already
      headers: {
        Authorization: `Bearer ${process.env.API_KEY ?? "re_0000"}`,
        "Content-Type": "application/json",
        "Content-Length": Buffer.byteLength(body),
        "User-Agent": "mail-worker/1.0",
        ...(POSTFLEET ? {} : { "Idempotency-Key": key }),
      },
    });
    const limit = setTimeout(() => request.destroy(new Error("it took too long")), timeout * 1000);
    const end = (outcome) => {
      clearTimeout(limit);
      resolve({ wait: 0, ...outcome });
    };
    const broken = (problem) =>
      end({ what: connected ? UNKNOWN : NOTHING, detail: `no whole answer: ${problem.message}` });
    request.on("socket", (socket) => socket.once("connect", () => (connected = true)));
    request.on("error", broken);
    request.on("response", async (response) => {
      try {
        const chunks = [];
        for await (const chunk of response) chunks.push(chunk);
        end(read(response.statusCode, response.headers, Buffer.concat(chunks).toString()));
      } catch (problem) {
        broken(problem);
      }
    });
    request.end(body);
  });
}

export function read(status, headers, text) {
  const answer = parsed(text);
  const id = String(answer.id || answer.draft_id || "");
  const name = answer.name || answer.code;
  const words = `${status} ${name ?? ""}`.trim();
  const wait = retryAfter(headers["retry-after"]);
  if (status >= 200 && status < 300) {
    if (!id) return { what: UNKNOWN, detail: `${words}, without an id`, wait };
    return { what: status === 202 ? PENDING : SENT, detail: id };
  }
  if (IN_PROGRESS.includes(name)) return { what: UNKNOWN, detail: words, wait }; // an attempt of ours
  if (status === 409) return { what: CONFLICT, detail: words };
  if (status === 401 || status === 429) return { what: NOTHING, detail: words, wait };
  // No redirect is followed: the API's address is configured.
  if (status >= 300 && status < 500 && status !== 408) return { what: REFUSED, detail: words };
  return { what: UNKNOWN, detail: words, wait };
}

function parsed(text) {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}

// Seconds from now: the header has them, or a date.
export function retryAfter(value) {
  if (value === undefined) return 0;
  const seconds = Number.isFinite(Number(value)) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : 0;
}
