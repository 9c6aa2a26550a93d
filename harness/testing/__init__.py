"""sendtwice inside one's own tests: a send API with faults, and the scenarios of the catalogue, one test for each.

The engine runs on an event loop in a thread of its own, so that a test may be sync, asyncio or trio. Everything a test
holds is a handle that hands each question over to that thread; all state is the test's, a port included.
"""
