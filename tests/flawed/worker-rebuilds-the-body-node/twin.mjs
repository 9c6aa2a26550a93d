// Builds the body for each attempt, with the time in it: the API calls the retry a conflict. The rest is
// the reference.
import * as api from "../../implementations/mail-worker-node/send_api.mjs";
import { Worker } from "../../implementations/mail-worker-node/worker.mjs";

class Mine extends Worker {
  attempt(operation) {
    const mail = JSON.parse(operation.body);
    const body = JSON.stringify({ ...mail, text: `${mail.text}\n\nSent at ${new Date().toISOString()}` });
    return api.attempt(body, operation.send_key, this.timeout);
  }
}

await new Mine().run();
