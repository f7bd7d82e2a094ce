"""Rewrites the class gates of one module: capabilities for classes, traits for values."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from .answers import ByClass, Person
from .bound_views import Views, views_of
from .class_tables import ClassTable, table_of
from .class_values import ClassValues
from .found import Found
from .gate import DUCK_KINDS, Gate
from .module_gates import found_in, gate_of
from .new_imports import import_edits, module_of, taken_names
from .new_tests import NewTest, new_test
from .old_imports import Exported, removal_edits
from .profile import Bind, Profile
from .rewritten import Left, Rewritten
from .scopes import scopes_of
from .source_text import Edit, SourceText
from .table_edits import EITHER, is_only_asked, table_edit

__all__ = ["rewrite"]

_WIDTH = 88


@dataclass(frozen=True, slots=True)
class _Change:
    gate: Gate
    found: Found
    test: NewTest
    edit: Edit
    bind: Bind | None


def rewrite(source: bytes, file: str, profile: Profile, exported: Exported) -> Rewritten:
    """The module with its class gates rewritten as far as that needs nobody.

    Everything but the tests and the imports they need stays byte for byte. `exported` says of a
    name of this module whether another may import it from here.

    :raises SyntaxError: where this Python cannot parse the source.
    """
    text = SourceText.of(source)
    module = ast.parse(text.text)
    views = views_of(module, file, text, profile)
    changes, left = _changes(module, text, file, profile, views, exported)
    if not changes:
        return Rewritten(file=file, before=source, after=source, done=(), left=tuple(left))
    scopes = scopes_of(module)
    changes, more = _without_taken_names(
        changes, taken_names(module, scopes.values(), _names(changes), file, profile)
    )
    left += more
    if not changes:
        return Rewritten(file=file, before=source, after=source, done=(), left=tuple(left))
    # Several gates may ask for classes of one table, which changes once.
    edits = list(dict.fromkeys(change.edit for change in changes))
    edits += [views.edit(bind, text) for bind in {change.bind for change in changes} if bind]
    modules = {name: module_of(name, file, profile) for name in _names(changes)}
    edits += import_edits(module, scopes[module], modules, text)
    gone = [node for change in changes for node in _replaced(change)]
    edits += removal_edits(module, scopes, gone, text, exported)
    after = text.edited(edits)
    try:
        ast.parse(after.text)
    except SyntaxError as error:
        why = f"the file could not be parsed any more: line {error.lineno}: {error.msg}"
        left += [Left(change.gate, why) for change in changes]
        return Rewritten(file=file, before=source, after=source, done=(), left=tuple(left))
    done = tuple(change.gate for change in changes)
    return Rewritten(file=file, before=source, after=after.encoded(), done=done, left=tuple(left))


def _changes(
    module: ast.Module,
    text: SourceText,
    file: str,
    profile: Profile,
    views: Views,
    exported: Exported,
) -> tuple[list[_Change], list[Left]]:
    changes: list[_Change] = []
    left: list[Left] = []
    asked = [(f, p) for f, p in found_in(module, file, profile) if f.kind not in DUCK_KINDS]
    loose = set(_loose(module)) if asked else set[ast.AST]()
    strings = set(_in_strings(module)) if asked else set[ast.AST]()
    for found, place in asked:
        gate = gate_of(found, place, file, profile)
        if isinstance(gate.answer, ByClass) and (table := table_of(found, place.names)):
            change = _table_change(gate, gate.answer, found, table, text, profile, exported)
        elif found.node in strings and not isinstance(gate.answer, Person):
            change = "it stands in an f-string"
        else:
            change = _change(gate, found, text, loose)
        bind = views.of(gate, found, place)
        if isinstance(change, str) or isinstance(bind, str):
            left.append(Left(gate, change if isinstance(change, str) else str(bind)))
        elif any(_overlap(change.edit, o.edit) and change.edit != o.edit for o in changes):
            left.append(Left(gate, "it stands inside another gate: run the rewrite again"))
        else:
            changes.append(_bound(change, bind, text, found.node in loose) if bind else change)
    return changes, left


def _change(gate: Gate, found: Found, text: SourceText, loose: set[ast.AST]) -> _Change | str:
    """The change of one gate, or why there is none."""
    if isinstance(gate.answer, Person):
        return gate.answer.why
    test = new_test(gate.answer, _segment(found.operand, text))
    if test is None or isinstance(found.operand, ast.Starred):
        return "no expression says it"
    if isinstance(found.node, ast.MatchClass):
        if test.classes is None or test.classes.startswith("("):
            return "no class pattern says it: it takes a guard"
        return _Change(gate, found, test, Edit(*text.span(found.node.cls), test.classes), None)
    if test.repeats and not _is_plain(found.operand):
        return "the pool is the result of a call, which would be made twice"
    edit = _edit(found, test, text, found.node in loose)
    if edit is None:
        return "it is one of several comparisons in a chain"
    if _has_comment(text.text[edit.start : edit.end]):
        return "a comment inside it would be lost"
    return _Change(gate, found, test, edit, None)


def _table_change(
    gate: Gate,
    answer: ByClass,
    found: Found,
    table: ClassTable,
    text: SourceText,
    profile: Profile,
    exported: Exported,
) -> _Change | str:
    """The change of the table that a gate takes its class from, or why there is none."""
    if exported(table.name) or not is_only_asked(table):
        return f"{table.name} may be used for more than isinstance and issubclass"
    capabilities = dict(answer.capabilities)
    classes = [ClassValues(profile).named(value, table.names) for value in table.values]
    if not all(name in capabilities for name in classes):
        return f"{table.name} has more than classes in it"
    edit = table_edit(table, [capabilities[name] for name in classes if name], text)
    test = NewTest((), "or", frozenset({EITHER, *capabilities.values()}), None)
    return _Change(gate, found, test, edit, None)


def _bound(change: _Change, bind: Bind, text: SourceText, loose: bool) -> _Change:
    """The change to a test of what was bound when the pool was taken."""
    test = f"self.{bind.name} is not None"
    edit = Edit(*text.span(change.found.node), test if loose else f"({test})")
    return replace(change, edit=edit, bind=bind)


def _edit(found: Found, test: NewTest, text: SourceText, loose: bool) -> Edit | None:
    """`loose`: whether a `not` binds where the old test stands."""
    node = found.node
    line_start, line = text.line_of(node.lineno)
    indent = line[: len(line) - len(line.lstrip())]
    start, end = text.span(node)
    room = _WIDTH - (start - line_start)
    new = test.text(indent=indent, room=room, newline=text.newline)
    if isinstance(node, ast.Call):
        # Where only the class is another, the pool stays as it is written.
        if test.classes is not None:
            return Edit(*text.span(node.args[1]), test.classes)
        return Edit(start, end, new)
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    if not isinstance(node.ops[0], ast.IsNot | ast.NotEq | ast.NotIn):
        return Edit(start, end, new)
    return Edit(start, end, f"not {new}" if loose else f"(not {new})")


def _loose(module: ast.Module) -> Iterator[ast.AST]:
    """The expressions that may begin with `not` without brackets."""
    for node in ast.walk(module):
        match node:
            case ast.If() | ast.While() | ast.IfExp() | ast.Assert():
                yield node.test
            case ast.BoolOp():
                yield from node.values
            case ast.Assign() | ast.Return():
                if node.value is not None:
                    yield node.value
            case _:
                pass


def _in_strings(module: ast.Module) -> Iterator[ast.AST]:
    """What stands in f-strings, where Pythons before 3.12 do not know the positions."""
    for node in ast.walk(module):
        if isinstance(node, ast.JoinedStr):
            yield from ast.walk(node)


def _replaced(change: _Change) -> Iterable[ast.AST]:
    """The nodes of the old test that are gone, with all that is in them."""
    node = change.found.node
    if isinstance(node, ast.MatchClass):
        return (node.cls,)
    if isinstance(node, ast.Call):
        return (node.args[1],)
    return (node,)


def _without_taken_names(
    changes: list[_Change], taken: set[str]
) -> tuple[list[_Change], list[Left]]:
    kept = [change for change in changes if not change.test.names & taken]
    left = [
        Left(change.gate, f"{min(change.test.names & taken)} means something else in this module")
        for change in changes
        if change.test.names & taken
    ]
    return kept, left


def _names(changes: list[_Change]) -> set[str]:
    return {name for change in changes for name in change.test.names}


def _segment(node: ast.expr, text: SourceText) -> str:
    start, end = text.span(node)
    written = text.text[start:end]
    if isinstance(node, ast.Yield | ast.YieldFrom):
        return f"({written})"
    return ast.unparse(node) if "\n" in written or "\r" in written else written


def _overlap(one: Edit, other: Edit) -> bool:
    return one.start < other.end and other.start < one.end


def _is_plain(node: ast.expr) -> bool:
    match node:
        case ast.Name() | ast.Constant():
            return True
        case ast.Attribute(value=value):
            return _is_plain(value)
        case ast.Subscript(value=value, slice=index):
            return _is_plain(value) and _is_plain(index)
        case _:
            return False


def _has_comment(written: str) -> bool:
    if "#" not in written:
        return False
    tokens = tokenize.generate_tokens(io.StringIO(f"({written})").readline)
    return any(token.type == tokenize.COMMENT for token in tokens)
