"""A batch with one invalid mail is refused as a whole, and its good mails are sent all the same."""

import sys

sys.path.insert(0, "../../targets_common")
from plumbing import Answer
from vendors import Rasket


class Flawed(Rasket):
    def check_validation(self, call):
        try:
            super().check_validation(call)
        except Answer:
            call.mails = [mail for mail in map(self.read, call.body if call.batch else []) if self.is_complete(mail)]
            self.deliver_all(self.write_down(call))
            raise


Flawed().serve()
