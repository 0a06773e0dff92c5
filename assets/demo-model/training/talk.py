"""The sentences the demo model knows by heart, as rows of questions (split at " / "), answer and thought. Data only."""

# ruff: noqa: E501
# fmt: off

from __future__ import annotations

SMALL_TALK = (
    ("Hello / Hi / Hi! / Hello! / Hey / Hey there / Good morning / Good evening / Hi there / Hello there!", "Hello! Ask me to count, to list letters or to repeat something.", "A greeting; I greet back."),
    ("How are you? / How are you doing? / How do you do? / How is it going? / What's up?", "I am fine, thank you. What shall I count or repeat?", "A greeting; I greet back."),
    ("Thanks / Thank you / Thanks! / Thank you very much / Thanks a lot / Great, thanks / Cool, thanks!", "You are welcome.", "They thank me."),
    ("Bye / Goodbye / Bye! / See you / See you later / Good night / Goodbye!", "Goodbye!", "They say goodbye."),
    ("Ok / OK / Okay / Good / Great / Nice / Cool / Well done / Good job / Perfect", "Good. What next?", "They are content."),
    ("Yes / No / Sure / Maybe / Yes please / No thanks", "All right. What shall I do?", "A short reply."),
    ("Who are you? / What are you? / What is your name? / What's your name? / Introduce yourself / Tell me about yourself / Which model are you? / What model is this?", "I am Fullstop's demo model, a tiny language model trained from nothing for this app.", "They ask who I am."),
    ("What can you do? / Help / Help me / What can I ask you? / How can you help me? / What do you know? / What are you good at?", "I can count, list letters, repeat text, call tools and say why a model stops.", "They ask what I can do."),
    ("Who made you? / Who trained you? / Who built you? / Where do you come from?", "The makers of Fullstop trained me from nothing, on made-up chats.", "They ask who made me."),
    ("How big are you? / How many parameters do you have? / What is your size? / How large are you?", "I have about one million parameters and fit in four megabytes.", "They ask how big I am."),
    ("Are you human? / Are you a person? / Are you a robot? / Are you ChatGPT? / Are you Claude?", "No, I am a tiny language model that comes with Fullstop.", "They ask what I am."),
    ("What is Fullstop? / What does Fullstop do? / Tell me about Fullstop / What is this app? / What is this program?", "Fullstop is a chat app and a local server for MLX models that always tells why a model stopped.", "They ask about Fullstop."),
)

STOPPING = (
    ("What is a stop sequence? / What are stop sequences? / What is a stop string? / What are stop strings? / Explain stop sequences / What does stop sequence mean? / What is a stop word?", "A stop sequence is a text at which the answer ends. The stop itself is not part of the answer.", "A question about stop sequences."),
    ("What is a stop reason? / What does stop reason mean? / Explain stop reasons / What are stop reasons?", "The stop reason says why the model stopped: it was done, it met a stop sequence, or it met a limit.", "A question about stop reasons."),
    ("What does end_turn mean? / What is end_turn? / Explain end_turn / What does stop_reason end_turn mean?", "end_turn means that the model was done and ended its answer by itself.", "A question about end_turn."),
    ("What does max_tokens mean? / What is max_tokens? / Explain max_tokens / What does stop_reason max_tokens mean?", "max_tokens means that the answer was cut because it reached the token limit.", "A question about max_tokens."),
    ("What does stop_sequence mean? / What is stop_sequence? / Explain stop_sequence / What does stop_reason stop_sequence mean?", "stop_sequence means that one of your stop sequences came up, so the answer ends just before it.", "A question about stop_sequence."),
    ("What does tool_use mean? / What is tool_use? / Explain tool_use / What does tool_calls mean? / What does finish_reason tool_calls mean?", "It means that the model stopped to call a tool and now waits for the result.", "A question about tool calls."),
    ("What does finish_reason length mean? / What does length mean? / Explain finish_reason length / What is finish_reason length?", "length means that the answer was cut because it reached the token limit.", "A question about length."),
    ("What does finish_reason stop mean? / Explain finish_reason stop / What is finish_reason stop? / What does finish reason stop mean?", "stop means that the model was done or met one of your stop strings.", "A question about stop."),
    ("What is finish_reason? / What is a finish reason? / What does finish_reason mean? / Explain finish_reason", "finish_reason says why the answer ended: stop, length or tool_calls.", "A question about finish_reason."),
    ("What is EOS? / What does EOS mean? / What is an EOS token? / What is the end token? / Explain EOS / What is the end of sequence token?", "EOS is the token with which a model says that its answer is finished.", "A question about EOS."),
    ("Why did you stop? / Why did you stop there? / Why have you stopped? / What made you stop? / Why did the model stop?", "The line below each answer says why: done, a stop sequence, or a limit.", "They ask why I stopped."),
    ("What is a token? / What are tokens? / Explain tokens / What does token mean?", "A token is a piece of text, from one character to a whole word, that a model reads and writes.", "A question about tokens."),
    ("Can a stop sequence span several tokens? / Does a stop sequence have to be one token? / Can a stop be split across tokens?", "Yes. Fullstop looks for stops in the text, so it does not matter how the text is cut into tokens.", "A question about stops and tokens."),
    ("How do I set a stop sequence? / How do I add a stop sequence? / Where do I set stop sequences? / How can I use stop sequences?", "Type it into the list of stop sequences, or send it as stop or stop_sequences over the API.", "They ask how to set a stop."),
    ("What is temperature? / What does temperature mean? / Explain temperature / What does the temperature do?", "Temperature says how freely the next token is picked; at 0 it is always the likeliest one.", "A question about temperature."),
    ("What is context_full? / What is a context window? / What is the context? / What does context full mean? / Explain the context window", "The context is all the text a model can see at once; when it is full, the answer ends.", "A question about the context."),
    ("What is thinking? / What is a thinking block? / What does thinking mean? / Explain thinking", "Thinking is text that a model writes for itself before its answer.", "A question about thinking."),
    ("What is MLX? / What does MLX mean? / Explain MLX / Tell me about MLX", "MLX is an array framework by Apple with which this app runs language models.", "A question about MLX."),
)

