"""Steps and guards."""

from . import _hammock
from ._autograd import _Mode


class step(_Mode):
    """What is recorded in a `with hm.step():` block is one step: it starts at the end of the block, and its in-place
    writes happen together or not at all. An exception that leaves the block undoes them."""

    def __init__(self):
        self._scopes = []

    def __enter__(self):
        scope = _hammock.StepScope()
        scope.enter()
        self._scopes.append(scope)

    def __exit__(self, kind, *exception):
        scope = self._scopes.pop()
        try:
            if kind is None:
                scope.mark()
            else:
                scope.abandon()
        finally:
            scope.exit()


class _Guard(_Mode):
    def __init__(self, reason=""):
        self._reason = reason
        self._scopes = []

    def __enter__(self):
        scope = self._kind()
        scope.enter(self._reason)
        self._scopes.append(scope)

    def __exit__(self, *exception):
        self._scopes.pop().exit()


class expect_no_recompile(_Guard):
    """Compiling in this scope is an error that carries the explanation of the miss."""

    _kind = _hammock.ExpectNoRecompile


class no_execution(_Guard):
    """Running anything in this scope is an error that names the trigger."""

    _kind = _hammock.NoExecution


class eager(_Mode):
    """Ops run one by one in this scope, for debugging; results are the same."""

    def __init__(self):
        self._scopes = []

    def __enter__(self):
        scope = _hammock.EagerMode()
        scope.enter()
        self._scopes.append(scope)

    def __exit__(self, *exception):
        self._scopes.pop().exit()


class Explanation(str):
    """A text that notebooks show as it is."""

    def __repr__(self):
        return str(self)

    def _repr_html_(self):
        import html

        return f"<pre>{html.escape(self)}</pre>"


def explain():
    """Why graphs were compiled: for each, the nearest known graph and the first thing that differs."""
    return Explanation("\n".join(_hammock.compile_misses()) or "nothing was compiled")


class Activity:
    """Counts of the work in a `with` block, or since it was made, on all threads: `totals().steps`, `.graphs_compiled`,
    `.running_seconds` and others; `print(activity.totals())` shows them all."""

    def __init__(self):
        self._activity = _hammock.Activity()
        self._totals = None

    def totals(self):
        return self._totals or self._activity.totals()

    def __enter__(self):
        self._activity, self._totals = _hammock.Activity(), None
        return self

    def __exit__(self, *exception):
        self._totals, self._activity = self._activity.totals(), None
