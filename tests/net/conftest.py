"""Tests here are coroutines, run on the server's event loop."""

import asyncio
import inspect

import pytest
import uvloop


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(pyfuncitem.obj(**arguments))
    return True
