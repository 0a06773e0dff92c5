import asyncio
import signal
from collections.abc import Awaitable, Callable

from app.signals import Interrupts


def with_interrupts(steps: Callable[[Interrupts], Awaitable[None]]) -> None:
    async def main() -> None:
        with Interrupts() as interrupts:
            await steps(interrupts)

    asyncio.run(main())


async def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)
    await asyncio.sleep(0.02)  # the loop delivers it on one of its next turns


def test_the_innermost_call_gets_ctrl_c_and_the_outer_one_gets_the_next() -> None:
    got: list[str] = []

    async def steps(interrupts: Interrupts) -> None:
        with interrupts.calling(lambda: got.append("outer")):
            with interrupts.calling(lambda: got.append("inner")):
                await ctrl_c()
            await ctrl_c()

    with_interrupts(steps)
    assert got == ["inner", "outer"]


def test_ctrl_c_between_two_calls_goes_to_the_next_one_once() -> None:
    got: list[str] = []

    async def steps(interrupts: Interrupts) -> None:
        await ctrl_c()
        with interrupts.calling(lambda: got.append("first")):
            await asyncio.sleep(0)
        with interrupts.calling(lambda: got.append("second")):
            await asyncio.sleep(0)

    with_interrupts(steps)
    assert got == ["first"]


def test_the_old_effect_of_ctrl_c_is_restored() -> None:
    before = signal.getsignal(signal.SIGINT)

    async def steps(interrupts: Interrupts) -> None:
        await ctrl_c()

    with_interrupts(steps)
    assert signal.getsignal(signal.SIGINT) is before
