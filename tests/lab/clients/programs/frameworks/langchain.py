"""LangChain: ChatOpenAI; one answer by ChatAnthropic and ChatOllama each; embeddings by two."""

from checks import CALL, COUNT, COUNTED, TALK, get_weather, main
from langchain_anthropic import ChatAnthropic
from langchain_ollama import ChatOllama, OllamaEmbeddings
from langchain_openai import ChatOpenAI, OpenAIEmbeddings


def model(url, key="unused", **more):
    return ChatOpenAI(model="m", base_url=f"{url}/v1", api_key=key, **more)


def ask(url, key, text):
    answer = model(url, key).invoke(text).text
    others = (
        ChatAnthropic(model="m", base_url=url, api_key=key, max_tokens=100),
        ChatOllama(model="m", base_url=url, client_kwargs={"headers": {"x-api-key": key}}),
    )
    assert [other.invoke(COUNT).text for other in others] == [COUNTED] * 2
    return answer


def stop(url):
    answer = model(url).invoke(COUNT, stop=["5"])
    return answer.text, answer.response_metadata["finish_reason"]


def stream(url):
    for chunk in model(url).stream(COUNT):
        yield chunk.text


def tools(url):
    (call,) = model(url).bind_tools([get_weather]).invoke(CALL).tool_calls
    return call["name"], call["args"]


def abort(url):
    chunks = model(url).stream(TALK)
    next(chunks)
    chunks.close()


def embed(url, texts):
    # Otherwise it fetches OpenAI's tokenizer, whose ids are not those of the model.
    by_openai = OpenAIEmbeddings(
        model="m", base_url=f"{url}/v1", api_key="unused", check_embedding_ctx_length=False
    )
    by_ollama = OllamaEmbeddings(model="m", base_url=url)
    one_by_one = [by_openai.embed_query(text) for text in texts]
    return [by_openai.embed_documents(texts), one_by_one, by_ollama.embed_documents(texts)]


main(ask, stop=stop, stream=stream, tools=tools, abort=abort, embed=embed)
