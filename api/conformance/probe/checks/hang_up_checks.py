"""Checks that a server answers the next client after some clients have hung up.

The only evidence from outside is how soon the next client is answered. Runs on the loop of whoever
probes.
"""

import asyncio
from collections.abc import Awaitable, Callable

from api.conformance.probe.checks.checking import Check, CheckSetting, Seen, undecided
from api.conformance.probe.dialects.asks import Ask
from api.conformance.probe.values import Fault

# At least one of these gets a long answer from any model.
_LONG_CHAT = (
    "Count from 1 to 1000, one number per line",
    "Count from 1 to 40 in words, one number per line.",
    "Write a long story about a fox.",
)
_LONG_PLAIN = ("1\n2\n3\n4\n5\n6\n", "Once upon a time", "The alphabet is A B C D E F")
_MAX_TOKENS = 1500
_WAIT_S = 0.3
_USUAL = 4


def _hang_up(is_streamed: bool) -> Callable[[CheckSetting], Awaitable[Seen]]:
    async def run(setting: CheckSetting) -> Seen:
        client = setting.client
        prompts = _LONG_CHAT if client.driver.has_chat_template else _LONG_PLAIN
        asks = [Ask(text, max_tokens=_MAX_TOKENS, is_streamed=is_streamed) for text in prompts]
        wait_s = min(_WAIT_S, setting.main.total_s / 2)
        left = await asyncio.gather(*(client.hang_up_on(ask, wait_s) for ask in asks))
        allowed_s = setting.options.patience_s + _USUAL * setting.short_s
        after = await client.ask_shortly()
        if not after.is_answer or after.total_s > allowed_s:
            why = after.problem or (
                f"the next request took {after.total_s:.1f} s"
                if after.is_answer
                else f"the next request got status {after.status}"
            )
            body = client.driver.body(asks[0], client.model)
            fault = Fault(
                "not_freed",
                f"After {len(asks)} clients hung up {why}.",
                # Streamed or not, the fault is the same: the server does not free the client's
                # slot.
                expected=f"an answer within {allowed_s:.1f} s",
                got=why,
                curl=client.curl(body, is_cut=True),
            )
            return Seen(faults=(fault,))
        if not any(left):
            return undecided("The answers ended before a client could hang up.")
        return Seen(f"the next request took {after.total_s:.2f} s")

    return run


HANG_UP_CHECKS = (
    Check("hang_up.streamed", _hang_up(is_streamed=True)),
    Check("hang_up.whole", _hang_up(is_streamed=False)),
)
