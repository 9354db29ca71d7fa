"""Signatures of ops as `inspect` and type checkers want them."""

import inspect
import keyword
import re

_TYPES = {
    "Tensor": "Tensor", "Scalar": "float", "int": "int", "SymInt": "int", "float": "float", "bool": "bool",
    "str": "str", "ScalarType": "dtype", "Device": "device", "Generator": "Generator",
}


def split(text):
    """The parts of a list that is separated by commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def parse(schema):
    """(name, [(type, name, default or None, keyword only)], result type) of a schema's text."""
    head, _, result = schema.rpartition(") -> ")
    name, _, arguments = head.partition("(")
    parameters, keyword_only = [], False
    for part in split(arguments):
        if part == "*":
            keyword_only = True
            continue
        declaration, equals, default = part.partition("=")
        kind, _, argument = declaration.rpartition(" ")
        parameters.append((re.sub(r"\([a-z!]+\)", "", kind), argument, default if equals else None, keyword_only))
    return name.partition(".")[0], parameters, re.sub(r"\([a-z]!?\)", "", result)


def annotation(kind, number_is_tensor=True):
    """The Python type of a schema's type."""
    if kind == "()":
        return "None"
    if kind.startswith("("):
        return "tuple[" + ", ".join(annotation(part, False) for part in split(kind[1:-1])) + "]"
    if kind.endswith("?"):
        return annotation(kind[:-1], number_is_tensor) + " | None"
    listed = re.fullmatch(r"(.+?)(\?)?\[\d*\]", kind)
    if listed:
        item = annotation(listed[1], False) + (" | None" if listed[2] else "")
        if not number_is_tensor:
            return f"tuple[{item}, ...]"
        single = "" if listed[1] == "Tensor" else f"{item} | "
        return f"{single}Sequence[{item}]"
    if kind == "Tensor" and number_is_tensor:
        return "Tensor | float"
    if number_is_tensor and kind in ("ScalarType", "Device"):
        return _TYPES[kind] + " | str"
    return _TYPES.get(kind, "Any")


def default_text(kind, text):
    """A default of a schema as Python writes it."""
    if text in ("None", "True", "False") or text.startswith("["):
        return text
    text = {"true": "True", "false": "False"}.get(text, text)
    try:
        float(text)
        return text
    except ValueError:
        if text in ("True", "False"):
            return text
        return repr(text.strip("'\""))


def signature(op):
    """An inspect.Signature of the first overload; (*args, **kwargs) where there are several."""
    if len(op.schemas) != 1:
        return inspect.Signature([inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
                                  inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)])
    _, parameters, result = parse(op.schemas[0])
    made = []
    # A name such as `from` cannot be written as a keyword.
    by_position = any(keyword.iskeyword(name) for _, name, _, _ in parameters)
    positional = inspect.Parameter.POSITIONAL_ONLY if by_position else inspect.Parameter.POSITIONAL_OR_KEYWORD
    for kind, name, default, keyword_only in parameters:
        shown = inspect.Parameter.empty if default is None else _Shown(default_text(kind, default))
        how = inspect.Parameter.KEYWORD_ONLY if keyword_only else positional
        made.append(inspect.Parameter(name, how, default=shown, annotation=annotation(kind)))
    try:
        return inspect.Signature(made, return_annotation=annotation(result, False))
    except ValueError:  # an argument without a default behind one that has it
        plain = [parameter.replace(default=inspect.Parameter.empty) for parameter in made]
        return inspect.Signature(plain, return_annotation=annotation(result, False))


class _Shown(str):
    """A default that is shown without quotes."""

    def __repr__(self):
        return str(self)
