"""Parameters of open servers that would change the answer and are not supported here.

Clients of other servers send them to the OpenAI routes. Pure; any thread.
"""

from api.dialects.shared.parameters.refusing import EMPTY, RefusedParameter, refusals

UNHONOURED = refusals(
    "OpenAI",
    {
        # Output formats.
        "structural_tag": RefusedParameter("holding the answer to structural tags", EMPTY),
        # Sampling.
        "allowed_token_ids": RefusedParameter("a list of allowed tokens", EMPTY),
        "bad_words": RefusedParameter("a list of forbidden words", EMPTY),
        "dry_multiplier": RefusedParameter("DRY sampling", (0,)),
        "length_penalty": RefusedParameter("a penalty on length", (0, 1)),
        "logits_processors": RefusedParameter("code in a request", EMPTY),
        "mirostat": RefusedParameter("Mirostat sampling", (0,)),
        "tfs_z": RefusedParameter("tail-free sampling", (1,)),
        "top_a": RefusedParameter("top-a sampling", (0,)),
        "typical_p": RefusedParameter("typical sampling", (0, 1)),
        "use_beam_search": RefusedParameter("beam search", (False,)),
        "xtc_probability": RefusedParameter("XTC sampling", (0,)),
        # The prompt.
        "chat_template": RefusedParameter("a chat template in a request", EMPTY),
        "documents": RefusedParameter("documents beside the messages", EMPTY),
        "prompt_embeds": RefusedParameter("input other than text", EMPTY),
        "truncate_prompt_tokens": RefusedParameter("truncating the prompt", (-1, 0)),
        "web_search_options": RefusedParameter("searching the web"),
        # The content of the answer.
        "skip_special_tokens": RefusedParameter("text of special tokens in the answer", (True,)),
    },
)
