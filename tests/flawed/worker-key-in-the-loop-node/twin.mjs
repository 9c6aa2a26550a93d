// Makes the key where it makes the attempt, so that a retry after a lost answer is a new mail. The rest is
// the reference.
import { randomUUID } from "node:crypto";

import * as api from "../../implementations/mail-worker-node/send_api.mjs";
import { Worker } from "../../implementations/mail-worker-node/worker.mjs";

class Mine extends Worker {
  attempt(operation) {
    return api.attempt(operation.body, `mail-${randomUUID()}`, this.timeout);
  }
}

await new Mine().run();
