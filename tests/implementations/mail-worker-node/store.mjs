// What the worker must not forget, and its transactions: in PostgreSQL, or in a journal, which is embedded.
//
//   events       what was notified: the id of the event
//   jobs         what it asks for: one answer to a message, keyed by the message
//   operations   what is sent: the bytes of the request, its key, and what became of it
//
// Each method is one transaction. Times are seconds since 1970 by the worker's clock.
import fs from "node:fs";

export const openStore = (url) => (url.startsWith("postgresql:") ? Postgres.open(url) : new Journal(url));

const NEW_JOB = { done: false, leased_until: 0 };
const NEW_OPERATION = {
  state: "queued", // or sent, not_sent, pending, unknown
  detail: null, // the API's id of the mail or the draft, or why there is none
  attempts: 0,
  maybe_sent: false, // whether an attempt may have got through
  first_at: null, // of the first attempt: from then on the API knows the key
  due_at: 0,
  owner: null,
  leased_until: 0,
};

// A file of lines, one for each transaction, which is kept when its line is whole and on the disk. One process has it
// to itself, with all of it in memory: what a process that died had leased is free when the next one opens it.
class Journal {
  events = new Set();
  jobs = new Map();
  operations = new Map();

  constructor(path) {
    const lines = fs.existsSync(path) ? fs.readFileSync(path, "utf8").split("\n") : [""];
    const torn = lines.pop();
    for (const line of lines) this.#apply(JSON.parse(line));
    for (const row of [...this.jobs.values(), ...this.operations.values()]) row.leased_until = 0;
    this.file = fs.openSync(path, "a");
    if (torn) fs.ftruncateSync(this.file, Buffer.byteLength(lines.map((line) => `${line}\n`).join("")));
  }

  #apply({ event, job, operation }) {
    if (event) this.events.add(event);
    if (job) this.jobs.set(job.operation, { ...this.jobs.get(job.operation), ...job });
    if (operation) {
      this.operations.set(operation.operation, { ...this.operations.get(operation.operation), ...operation });
    }
  }

  #commit(changes) {
    fs.writeSync(this.file, `${JSON.stringify(changes)}\n`);
    fs.fsyncSync(this.file);
    this.#apply(changes);
  }

  async take(event, operation, message) {
    if (this.events.has(event)) return;
    this.#commit({ event, job: this.jobs.has(operation) ? undefined : { operation, message, ...NEW_JOB } });
  }

  async leaseJob(now, until) {
    const job = [...this.jobs.values()].find((one) => !one.done && one.leased_until <= now);
    if (job) this.#commit({ job: { operation: job.operation, leased_until: until } });
    return job;
  }

  // Store what is to be sent, unless it is known what is: then that stands. With it ends the job that asked for it.
  async keep(row, { endsJob = false } = {}) {
    const operation = this.operations.has(row.operation) ? undefined : { ...NEW_OPERATION, ...row };
    const job = endsJob ? { operation: row.operation, done: true } : undefined;
    if (operation || job) this.#commit({ operation, job });
    return this.operations.get(row.operation);
  }

  async find(operation) {
    return this.operations.get(operation);
  }

  // The operation that is due, with `begun(it)` written over it: leased, or given up.
  async begin(now, begun) {
    const due = [...this.operations.values()].find(
      (one) => one.state === "queued" && one.due_at <= now && one.leased_until <= now,
    );
    if (due) this.#commit({ operation: { operation: due.operation, ...begun(due) } });
    return due;
  }

  async end(operation, owner, changes) {
    if (this.operations.get(operation).owner === owner) this.#commit({ operation: { operation, ...changes } });
  }

  // When something is due next; nothing if nothing waits.
  async next() {
    const waiting = [...this.operations.values()]
      .filter((one) => one.state === "queued")
      .map((one) => Math.max(one.due_at, one.leased_until));
    const jobs = [...this.jobs.values()].filter((one) => !one.done).map((one) => one.leased_until);
    return [...waiting, ...jobs].reduce((first, at) => Math.min(first, at), Infinity);
  }
}

