"""SGLang's frontend language against a server: what ``select`` chooses by each of its methods.

Run with the server's address. Prints, for each method, which choice was selected, and the figures
by which. The package's own door imports its server, which needs a GPU's libraries: only the
language's modules are imported here, as they are.
"""

import importlib.util
import json
import sys
import types

found = importlib.util.find_spec("sglang")
assert found is not None
door = types.ModuleType("sglang")
door.__path__ = list(found.submodule_search_locations or ())
sys.modules["sglang"] = door

from sglang.lang import api, choices  # noqa: E402
from sglang.lang.backend.runtime_endpoint import RuntimeEndpoint  # noqa: E402

URL = sys.argv[1]
METHODS = {
    "token length normalized": choices.token_length_normalized,
    "greedy token selection": choices.greedy_token_selection,
    "unconditional likelihood normalized": choices.unconditional_likelihood_normalized,
}
QUESTION = "<|im_start|>user\nCount from 1 to 3<|im_end|>\n<|im_start|>assistant\n"
CHOICES = ["banana", "1\n2\n3", "seven"]

backend = RuntimeEndpoint(URL)
api.set_default_backend(backend)
backend.flush_cache()
print(json.dumps({"name": "server info", "answer": backend.get_server_info()}), flush=True)
for name, method in METHODS.items():

    @api.function
    def asked(s, method=method):
        s += QUESTION
        s += api.select("answer", choices=CHOICES, choices_method=method)

    state = asked.run()
    print(
        json.dumps(
            {
                "name": f"select, {name}",
                "question": QUESTION,
                "choices": CHOICES,
                "answer": state["answer"],
                "figures": state.get_meta_info("answer")["normalized_prompt_logprobs"],
            }
        ),
        flush=True,
    )
