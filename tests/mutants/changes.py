"""Small changes of a program, one at a time: what a test that is worth it notices.

A comparison at its boundary or turned round, another operator, another number, `and`
for `or`, the smallest for the largest. Texts, annotations and what only words an error
are left alone.
"""

import ast
import builtins
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARED = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_COMPUTED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_CALLED = {"min": "max", "any": "all", "minimum": "maximum", "argmin": "argmax"}
_CALLED |= {other: name for name, other in _CALLED.items()}


@dataclass(frozen=True)
class Change:
    """One change of a module: its node, by number, and which of the ways."""

    node: int
    way: int
    line: int
    said: str  # before -> after


def changes(source: str) -> list[Change]:
    """All changes that a module can undergo."""
    found = []
    for number, node in enumerate(_nodes(ast.parse(source))):
        for way, other in enumerate(_others(node)):
            said = f"{_short(node)}  ->  {_short(other)}"
            found.append(Change(number, way, node.lineno, said))
    return found


def changed(source: str, change: Change) -> ast.Module:
    """The module after a change."""
    tree = ast.parse(source)
    target = list(_nodes(tree))[change.node]
    other = _others(target)[change.way]

    class Put(ast.NodeTransformer):
        def visit(self, node):
            if node is target:
                return ast.copy_location(other, node)
            return self.generic_visit(node)

    return ast.fix_missing_locations(Put().visit(tree))


def _nodes(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Expressions and statements that do something, in the order of the text."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.Raise | ast.JoinedStr | ast.Assert | ast.Import):
                continue
            if isinstance(part, ast.keyword) and part.arg == "stacklevel":
                continue
            if isinstance(part, ast.AST):
                if isinstance(part, ast.expr | ast.stmt):
                    yield part
                yield from _nodes(part)


def _others(node: ast.AST) -> list[ast.AST]:
    """What may stand in the place of a node."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        kinds = _COMPARED[type(node.ops[0])]
        return [_with(node, ops=[kind()]) for kind in kinds]
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _COMPUTED:
        if isinstance(node.op, ast.BitOr) and _is_type(node):
            return []
        return [_with(node, op=_COMPUTED[type(node.op)]())]
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return [_with(node, op=other)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        return [node.operand]
    if isinstance(node, ast.Constant):
        return [ast.Constant(value) for value in _other_constants(node.value)]
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", None))
        if name in _CALLED:
            field = "attr" if isinstance(node.func, ast.Attribute) else "id"
            return [_with(node, func=_with(node.func, **{field: _CALLED[name]}))]
    return []


def _is_type(node: ast.AST) -> bool:
    """Whether something is `int | str` rather than one set or another."""
    first = node
    while isinstance(first, ast.BinOp):
        first = first.left
    name = ast.unparse(first).partition("[")[0].rpartition(".")[2]
    return name[:1].isupper() or isinstance(getattr(builtins, name, None), type)


def _other_constants(value: object) -> list[object]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1] if abs(value) < 20 else [value + 1, value // 2]
    if isinstance(value, float):
        return [2.0 * value] if value else [1.0]
    return []


def _with(node: ast.AST, **fields: object) -> ast.AST:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 70 else f"{text[:67]}..."
