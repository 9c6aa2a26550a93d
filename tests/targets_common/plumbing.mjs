// HTTP plumbing for the stand-alone Node programs in tests/flawed and tests/sound, and nothing else.
// What a program does about keys, and what it remembers, stands in its own file. No dependencies.
import http from "node:http";

// Thrown anywhere in a handler: this is what the caller gets.
export class Answer extends Error {
  constructor([status, body, headers]) {
    super(String(status));
    Object.assign(this, { status, body, headers });
  }
}

export const error = (status, name, message) => [status, { statusCode: status, name, message }];

// The value of the Idempotency-Key header, undefined if there is none. More than one is an error.
export function keyOf(req) {
  const lines = req.headersDistinct["idempotency-key"] ?? [];
  if (lines.length > 1) {
    throw new Answer(error(400, "invalid_idempotency_key", "Idempotency-Key must be given once."));
  }
  return lines[0];
}

export const tenantOf = (req) => req.headers.authorization ?? "";

// The mail in a body, `to` always a list; a mail that is incomplete is answered 422.
export function readMail(body) {
  if (body === null || typeof body !== "object" || Array.isArray(body)) {
    throw new Answer(error(400, "validation_error", "The body must be a JSON object."));
  }
  for (const field of ["from", "to", "subject", "text"]) {
    if (!body[field]) {
      throw new Answer(error(422, "missing_required_field", `Missing \`${field}\` field.`));
    }
  }
  const to = Array.isArray(body.to) ? body.to : [body.to];
  for (const address of [body.from, ...to]) {
    if (typeof address !== "string" || !address.includes("@")) {
      throw new Answer(error(422, "validation_error", "Invalid address in `from` or `to`."));
    }
  }
  for (const field of ["subject", "text"]) {
    if (typeof body[field] !== "string") {
      throw new Answer(error(422, "validation_error", `\`${field}\` must be a string.`));
    }
  }
  return { from: body.from, to, subject: body.subject, text: body.text };
}

// JSON text in which the order of an object's members does not matter.
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const member = (name) => `${JSON.stringify(name)}:${canonical(value[name])}`;
  const members = Object.keys(value).sort().map(member);
  return `{${members.join()}}`;
}

// What can come of a hand-over, other than success. `outcome` is
//   "not-accepted": the provider certainly did not take the mail now, it may later
//   "refused": it certainly did not take it, and says it is the mail's fault
//   "unknown": the mail was handed over and nobody can say whether the provider took it
export class HandOverError extends Error {
  constructor(outcome, message) {
    super(message);
    this.outcome = outcome;
  }
}

// Give one mail to the provider, once, under a key if there is one: its id, or a HandOverError.
export function handOver(mail, timeout = 3000, key = undefined) {
  return new Promise((resolve, reject) => {
    const raw = JSON.stringify(mail);
    const url = `${process.env.MAIL_PROVIDER_URL.replace(/\/$/, "")}/emails`;
    const request = http.request(url, {
      method: "POST",
      agent: false, // a connection of its own: a reused one may be dead already
      headers: {
        Authorization: "Bearer re_0000",
        "Content-Type": "application/json",
        "Content-Length": Buffer.byteLength(raw),
        "User-Agent": "mailer/1.0",
        ...(key === undefined ? {} : { "Idempotency-Key": key }),
      },
    });
    let connected = false;
    const timer = setTimeout(() => request.destroy(new Error("timed out")), timeout);
    const fail = (problem) => {
      clearTimeout(timer);
      reject(new HandOverError(connected ? "unknown" : "not-accepted", problem.message));
    };
    request.on("socket", (socket) => socket.once("connect", () => (connected = true)));
    request.on("error", fail);
    request.on("response", async (response) => {
      try {
        const chunks = [];
        for await (const chunk of response) chunks.push(chunk);
        clearTimeout(timer);
        const status = response.statusCode;
        if (status >= 200 && status < 300) {
          const { id } = JSON.parse(Buffer.concat(chunks).toString());
          if (!id) throw new Error("an answer without an id");
          return resolve(id);
        }
        // 500, 502, 504 and the like may come from somewhere on the way, and after the mail got through.
        const outcome = [429, 503].includes(status)
          ? "not-accepted"
          : status >= 400 && status < 500 && status !== 408 ? "refused" : "unknown";
        reject(new HandOverError(outcome, `The provider answered ${status}.`));
      } catch (problem) {
        fail(problem);
      }
    });
    request.end(raw);
  });
}

// Listen on 127.0.0.1:$PORT. `routes`: path -> async (req, body, res, raw) => [status, body, headers?]; or one such
// function for every POST.
export function serve(routes) {
  const server = http.createServer(async (req, res) => {
    res.on("error", () => {});
    const answer = ([status, body, headers = {}]) => {
      const raw = JSON.stringify(body);
      res.writeHead(status, {
        ...headers,
        "Content-Type": "application/json",
        "Content-Length": Buffer.byteLength(raw),
        Connection: "close",
      });
      res.end(raw);
    };
    const chunks = [];
    try {
      for await (const chunk of req) chunks.push(chunk);
    } catch {
      return; // the caller left in the middle of its request: there is no request
    }
    if (req.method === "GET" && req.url === "/healthz") return answer([200, { ok: true }]);
    const named = typeof routes === "function" ? routes : Object.hasOwn(routes, req.url) && routes[req.url];
    const handler = req.method === "POST" ? named : null;
    if (!handler) return answer(error(404, "not_found", "No such path."));
    let body = null;
    const bytes = Buffer.concat(chunks);
    try {
      body = JSON.parse(bytes.toString());
    } catch {
      // not JSON: the handler sees null and says so
    }
    try {
      answer(await handler(req, body, res, bytes));
    } catch (problem) {
      if (problem instanceof Answer) return answer([problem.status, problem.body, problem.headers]);
      console.error(problem);
      answer(error(500, "internal_server_error", "Something went wrong."));
    }
  });
  server.listen(Number(process.env.PORT), "127.0.0.1", 511);
}
