"""Exploration: the windows of a target are found by playing, and gone through one by one.

A plan is a short sequence of attempts of one operation. It is played once without faults, and what crossed the
target's wires meanwhile are its **points**. Then, for every point and everything that can be done there (a
**deed**: a fault of the wire, killing or pausing the target, letting another attempt run while a message is held), it
is played again with the canonical ending: heal, restart if killed, retry the same key until a definite answer, settle.
One deed first, then two: the first counterexample is the smallest. What a plan shows is judged like any scenario; it
is one, in the scenario language, and so can be saved and played again.

    points.py    what crossed the wires      deeds.py     what can be done there
    plans.py     deeds into scenarios        stage.py     a running target to play on
    coverage.py  what came of each           explorer.py  which plan comes next, as a stream of events
    smaller.py   a counterexample, shrunk    pace.py      how much is left, and how long that takes
    result.py    what all came to            console.py, files.py, junit.py   who hear of it
"""
