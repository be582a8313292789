"""A prompt's tests taken apart, so that each can be run and counted on its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True)
class SingleTest:
    """A program that fails by an exception, and the line of ``tests`` where its subject stands.

    ``shared`` are the statements of all programs, of which this one's are the first ``shared_count``.
    """

    line: int
    shared: tuple[str, ...]
    shared_count: int
    own: str
    call: str = ""

    @property
    def program(self) -> str:
        """The source."""
        return "\n".join((*self.shared[: self.shared_count], self.own, self.call))


def single_tests(tests: str) -> tuple[SingleTest, ...]:
    """One program for each top-level statement that asserts and each ``test_*`` function, in their order.

    A program holds all other statements too, up to the one that asserts; a function is called after all
    of them. Tests that do neither, such as one call of ``check(f)``, are one program.

    Raises ``ValueError`` with the reason where ``tests`` is not Python or holds nothing that can fail.
    """
    found = _taken_apart(tests)
    if isinstance(found, str):
        raise ValueError(found)
    return found


@lru_cache(maxsize=256)  # the same tests meet the answer of every model
def _taken_apart(tests: str) -> tuple[SingleTest, ...] | str:
    """The tests, or why there are none; in time and space linear in their length."""
    try:
        return _singles(tests)
    except (SyntaxError, ValueError) as error:
        if isinstance(error, _Unsupported):
            return str(error)
        line = getattr(error, "lineno", None)
        return f"the tests are not Python: {f'line {line}' if line else error}"
    except (RecursionError, MemoryError):
        return "the tests are nested too deeply"


class _Unsupported(ValueError):
    """Python, but none that can be run and counted."""


def _singles(tests: str) -> tuple[SingleTest, ...]:
    body = ast.parse(tests).body
    for statement in body:
        _refuse_unsupported(statement)
    functions = [_is_function(statement) for statement in body]
    single = [function or _asserts(each) for function, each in zip(functions, body, strict=True)]
    if not any(single):
        return (SingleTest(_first_call(body).lineno, (), 0, tests),)
    texts = [ast.unparse(statement) for statement in body]
    shared = tuple(text for text, own in zip(texts, single, strict=True) if not own)
    found: list[SingleTest] = []
    before = 0
    for statement, text, function, own in zip(body, texts, functions, single, strict=True):
        if isinstance(statement, ast.FunctionDef) and function:
            found.append(SingleTest(statement.lineno, shared, len(shared), text, f"{statement.name}()"))
        elif own:
            found.append(SingleTest(statement.lineno, shared, before, text))
        before += not own
    return tuple(found)


def _first_call(body: list[ast.stmt]) -> ast.stmt:
    calls = [statement for statement in body if isinstance(statement, ast.Expr | ast.For | ast.With | ast.If)]
    if not any(isinstance(node, ast.Call) for call in calls for node in ast.walk(call)):
        raise _Unsupported("the tests hold no assert, no test_ function and no call")
    return calls[0]


def _is_function(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.FunctionDef) and statement.name.startswith("test_")


def _asserts(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Assert) for node in _executed(statement))


def _executed(statement: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the statement runs: definitions' bodies don't."""
    pending = [statement]
    while pending:
        node = pending.pop()
        if not isinstance(node, _DEFINITIONS):
            yield node
            pending.extend(ast.iter_child_nodes(node))


def _refuse_unsupported(statement: ast.stmt) -> None:
    if isinstance(statement, ast.AsyncFunctionDef) and statement.name.startswith("test_"):
        raise _Unsupported(f"{statement.name} is asynchronous; only plain functions are run")
    if isinstance(statement, ast.FunctionDef) and _is_function(statement):
        arguments = statement.args
        positional = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
        if positional or None in arguments.kw_defaults:
            raise _Unsupported(f"{statement.name} needs arguments; only functions without any are run")
    if isinstance(statement, ast.ClassDef) and any(
        "TestCase" in ast.unparse(base) for base in statement.bases
    ):
        raise _Unsupported(f"{statement.name} is a unittest class; write asserts or test_ functions")