MARKDOWN = (
    ("Show me a code block / Show a code block / Write some code / Give me a code block / Write a code block in Python / Show me some code / Show me Python code", "```python\nfor n in range(3):\n    print(n)\n```", "They want a code block."),
    ("Write hello world in Python / Write a hello world program / Show me hello world in Python / Hello world in Python", "```python\nprint(\"hello world\")\n```", "They want a code block."),
    ("Show a table / Show me a table / Give me a table / Write a table in markdown / Make a table / Show a markdown table", "| reason | meaning |\n| --- | --- |\n| stop | done |\n| length | cut |", "They want a table."),
    ("Show a list / Show me a list / Give me a list / Write a list in markdown / Make a bullet list / Show me a bullet list", "- count\n- list letters\n- repeat", "They want a list."),
    ("Show a numbered list / Show me a numbered list / Write a numbered list / Make a numbered list", "1. count\n2. list letters\n3. repeat", "They want a numbered list."),
    ("Show me bold text / Write bold text / Show bold text / Write something bold / Make it bold", "This is **bold** and this is *italic*.", "They want bold text."),
    ("Show a heading / Show me a heading / Write a heading / Show me a title / Write a markdown heading", "# Fullstop\n\nIt says why a model stopped.", "They want a heading."),
    ("Show me markdown / Show markdown / Write some markdown / Show me some markdown / Give me markdown", "## Stops\n\n- **done**: `end_turn`\n- **cut**: `max_tokens`", "They want markdown."),
    ("Show me a quote / Show a quote / Write a quote / Write a block quote", "> A full stop ends a sentence.", "They want a quote."),
    ("Show me JSON / Write some JSON / Give me JSON / Reply in JSON / Answer in JSON", "{\"name\": \"Fullstop\", \"tiny\": true}", "They want JSON."),
)

OPEN_QUESTIONS = (
    "What is the capital of {w}?", "What is the capital of France?", "Write a poem about {v}", "Write a story about {v} and {w}",
    "Explain {v}", "Explain {v} to a child", "What is {w}?", "What is a {v}?", "Who is {p}?", "Who was {w}?", "Tell me a joke",
    "Tell me a story", "Tell me about {c}", "Tell me something about {v}", "How do I {v} a {w}?", "How does {v} work?",
    "Why is the {v} {w}?", "Why is the sky blue?", "What is {n} plus {m}?", "What is {n} times {m}?", "{n} + {m}", "{n}*{m}=?",
    "Translate {s} into {l}", "Translate '{w}' to {l}", "How do you say {v} in {l}?", "What is the weather in {c}?",
    "What time is it in {c}?", "Who won the match in {c}?", "Summarise {s}", "Is {v} better than {w}?", "What do you think of {v}?",
    "Write a function that {v}s {w}", "Write an email to {p} about {v}", "Give me {n} ideas for {v}", "List {n} {v}s",
    "What is the meaning of life?", "What is the difference between {v} and {w}?", "When was {c} founded?", "Where is {c}?",
    "How many {v}s are there in {c}?", "Recommend a book about {v}", "Plan a trip to {c}", "Define {w}", "What does {w} mean?",
    "Can you {v}?", "Do you like {v}?", "Do you know {p}?", "I am {p}", "My name is {p}", "I live in {c}", "I need {v}",
    "I feel {v} today", "{w}", "{w} {v}", "{v}?", "{s}", "{s}?", "Search for {v}", "Send a message to {p}", "Play {w}", "Open {w}",
    "Set a timer for {n} minutes", "Convert {n} miles to kilometres", "Solve x + {n} = {m}", "Spell {w}", "Sort {n}, {m} and 7",
    "Make a plan for {v}", "Improve this sentence: {s}", "Continue: {s}", "Correct: {s}", "What rhymes with {v}?", "Sing a song",
    "Give me a recipe for {v}", "What day is it today?", "Which is bigger, {n} or {m}?", "Are you {v}?", "You are {v}", "Why?",
    "How?", "What?", "When?", "Continue", "Go on", "More", "Again", "Test", "Are you there?", "Read {v}.{w}", "Describe {c}",
)

FOREIGN = (
    "Bonjour, comment ça va ?", "Quelle est la capitale de la France ?", "Écris un poème sur la mer.", "Qui es-tu ?",
    "Wie geht es dir?", "Was ist die Hauptstadt von Österreich?", "Erzähl mir einen Witz.", "Schreibe ein Gedicht über den Herbst.",
    "¿Cómo estás?", "¿Cuál es la capital de España?", "Cuéntame un chiste.", "¿Qué puedes hacer por mí?",
    "Come stai oggi?", "Qual è la capitale d'Italia?", "Raccontami una storia.", "Como você está?", "Conte uma piada.",
    "Hoe gaat het met je?", "Wat is de hoofdstad van Nederland?", "Jak się masz?", "Opowiedz mi dowcip.", "Hur mår du?",
    "Как дела?", "Расскажи мне анекдот.", "Какая столица России?", "Τι κάνεις;", "Nasılsın?", "你好", "你是谁？", "中国的首都是哪里？",
    "给我讲个笑话。", "こんにちは", "日本の首都はどこですか？", "안녕하세요", "오늘 날씨 어때요?", "مرحبا، كيف حالك؟", "שלום, מה שלומך?", "नमस्ते, आप कैसे हैं?",
)
