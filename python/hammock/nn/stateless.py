"""Modules as functions of their parameters and buffers."""

import hammock as hm


def _places(module):
    """The table and the name under which each parameter and buffer is registered, by path."""
    places = {}
    for prefix, part in module.named_modules():
        for table in (part._parameters, part._buffers):
            for name in table:
                places[f"{prefix}.{name}" if prefix else name] = (table, name)
    return places


def functional_call(module, state, args=(), kwargs=None):
    """`module(*args, **kwargs)` with the tensors of `state`, by their paths, in place of its own parameters and
    buffers; those that `state` lacks are the module's. What the call writes to buffers is written to those of `state`.

    >>> import hammock as hm
    >>> net = hm.nn.Linear(2, 1)
    >>> hm.nn.functional_call(net, {"weight": hm.ones(1, 2), "bias": hm.zeros(1)}, hm.tensor([1.0, 2.0]))
    tensor([3.])
    """
    places = _places(module)
    unknown = [path for path in state if path not in places]
    if unknown:
        raise hm.ValueError(f"functional_call: {type(module).__name__} has no parameter or buffer '{unknown[0]}'; it has "
                            + ", ".join(places))
    before = [(*places[path], places[path][0][places[path][1]]) for path in state]
    try:
        for path, tensor in state.items():
            table, name = places[path]
            table[name] = tensor
        return module(*(args if isinstance(args, tuple) else (args,)), **(kwargs or {}))
    finally:
        for table, name, value in before:
            table[name] = value


def stack_module_state(modules):
    """The parameters and the buffers of modules of one kind, each stacked along a new dim 0: two dicts for
    `functional_call` under `vmap`."""
    modules = list(modules)
    if not modules:
        raise hm.ValueError("stack_module_state: needs at least one module")
    if len({type(module) for module in modules}) > 1:
        raise hm.ValueError("stack_module_state: the modules must be of one class")

    def stacked(tables):
        return {path: hm.stack([table[path].detach() for table in tables]) for path in tables[0]}

    parameters = stacked([dict(module.named_parameters()) for module in modules])
    for path, parameter in modules[0].named_parameters():
        parameters[path].requires_grad_(parameter.requires_grad)
    return parameters, stacked([dict(module.named_buffers()) for module in modules])
