"""A send API that keeps a contract, durably: the reference implementation.

What comes in is read by :mod:`requests`: the route (:mod:`routes`), who asks (:mod:`callers`), the key (:mod:`keys`)
and what makes two requests the same (:mod:`fingerprints`, :mod:`canonical`). The :mod:`engine` has it answered by
:mod:`repeats`, :mod:`drafts` or :mod:`lookups`, in the shapes of :mod:`answers` and :mod:`replays`. The :mod:`courier`
takes the mail to an :mod:`upstream`, and :mod:`endings` says what comes of it. The :mod:`store` remembers
(:mod:`records`, :mod:`database`) for as long as :mod:`retention` says, and what happens is told by :mod:`events`.
"""
