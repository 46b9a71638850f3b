"""Search for code whose outcome depends on clocks, addresses, hash seeds or threads."""

import ast
from collections.abc import Iterator

BANNED_CALLS = {
    "open": "files are the Disk's",
    "io.open": "files are the Disk's",
    "os.open": "files are the Disk's",
    "os.urandom": "randomness is the Runtime's",
    "uuid.uuid1": "randomness is the Runtime's",
    "uuid.uuid4": "randomness is the Runtime's",
    "datetime.datetime.now": "time is the Runtime's",
    "datetime.datetime.utcnow": "time is the Runtime's",
    "datetime.datetime.today": "time is the Runtime's",
    "datetime.date.today": "time is the Runtime's",
    "asyncio.TaskGroup": "its order depends on addresses",
    "asyncio.wait": "its order depends on addresses",
    "asyncio.as_completed": "its order depends on addresses",
    "asyncio.gather": "tasks have an owner: runtime.tasks.Tasks",
    "asyncio.to_thread": "threads are the Disk's",
    "weakref.WeakSet": "its order depends on addresses",
}
BANNED_MODULES = {
    "time": "time is the running loop's and the Runtime's",
    "random": "randomness is the Runtime's",
    "secrets": "randomness is the Runtime's",
    "threading": "threads are the Disk's",
    "concurrent": "threads are the Disk's",
    "multiprocessing": "processes are not core's",
    "socket": "connections are the running loop's",
}
ALLOWED = {"random.Random", "socket.gaierror"}
_SET_TYPES = {"set", "frozenset", "AbstractSet", "MutableSet"}
_SET_METHODS = {"union", "intersection", "difference", "symmetric_difference"}
_ORDERED_BY_ITERATION = {"list", "tuple", "enumerate", "iter", "next", "dict", "zip", "map"}
_INT_SETS = {"set[int]", "frozenset[int]"}


def faults(tree: ast.Module) -> list[str]:
    """Return the faults of a module, each as `line: construct (reason)`."""
    names = imported_names(tree)
    found = [*_banned_uses(tree, names)]
    for scope in ast.walk(tree):
        if isinstance(scope, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
            found += _set_orders(scope, _known_sets(scope) | _set_attributes(tree))
    return [f"{line}: {text}" for line, text in sorted(set(found))]


def imported_names(tree: ast.Module) -> dict[str, str]:
    """Return the full name of each import: {"t": "time.time"} for `from time import time as t`."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _dotted(node: ast.expr, names: dict[str, str]) -> str:
    """Return the full name of an expression like `a.b.c`, or an empty string."""
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id if node.id == "open" else "")
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value, names)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def _banned_uses(tree: ast.Module, names: dict[str, str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(args=[]) if _dotted(node.func, names) == "random.Random":
                yield node.lineno, "random.Random() (without a seed)"
        if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
            continue
        name = _dotted(node, names)
        if name in ALLOWED:
            continue
        reason = BANNED_CALLS.get(name)
        if reason is None and "." in name:
            reason = BANNED_MODULES.get(name.split(".")[0])
        if reason is not None:
            yield node.lineno, f"{name} ({reason})"


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, without those of nested functions."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _own_nodes(child)


def _is_set_annotation(annotation: ast.expr | None) -> bool:
    if annotation is None or ast.unparse(annotation) in _INT_SETS:
        return False
    outer = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return ast.unparse(outer).split(".")[-1] in _SET_TYPES


def _known_sets(scope: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """Return the names in a scope that hold sets, by annotation or assignment."""
    known: set[str] = set()
    if not isinstance(scope, ast.Module):
        arguments = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
        known |= {a.arg for a in arguments if _is_set_annotation(a.annotation)}
    return frozenset(known | _assigned_sets(_own_nodes(scope), ast.Name))


def _set_attributes(tree: ast.Module) -> frozenset[str]:
    """Return the attributes (`self.x`) of a module that hold sets."""
    return _assigned_sets(ast.walk(tree), ast.Attribute)


def _assigned_sets(nodes: Iterator[ast.AST], kind: type[ast.expr]) -> frozenset[str]:
    known: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.AnnAssign):
            if isinstance(node.target, kind) and _is_set_annotation(node.annotation):
                known.add(ast.unparse(node.target))
        elif isinstance(node, ast.Assign) and _is_set(node.value, frozenset()):
            known |= {ast.unparse(target) for target in node.targets if isinstance(target, kind)}
    return frozenset(known)


def _is_set(node: ast.expr, known: frozenset[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in _SET_METHODS:
            return _is_set(owner, known)
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor()):
            return _is_set(left, known)
        case ast.Name() | ast.Attribute():
            return ast.unparse(node) in known
    return False


def _set_orders(scope: ast.AST, known: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yield the places where the iteration order of a set affects the outcome."""
    harmless: set[ast.AST] = set()
    for node in _own_nodes(scope):
        for iterated in _iterated(node, harmless):
            if _is_set(iterated, known):
                yield iterated.lineno, f"the order of a set: {ast.unparse(iterated)} (sort it)"
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="pop"), args=[]):
                if _is_set(owner, known):
                    yield node.lineno, f"{ast.unparse(node)} takes any member of a set (sort it)"


def _iterated(node: ast.AST, harmless: set[ast.AST]) -> list[ast.expr]:
    """Return the expressions whose iteration order matters at `node`."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=arguments):
            if name in _ORDERED_BY_ITERATION:
                return [a.value if isinstance(a, ast.Starred) else a for a in arguments]
            if name in {"sorted", "sum", "min", "max", "any", "all", "len", "set", "frozenset"}:
                harmless.update(a for a in arguments if isinstance(a, ast.GeneratorExp))
        case ast.Call(func=ast.Attribute(attr="join"), args=[argument]):
            return [argument]
        case ast.For(iter=iterated):
            return [iterated]
        case ast.ListComp() | ast.DictComp() | ast.GeneratorExp() if node not in harmless:
            return [generator.iter for generator in node.generators]
        case ast.Starred(value=value, ctx=ast.Load()):
            return [value]
    return []
