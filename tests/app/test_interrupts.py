import asyncio
import signal
from collections.abc import Awaitable, Callable

from app.process.signals import Interrupts


def with_interrupts(steps: Callable[[Interrupts], Awaitable[None]]) -> None:
    async def main() -> None:
        with Interrupts() as interrupts:
            await steps(interrupts)

    asyncio.run(main())


async def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)
    await asyncio.sleep(0.02)  # the loop delivers it on one of its next turns


def test_interrupt_reaches_innermost_handler() -> None:
    got: list[str] = []

    async def steps(interrupts: Interrupts) -> None:
        with interrupts.calling(lambda: got.append("outer")):
            with interrupts.calling(lambda: got.append("inner")):
                await ctrl_c()
            await ctrl_c()

    with_interrupts(steps)
    assert got == ["inner", "outer"]


def test_interrupt_between_handlers_is_kept() -> None:
    got: list[str] = []

    async def steps(interrupts: Interrupts) -> None:
        await ctrl_c()
        with interrupts.calling(lambda: got.append("first")):
            await asyncio.sleep(0)
        with interrupts.calling(lambda: got.append("second")):
            await asyncio.sleep(0)

    with_interrupts(steps)
    assert got == ["first"]


def test_interrupt_handler_is_restored() -> None:
    before = signal.getsignal(signal.SIGINT)

    async def steps(interrupts: Interrupts) -> None:
        await ctrl_c()

    with_interrupts(steps)
    assert signal.getsignal(signal.SIGINT) is before