const TABLES = `
SELECT pg_advisory_xact_lock(1);  -- two that start at once would both make the tables
CREATE TABLE IF NOT EXISTS events (event_id text PRIMARY KEY);
CREATE TABLE IF NOT EXISTS jobs (
  operation text PRIMARY KEY, message jsonb NOT NULL, done boolean NOT NULL, leased_until float8 NOT NULL
);
CREATE TABLE IF NOT EXISTS operations (
  operation text PRIMARY KEY, request_hash text NOT NULL, body text NOT NULL, send_key text NOT NULL UNIQUE,
  state text NOT NULL CHECK (state IN ('queued', 'sent', 'not_sent', 'pending', 'unknown')), detail text,
  attempts int NOT NULL, maybe_sent boolean NOT NULL, first_at float8, due_at float8 NOT NULL, owner text,
  leased_until float8 NOT NULL
);
`;

class Postgres {
  static async open(url) {
    const { default: pg } = await import("pg");
    const store = new Postgres();
    store.pool = new pg.Pool({ connectionString: url, query_timeout: 1000, connectionTimeoutMillis: 2000, max: 20 });
    store.pool.on("error", () => {}); // of an idle connection: the next transaction has another
    for (;;) {
      try {
        await store.#transaction((run) => run(TABLES));
        return store;
      } catch (problem) {
        if (!(problem instanceof Unavailable)) throw problem;
        await new Promise((resolve) => setTimeout(resolve, 20)); // it listens before it takes connections
      }
    }
  }

  async #transaction(body) {
    let client;
    try {
      client = await this.pool.connect();
      await client.query("BEGIN");
      const result = await body(async (statement, values) => (await client.query(statement, values)).rows);
      await client.query("COMMIT");
      client.release();
      return result;
    } catch (problem) {
      client?.release(true); // what became of it is not known: the connection is not used again
      throw new Unavailable(problem.message);
    }
  }

  async take(event, operation, message) {
    await this.#transaction(async (run) => {
      const claim = "INSERT INTO events VALUES ($1) ON CONFLICT DO NOTHING RETURNING event_id";
      if ((await run(claim, [event])).length === 0) return;
      const { done, leased_until } = NEW_JOB;
      const enqueue = "INSERT INTO jobs VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
      await run(enqueue, [operation, JSON.stringify(message), done, leased_until]);
    });
  }

  leaseJob(now, until) {
    return this.#transaction(async (run) => {
      const due = "SELECT * FROM jobs WHERE NOT done AND leased_until <= $1 LIMIT 1 FOR UPDATE SKIP LOCKED";
      const [job] = await run(due, [now]);
      if (job) await run("UPDATE jobs SET leased_until = $2 WHERE operation = $1", [job.operation, until]);
      return job;
    });
  }

  keep(row, { endsJob = false } = {}) {
    return this.#transaction(async (run) => {
      const [names, values] = columns({ ...NEW_OPERATION, ...row });
      const places = values.map((_, i) => `$${i + 1}`);
      await run(
        `INSERT INTO operations (${names}) VALUES (${places}) ON CONFLICT (operation) DO NOTHING`,
        values,
      );
      if (endsJob) await run("UPDATE jobs SET done = true WHERE operation = $1", [row.operation]);
      return (await run("SELECT * FROM operations WHERE operation = $1", [row.operation]))[0];
    });
  }

  find(operation) {
    const statement = "SELECT * FROM operations WHERE operation = $1";
    return this.#transaction(async (run) => (await run(statement, [operation]))[0]);
  }

  begin(now, begun) {
    return this.#transaction(async (run) => {
      const [due] = await run(
        `SELECT * FROM operations WHERE state = 'queued' AND due_at <= $1 AND leased_until <= $1
         ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED`,
        [now],
      );
      if (due) await run(...update(begun(due), "operation = $1", [due.operation]));
      return due;
    });
  }

  end(operation, owner, changes) {
    const statement = update(changes, "operation = $1 AND owner = $2", [operation, owner]);
    return this.#transaction((run) => run(...statement));
  }

  next() {
    return this.#transaction(async (run) => {
      const [{ at }] = await run(`
        SELECT min(at) AS at FROM (
          SELECT greatest(due_at, leased_until) AS at FROM operations WHERE state = 'queued'
          UNION ALL SELECT leased_until FROM jobs WHERE NOT done
        ) AS waiting`);
      return at ?? Infinity;
    });
  }
}

export class Unavailable extends Error {}

const columns = (row) => [Object.keys(row), Object.values(row)];

function update(changes, where, values) {
  const [names, given] = columns(changes);
  const set = names.map((name, i) => `${name} = $${values.length + i + 1}`);
  return [`UPDATE operations SET ${set} WHERE ${where}`, [...values, ...given]];
}
