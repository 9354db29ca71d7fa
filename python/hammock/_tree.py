"""Nested lists, tuples and dicts of tensors: taken apart and put together again."""


def flatten(value):
    """The leaves in order, and the structure that `unflatten` takes."""
    leaves = []
    return leaves, _describe(value, leaves)


def _describe(value, leaves):
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return (type(value), [_describe(item, leaves) for item in value])
    if isinstance(value, (list, tuple)):
        return (list if isinstance(value, list) else tuple, [_describe(item, leaves) for item in value])
    if isinstance(value, dict):
        return (dict, [(key, _describe(value[key], leaves)) for key in value])
    if value is None:
        return (None, None)
    leaves.append(value)
    return _LEAF


_LEAF = ("leaf", None)


def unflatten(structure, leaves):
    """The value of that structure with these leaves."""
    return _build(structure, iter(leaves))


def _build(structure, leaves):
    kind, items = structure
    if kind == "leaf":
        return next(leaves)
    if kind is None:
        return None
    if kind is dict:
        return {key: _build(item, leaves) for key, item in items}
    built = [_build(item, leaves) for item in items]
    if kind is list:
        return built
    return tuple(built) if kind is tuple else kind(*built)


def key_of(structure):
    """A hashable description of a structure."""
    kind, items = structure
    if items is None:
        return kind
    if kind is dict:
        return (kind, tuple((key, key_of(item)) for key, item in items))
    return (kind, tuple(key_of(item) for item in items))
