// A worker that answers mail: a signed event comes in, becomes a job, then an operation, then one mail.
//
// Each boundary has an identity of its own, and a step that is done twice is found to be done by it:
//
//   the event         its id, in the transaction that enqueues the job, before it is acknowledged
//   the message       its id is in the key of the job: however many events tell of it, it is answered once
//   the operation     the key of the job, or whatever a caller of POST /operations names; the first words stand
//   the send          a key derived from the operation, stored with the bytes that it stands for
//
// Between two transactions this program may die at any instant. What it had leased comes back, and an attempt whose
// end nobody has seen is made again under the same key, with the same bytes: the API says what became of it. That ends
// before the API forgets its keys, and after so many attempts; then the outcome is unknown, for good, unless every
// attempt surely did nothing.
import { createHash, createHmac, randomUUID, timingSafeEqual } from "node:crypto";
import http from "node:http";
import { pathToFileURL } from "node:url";

import * as api from "./send_api.mjs";
import { openStore, Unavailable } from "./store.mjs";

const FROM = "support@house.example";
const HTTP_STATUS = { sent: 200, not_sent: 422, pending: 202, unknown: 202, queued: 202 };
const API_KEEPS_KEYS = 23 * 3600; // seconds; it says 24 hours
const LONGEST_PAUSE = 60;
const LOOK_AGAIN = 0.5; // for what another instance did

const { env } = process;
const number = (name, otherwise) => Number(env[name] ?? otherwise);
const now = () => Date.now() / 1000;
const sha256 = (text) => createHash("sha256").update(text).digest("hex");
const error = (status, name, message) => [status, { statusCode: status, name, message }];
const givenUp = (maybeSent) => (maybeSent ? "unknown" : "not_sent");
const hashOf = ({ from, to, subject, text }) => sha256(JSON.stringify([from, to, subject, text]));
const shown = ({ operation, state, detail, attempts }) => ({ operation, state, detail, attempts });

export class Worker {
  timeout = number("ATTEMPT_TIMEOUT", 10);
  lease = number("LEASE", 30); // longer than an attempt
  pause = number("RETRY_PAUSE", 1);
  attempts = number("MAX_ATTEMPTS", 8); // of one operation
  answersWithin = number("ANSWERS_WITHIN", 30);
  senders = 4;
  #changes = 0;
  #waiting = new Set();

  // -- what identifies a thing, and what is sent

  jobOf(eventId, message) {
    return `message:${message.message_id}:auto-reply:v1`;
  }

  sendKeyOf(operation) {
    return `mail-${sha256(operation).slice(0, 40)}`;
  }

  // The answer to a message. A model may write it: it is asked once, and its words are stored.
  write(message) {
    const text = `We have your message and will answer soon. You wrote: ${message.text}`;
    return { from: FROM, to: [message.from], subject: `Re: ${message.subject}`, text };
  }

  // -- the webhook

  async postWebhook(request, raw, body) {
    if (!signed(request.headers, raw)) return error(401, "bad_signature", "The signature does not fit.");
    if (body.type === "message.received") await this.take(request.headers["webhook-id"], body.data);
    return [200, { ok: true }];
  }

  async take(eventId, message) {
    await this.store.take(eventId, this.jobOf(eventId, message), message);
    this.wake();
  }

  // Turn one job into an operation; false when there is none.
  async answerOne() {
    const job = await this.store.leaseJob(now(), now() + this.lease);
    if (!job) return false;
    await this.keep(job.operation, await this.write(job.message), { endsJob: true });
    this.wake();
    return true;
  }

  // -- operations

  async postOperation(request, body) {
    const { operation, to, subject, text } = body ?? {};
    if (![operation, to, subject, text].every((one) => typeof one === "string" && one)) {
      return error(400, "validation_error", "Required: operation, to, subject, text.");
    }
    const mail = { from: FROM, to: [to], subject, text };
    const known = await this.keep(operation, mail);
    this.wake();
    if (known.request_hash !== hashOf(mail)) {
      return error(409, "operation_conflict", "This operation has other content.");
    }
    return request.headers.prefer === "respond-async" ? [202, shown(known)] : this.endOf(operation);
  }

  async getOperation(operation) {
    const known = await this.store.find(operation);
    return known ? [200, shown(known)] : error(404, "not_found", "No such operation.");
  }

  keep(operation, mail, options) {
    const send_key = this.sendKeyOf(operation);
    const row = { operation, request_hash: hashOf(mail), body: api.bodyOf(mail, send_key), send_key };
    return this.store.keep(row, options);
  }

  // Wait for the end of an operation, for some time.
  async endOf(operation) {
    const deadline = now() + this.answersWithin;
    for (;;) {
      const seen = this.#changes;
      const known = await this.store.find(operation);
      if (known.state !== "queued" || now() > deadline) return [HTTP_STATUS[known.state], shown(known)];
      await this.#sleep(LOOK_AGAIN, seen);
    }
  }

  // -- sending

