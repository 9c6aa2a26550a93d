"""``sendtwice explain``: scenarios, rules and contracts in words, and what differs between two contracts.

:mod:`lookup` finds what a name stands for; :mod:`contract` writes a contract as the tables that a vendor would print,
from the words in :mod:`claim_words` and the answers in :mod:`situations`; :mod:`diff` tells what a caller meets who
moves from one contract to another, by the rules in :mod:`diff_table`.
"""
