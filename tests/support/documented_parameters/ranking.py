"""The parameters of routes that rank: of Jina, Cohere (v1 and v2) and vLLM; and of a load."""

from tests.support.documented_parameters import Documented

RERANK: Documented = {
    "model": ("m", "honoured"),
    "query": ("b", "honoured"),
    "documents": ([{"text": "c"}], "honoured"),
    "top_n": (1, "honoured"),
    "return_documents": (True, "honoured"),
    "max_tokens_per_doc": (9, "honoured"),
    "instruction": ("Find it", "honoured"),
    # Jina's.
    "truncation": (True, "named"),
    "return_embeddings": (True, "named"),
    "max_doc_length": (9, "named"),
    # Cohere's.
    "rank_fields": (["title"], "named"),
    "max_chunks_per_doc": (9, "named"),
    "priority": (1, "neutral"),
    # vLLM's.
    "truncate_prompt_tokens": (9, "refused"),
    "use_activation": (True, "named"),
    "mm_processor_kwargs": ({"a": 1}, "named"),
}
SCORE: Documented = {
    "model": ("m", "honoured"),
    "queries": ("b", "honoured"),
    "documents": (["c"], "honoured"),
    "text_1": ("b", "honoured"),
    "text_2": (["c"], "honoured"),
    "truncate_prompt_tokens": (9, "refused"),
    "use_activation": (True, "named"),
}
# LM Studio's: https://lmstudio.ai/docs/developer/rest/load
LOAD: Documented = {
    "model": ("m", "honoured"),
    "ttl": (60, "honoured"),
    "echo_load_config": (True, "honoured"),
    "context_length": (16384, "named"),
    "eval_batch_size": (512, "named"),
    "flash_attention": (True, "named"),
    "num_experts": (4, "named"),
    "offload_kv_cache_to_gpu": (True, "named"),
}
