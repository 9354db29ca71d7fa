"""Profiles: files of the work of a process, and when it was done, for `hammock report`, ui.perfetto.dev and chrome://tracing.

>>> import hammock as hm, os, tempfile
>>> path = os.path.join(tempfile.mkdtemp(), "run.json")
>>> hm.profile.start(path)
>>> with hm.profile.span("epoch", number=1):
...     total = hm.ones(3).sum().item()
>>> hm.profile.stop()
>>> "epoch" in open(path).read()
True
"""

from . import _hammock
from ._autograd import _Mode

start, stop, is_on, mark = (getattr(_hammock.profile, name) for name in ("start", "stop", "is_on", "mark"))

__all__ = ["is_on", "mark", "span", "start", "stop"]


class span(_Mode):
    """A span of time on the calling thread, of a `with` block or of the calls of a function, with facts to know about it. Costs
    little where no profile is written."""

    def __init__(self, name, category="program", **facts):
        self._name, self._category, self._facts = name, category, facts
        self._spans = []

    def __enter__(self):
        span = _hammock.profile.Span(self._name, self._category)
        span.enter()
        for key, value in self._facts.items():
            span.set(key, value)
        self._spans.append(span)

    def __exit__(self, *exception):
        self._spans.pop().exit()
