"""Objects whose methods run those of an asyncio object in a loop thread and wait for the result.

A method is declared by the asyncio method that it delegates to, so parameters, result type and
docstring are written once::

    class SyncNamespace(Facade[LogNamespace]):
        describe = Blocking(LogNamespace.describe)
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from ...core.protocol.errors import ClosedError
from .loop_thread import LoopThread

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")


class Facade(Generic[T]):
    """A blocking wrapper of an object of the asyncio API. Threads may share it."""

    def __init__(self, thread: LoopThread, inner: T | None) -> None:
        self._thread = thread
        self._inner = inner

    @property
    def inner(self) -> T:
        """The wrapped object. Raises ClosedError outside of ``with``."""
        if self._inner is None:
            raise ClosedError("the object is not open; use it with `with`")
        return self._inner

    def run(self, work: Callable[[T], Awaitable[R]], timeout_s: float | None = None) -> R:
        """Run a call of the wrapped object, e.g. ``run(lambda writer: writer.flush())``.

        Raises TimeoutError if ``timeout_s`` has passed; the call was cancelled then.
        """
        inner = self.inner

        async def awaited() -> R:
            return await work(inner)

        return self._thread.call(awaited(), timeout_s)


class Blocking(Generic[P, R]):
    """A method of a ``Facade`` that runs the method of the same parameters of what it wraps."""

    def __init__(self, method: Callable[Concatenate[Any, P], Awaitable[R]]) -> None:
        self._name = method.__name__
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...

    @overload
    def __get__(self, owner: Facade[Any], kind: type) -> Callable[P, R]: ...

    def __get__(self, owner: Facade[Any] | None, kind: type) -> Self | Callable[P, R]:
        """Return the method, bound to the object."""
        if owner is None:
            return self
        facade, name = owner, self._name

        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            def work(inner: Any) -> Awaitable[R]:  # noqa: ANN401 - what the facade wraps
                found: Awaitable[R] = getattr(inner, name)(*args, **kwargs)
                return found

            return facade.run(work)

        return call


class InLoop(Generic[P, R]):
    """A method of a ``Facade`` that calls a method without waiting, in the thread of the loop."""

    def __init__(self, method: Callable[Concatenate[Any, P], R]) -> None:
        self._name = method.__name__
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...

    @overload
    def __get__(self, owner: Facade[Any], kind: type) -> Callable[P, R]: ...

    def __get__(self, owner: Facade[Any] | None, kind: type) -> Self | Callable[P, R]:
        """Return the method, bound to the object."""
        if owner is None:
            return self
        facade, name = owner, self._name

        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            async def work(inner: Any) -> R:  # noqa: ANN401 - what the facade wraps
                result: R = getattr(inner, name)(*args, **kwargs)
                return result

            return facade.run(work)

        return call


class OpenedFacade(Facade[T]):
    """A ``Facade`` of an object that ``with`` opens and closes."""

    def __init__(self, thread: LoopThread, context: AbstractAsyncContextManager[T]) -> None:
        super().__init__(thread, None)
        self._context = context

    def __enter__(self) -> Self:
        """Open the object; see the asyncio method for what this raises."""
        self._inner = self._thread.call(_entered(self._context))
        return self

    def __exit__(self, *error: Any) -> None:  # noqa: ANN401 - what `with` passes
        """Close the object; an error of closing never hides an error of the block."""
        self._inner = None
        self._thread.call(_exited(self._context, error))


async def _entered(context: AbstractAsyncContextManager[T]) -> T:
    return await context.__aenter__()


async def _exited(context: AbstractAsyncContextManager[Any], error: Any) -> None:  # noqa: ANN401
    await context.__aexit__(*error)
