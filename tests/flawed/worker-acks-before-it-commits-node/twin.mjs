// Acknowledges an event when it has it in memory, and its one sender commits it between two mails: killed before that,
// it has lost what nobody sends again. The rest is the reference.
import { Worker } from "../../implementations/mail-worker-node/worker.mjs";

class Mine extends Worker {
  senders = 1;
  taken = [];

  async take(...event) {
    this.taken.push(event);
    this.wake();
  }

  async answerOne() {
    while (this.taken.length > 0) await super.take(...this.taken.shift());
    return super.answerOne();
  }
}

await new Mine().run();