  // Make one attempt of one operation that is due; false when there is none.
  async sendOne() {
    const owner = randomUUID();
    let enough;
    const operation = await this.store.begin(now(), (due) => {
      enough = this.enough(due, now());
      if (enough) return { state: givenUp(due.maybe_sent) };
      const first_at = due.first_at ?? now();
      return { owner, leased_until: now() + this.lease, attempts: due.attempts + 1, maybe_sent: true, first_at };
    });
    if (!operation) return false;
    if (!enough) await this.end(operation, owner, await this.attempt(operation));
    this.wake();
    return true;
  }

  // Whether no attempt is to be made at a time any more.
  enough(operation, at) {
    return operation.attempts >= this.attempts || at > (operation.first_at ?? at) + API_KEEPS_KEYS;
  }

  attempt(operation) {
    return api.attempt(operation.body, operation.send_key, this.timeout);
  }

  // Note what an attempt came to, if it is still ours: when the lease has lapsed, another one asks the API.
  async end(operation, owner, outcome) {
    let [state, maybe_sent] = this.after(operation.maybe_sent, outcome);
    const due_at = now() + Math.max(outcome.wait, this.pauseAfter(operation.attempts));
    if (state === "queued" && this.enough({ ...operation, attempts: operation.attempts + 1 }, due_at)) {
      state = givenUp(maybe_sent);
    }
    const changes = { state, detail: outcome.detail, maybe_sent, due_at, owner: null, leased_until: 0 };
    await this.store.end(operation.operation, owner, changes);
  }

  // The operation's state after an attempt, and whether it may have been sent by now.
  after(maybeSent, { what }) {
    if (what === api.SENT || what === api.PENDING) return [what, true];
    if (what === api.REFUSED) return [givenUp(maybeSent), maybeSent];
    if (what === api.CONFLICT) return ["unknown", maybeSent]; // the key stands for another mail, or ours in other words
    return ["queued", what === api.NOTHING ? maybeSent : true];
  }

  pauseAfter(attempts) {
    return Math.min(LONGEST_PAUSE, this.pause * 2 ** attempts);
  }

  // -- the program

  wake() {
    this.#changes += 1;
    for (const go of this.#waiting) go();
  }

  // Wait, unless something has changed since it was looked at.
  #sleep(pause, seen) {
    if (this.#changes !== seen) return undefined;
    return new Promise((resolve) => {
      const go = () => {
        clearTimeout(timer);
        this.#waiting.delete(go);
        resolve();
      };
      const timer = setTimeout(go, pause * 1000);
      this.#waiting.add(go);
    });
  }

  async #work() {
    for (;;) {
      const seen = this.#changes;
      let pause = LOOK_AGAIN;
      try {
        if ((await this.answerOne()) || (await this.sendOne())) continue;
        pause = Math.min(pause, Math.max(0.01, (await this.store.next()) - now()));
      } catch (problem) {
        console.log("to be done again:", problem); // what was leased comes back
      }
      await this.#sleep(pause, seen);
    }
  }

  async handle(request, raw) {
    const { method, url } = request;
    try {
      if (method === "GET" && url === "/healthz") return [200, { ok: true }];
      if (method === "POST" && url === "/webhooks") return await this.postWebhook(request, raw, parsed(raw));
      if (method === "POST" && url === "/operations") return await this.postOperation(request, parsed(raw));
      if (method === "GET" && url.startsWith("/operations/")) {
        return await this.getOperation(decodeURIComponent(url.slice("/operations/".length)));
      }
    } catch (problem) {
      if (problem instanceof Unavailable) return error(503, "store_unavailable", "Nothing is known. Try again.");
      console.error(problem);
      return error(500, "internal_server_error", "Something went wrong.");
    }
    return error(404, "not_found", "No such path.");
  }

  async run() {
    this.store = await openStore(env.DATABASE);
    for (let i = 0; i < this.senders; i += 1) this.#work();
    const server = http.createServer(async (request, response) => {
      const chunks = [];
      try {
        for await (const chunk of request) chunks.push(chunk);
      } catch {
        return; // the caller left in the middle of its request: there is no request
      }
      const [status, body] = await this.handle(request, Buffer.concat(chunks));
      response.writeHead(status, { "Content-Type": "application/json", Connection: "close" });
      response.end(JSON.stringify(body));
    });
    server.listen(number("PORT"), "127.0.0.1", 511);
  }
}

// Standard Webhooks: signed with the secret (whsec_...), and at most five minutes old.
export function signed(headers, raw) {
  const { "webhook-id": id = "", "webhook-timestamp": at = "", "webhook-signature": given = "" } = headers;
  if (!/^\d+$/.test(at) || Math.abs(now() - Number(at)) > 300) return false;
  const secret = Buffer.from(env.WEBHOOK_SECRET.replace(/^whsec_/, ""), "base64");
  const digest = createHmac("sha256", secret).update(`${id}.${at}.`).update(raw).digest("base64");
  const expected = Buffer.from(`v1,${digest}`);
  return given.split(" ").some((one) => one.length === expected.length && timingSafeEqual(Buffer.from(one), expected));
}

function parsed(raw) {
  try {
    return JSON.parse(raw.toString());
  } catch {
    return null;
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await new Worker().run();
