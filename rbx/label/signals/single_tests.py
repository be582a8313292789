"""A prompt's tests taken apart, so that each can be run and counted on its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class SingleTest(NamedTuple):
    """A program that fails by an exception, and the line of ``tests`` where its subject stands."""

    line: int
    program: str


def single_tests(tests: str) -> list[SingleTest]:
    """One program for each top-level statement that asserts and each ``test_*`` function, in their order.

    A program holds all other statements too, up to the one that asserts; a function is called after all
    of them. Tests that do neither, such as one call of ``check(f)``, are one program.

    Raises ``ValueError`` with the reason where ``tests`` is not Python or holds nothing that can fail.
    """
    try:
        body = ast.parse(tests).body
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise ValueError(f"the tests are not Python: {f'line {line}' if line else error}") from None
    except (RecursionError, MemoryError):
        raise ValueError("the tests are nested too deeply") from None
    for statement in body:
        _refuse_unsupported(statement)
    singles = [statement for statement in body if _is_function(statement) or _asserts(statement)]
    if singles:
        return [SingleTest(single.lineno, _program(single, body, singles)) for single in singles]
    calls = [statement for statement in body if isinstance(statement, ast.Expr | ast.For | ast.With | ast.If)]
    if not any(isinstance(node, ast.Call) for call in calls for node in ast.walk(call)):
        raise ValueError("the tests hold no assert, no test_ function and no call")
    return [SingleTest(calls[0].lineno, tests)]


def _program(single: ast.stmt, body: list[ast.stmt], singles: list[ast.stmt]) -> str:
    others = [statement for statement in body if statement is single or statement not in singles]
    if isinstance(single, ast.FunctionDef):
        call = ast.parse(f"{single.name}()").body
        return ast.unparse(ast.Module(others + call, []))
    return ast.unparse(ast.Module(others[: others.index(single) + 1], []))


def _is_function(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.FunctionDef) and statement.name.startswith("test_")


def _asserts(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Assert) for node in _executed(statement))


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the statement runs: definitions' bodies don't."""
    if isinstance(node, _DEFINITIONS):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _executed(child)


def _refuse_unsupported(statement: ast.stmt) -> None:
    if isinstance(statement, ast.AsyncFunctionDef) and statement.name.startswith("test_"):
        raise ValueError(f"{statement.name} is asynchronous; only plain functions are run")
    if isinstance(statement, ast.FunctionDef) and _is_function(statement):
        arguments = statement.args
        positional = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
        if positional or None in arguments.kw_defaults:
            raise ValueError(f"{statement.name} needs arguments; only functions without any are run")
    if isinstance(statement, ast.ClassDef) and any(
        "TestCase" in ast.unparse(base) for base in statement.bases
    ):
        raise ValueError(f"{statement.name} is a unittest class; write asserts or test_ functions")
