"""A send API that keeps a contract, durably: the reference implementation.

:mod:`requests` reads what a request asks, :mod:`engine` decides, :mod:`answers` writes what is told,
:mod:`store` remembers, and :mod:`courier` takes the mail to an :mod:`upstream`.
"""
