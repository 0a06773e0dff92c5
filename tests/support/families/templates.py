"""Chat templates with the rules of the families that agents run, in the tests' own words.

Each refuses, leaves out and needs what the family's published template does; the instructions
about tools are shortened. ``TEMPLATES`` has them by the names of ``writers.FAMILIES``, and some of
older families.
"""

_THINK_AFTER_LAST_QUESTION = """
{%- set ns = namespace(last=-1) %}
{%- for m in messages %}
  {%- if m.role == 'user' and not m.content.startswith('<tool_response>') %}
    {%- set ns.last = loop.index0 %}
  {%- endif %}
{%- endfor %}
"""
_FUNCTION_TAGS = """
{%- macro call_tags(call) %}
  {{- '<tool_call>\\n<function=' + call.function.name + '>\\n' }}
  {%- for name, value in call.function.arguments | items %}
    {{- '<parameter=' + name + '>\\n' + (value if value is string else value | tojson) }}
    {{- '\\n</parameter>\\n' }}
  {%- endfor %}
  {{- '</function>\\n</tool_call>' }}
{%- endmacro %}
"""
_CHATML_RESULT = """
{%- macro result_turn(m, before, behind) %}
  {%- if not before or before.role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}
  {{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
  {%- if not behind or behind.role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}
{%- endmacro %}
"""
_CHATML_TOOLS = """
{%- macro tool_list() %}
  {{- '# Tools\\n<tools>' }}
  {%- for tool in tools %}{{ '\\n' + tool | tojson }}{% endfor %}
  {{- '\\n</tools>' }}
{%- endmacro %}
"""
_THINK_HEADER = """
{%- if add_generation_prompt %}
  {{- '<|im_start|>assistant\\n' }}
  {{- '<think>\\n\\n</think>\\n\\n' if enable_thinking is false else '<think>\\n' }}
{%- endif %}
"""

CHATML = """
{%- for m in messages %}
  {{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""

# Takes everything; calls in JSON. Its header opens no thinking.
QWEN3 = (
    _CHATML_TOOLS
    + _CHATML_RESULT
    + _THINK_AFTER_LAST_QUESTION
    + """
{%- if tools %}
  {{- '<|im_start|>system\\n' }}
  {%- if messages[0].role == 'system' %}{{ messages[0].content + '\\n\\n' }}{% endif %}
  {{- tool_list() + '<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
  {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for m in messages %}
  {%- if m.role == 'user' or (m.role == 'system' and not loop.first) %}
    {{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
  {%- elif m.role == 'assistant' %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if m.reasoning_content and loop.index0 > ns.last %}
      {{- '<think>\\n' + m.reasoning_content + '\\n</think>\\n\\n' }}
    {%- endif %}
    {{- m.content }}
    {%- for call in m.tool_calls or [] %}
      {{- '\\n' if m.content or not loop.first }}
      {{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
      {%- if call.function.arguments is string %}{{ call.function.arguments }}
      {%- else %}{{ call.function.arguments | tojson }}{% endif %}
      {{- '}\\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
  {%- elif m.role == 'tool' %}{{ result_turn(m, loop.previtem, loop.nextitem) }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
  {{- '<|im_start|>assistant\\n' }}
  {%- if enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}
{%- endif %}
"""
)

# Only the first turn may be a system's, some turn must be a user's, three efforts.
QWEN38 = (
    _CHATML_TOOLS
    + _CHATML_RESULT
    + _FUNCTION_TAGS
    + _THINK_AFTER_LAST_QUESTION
    + """
{%- if ns.last < 0 %}{{ raise_exception('No user query found in messages.') }}{% endif %}
{%- set effort = '' %}
{%- if enable_thinking is not false %}
  {%- set effort = reasoning_effort | default('xhigh') %}
  {%- if effort not in ('xhigh', 'medium', 'low') %}
    {{- raise_exception('Unexpected reasoning effort ' + effort + '.') }}
  {%- endif %}
{%- endif %}
{%- set first = messages[0].content if messages[0].role == 'system' else '' %}
{%- if tools or first or effort %}
  {{- '<|im_start|>system\\n' }}
  {%- if effort %}{{ 'Reasoning effort: ' + effort + '\\n\\n' }}{% endif %}
  {%- if tools %}{{ tool_list() + '\\n\\n' }}{% endif %}
  {{- first + '<|im_end|>\\n' }}
{%- endif %}
{%- for m in messages %}
  {%- if m.role == 'system' %}
    {%- if not loop.first %}
      {{- raise_exception('System message must be at the beginning.') }}
    {%- endif %}
  {%- elif m.role == 'user' %}
    {{- '<|im_start|>user\\n' + m.content | trim + '<|im_end|>\\n' }}
  {%- elif m.role == 'assistant' %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if preserve_thinking is not false or loop.index0 > ns.last %}
      {{- '<think>\\n' + (m.reasoning_content or '') | trim + '\\n</think>\\n\\n' }}
    {%- endif %}
    {{- m.content | trim }}
    {%- for call in m.tool_calls or [] %}
      {{- '\\n\\n' if loop.first and m.content | trim else ('' if loop.first else '\\n') }}
      {{- call_tags(call) }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
  {%- elif m.role == 'tool' %}{{ result_turn(m, loop.previtem, loop.nextitem) }}
  {%- else %}{{ raise_exception('Unexpected message role.') }}
  {%- endif %}
{%- endfor %}
"""
    + _THINK_HEADER
)

# Arguments must be mappings; no thinking.
QWEN3_CODER = (
    _CHATML_TOOLS
    + _CHATML_RESULT
    + _FUNCTION_TAGS
    + """
{%- set rest = messages %}
{%- if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% endif %}
{%- if tools or messages[0].role == 'system' %}
  {{- '<|im_start|>system\\n' }}
  {{- messages[0].content if messages[0].role == 'system' else 'You are a helpful assistant.' }}
  {%- if tools %}{{ '\\n\\n' + tool_list() }}{% endif %}
  {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for m in rest %}
  {%- if m.role == 'tool' %}{{ result_turn(m, loop.previtem, loop.nextitem) }}
  {%- else %}
    {{- '<|im_start|>' + m.role }}
    {%- if m.content %}{{ '\\n' + m.content | trim }}{% endif %}
    {%- for call in m.tool_calls or [] %}{{ '\\n' + call_tags(call) }}{% endfor %}
    {{- '<|im_end|>\\n' }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""
)

# Arguments must be mappings; thinking of earlier questions is cut unless an option says no.
NEMOTRON = (
    _CHATML_TOOLS
    + _CHATML_RESULT
    + _FUNCTION_TAGS
    + _THINK_AFTER_LAST_QUESTION
    + """
{%- set truncate = truncate_history_thinking | default(true) %}
{%- set rest = messages %}
{%- set first = '' %}
{%- if messages[0].role == 'system' %}
  {%- set first, rest = messages[0].content, messages[1:] %}
  {%- set ns.last = ns.last - 1 %}
{%- endif %}
{{- '<|im_start|>system\\n' + first }}
{%- if tools %}{{ '\\n\\n' + tool_list() }}{% endif %}
{{- '<|im_end|>\\n' }}
{%- for m in rest %}
  {%- if m.role == 'assistant' %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if m.reasoning_content and (not truncate or loop.index0 > ns.last) %}
      {{- '<think>\\n' + m.reasoning_content + '\\n</think>\\n' }}
    {%- else %}{{ '<think></think>' }}
    {%- endif %}
    {{- m.content | trim }}
    {%- for call in m.tool_calls or [] %}{{ '\\n' + call_tags(call) }}{% endfor %}
    {{- '<|im_end|>\\n' }}
  {%- elif m.role == 'tool' %}{{ result_turn(m, loop.previtem, loop.nextitem) }}
  {%- else %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
  {%- endif %}
{%- endfor %}
"""
    + _THINK_HEADER
)

# The first system only; one call a turn; text or thinking beside it, and neither once an answer
# follows; results only behind calls; no texts of channels in answers.
GPT_OSS = """
{%- macro head() %}
  {%- if reasoning_effort is not defined %}{% set reasoning_effort = 'medium' %}{% endif %}
  {{- 'Reasoning: ' + reasoning_effort + '\\n\\n# Valid channels: analysis, commentary, final.' }}
{%- endmacro %}
{{- '<|start|>system<|message|>' + head() + '<|end|>' }}
{%- set rest = messages %}
{%- set first = '' %}
{%- if messages[0].role in ('system', 'developer') %}
  {%- set first, rest = messages[0].content, messages[1:] %}
{%- endif %}
{%- if first or tools %}
  {{- '<|start|>developer<|message|># Instructions\\n\\n' + first }}
  {%- if tools %}{{ '\\n\\n# Tools\\n\\n' + tools | tojson }}{% endif %}
  {{- '<|end|>' }}
{%- endif %}
{%- set ns = namespace(name=none) %}
{%- for m in rest %}
  {%- if m.role == 'assistant' %}
    {%- for text in (m.content or '', m.thinking or '') %}
      {%- if '<|channel|>analysis<|message|>' in text or '<|channel|>final<|message|>' in text %}
        {{- raise_exception('You have passed a message containing <|channel|> tags.') }}
      {%- endif %}
    {%- endfor %}
    {%- if m.tool_calls is defined %}
      {%- set ahead = namespace(answer=false) %}
      {%- for later in rest[loop.index:] %}
        {%- if later.role == 'assistant' and later.tool_calls is not defined %}
          {%- set ahead.answer = true %}
        {%- endif %}
      {%- endfor %}
      {%- if m.content and m.thinking %}
        {{- raise_exception('Cannot pass both content and thinking beside tool calls!') }}
      {%- elif (m.content or m.thinking) and not ahead.answer %}
        {{- '<|start|>assistant<|channel|>analysis<|message|>' + (m.content or m.thinking) }}
        {{- '<|end|>' }}
      {%- endif %}
      {%- set call = m.tool_calls[0].function %}
      {{- '<|start|>assistant to=functions.' + call.name + '<|channel|>commentary json' }}
      {{- '<|message|>' + call.arguments | tojson + '<|call|>' }}
      {%- set ns.name = call.name %}
    {%- else %}
      {{- '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}
      {%- set ns.name = none %}
    {%- endif %}
  {%- elif m.role == 'tool' %}
    {%- if ns.name is none %}
      {{- raise_exception('Message has tool role, but there was no previous tool call!') }}
    {%- endif %}
    {{- '<|start|>functions.' + ns.name + ' to=assistant<|channel|>commentary<|message|>' }}
    {{- m.content | tojson + '<|end|>' }}
  {%- elif m.role == 'user' %}{{ '<|start|>user<|message|>' + m.content + '<|end|>' }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}
"""

# Roles alternate strictly; the system's text begins the first turn; neither tools nor results.
_GEMMA_TURNS = """
{%- for m in rest %}
  {%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}
    {{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
  {%- endif %}
  {{- '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' }}
  {{- (first if loop.first else '') + m.content | trim + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}
"""
GEMMA3 = (
    """
{{- bos_token }}
{%- set rest, first = messages, '' %}
{%- if messages[0].role == 'system' %}
  {%- set first, rest = messages[0].content + '\\n\\n', messages[1:] %}
{%- endif %}
"""
    + _GEMMA_TURNS
)
GEMMA2 = (
    """
{{- bos_token }}
{%- set rest, first = messages, '' %}
{%- if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
"""
    + _GEMMA_TURNS
)

# Text stands behind calls and results; arguments must be mappings; results only behind calls.
GEMMA4 = """
{%- macro shown(value) %}
  {%- if value is string %}{{ '<|"|>' + value + '<|"|>' }}
  {%- elif value is mapping %}
    {{- '{' }}
    {%- for key, item in value | dictsort %}
      {{- key + ':' + shown(item) + ('' if loop.last else ',') }}
    {%- endfor %}
    {{- '}' }}
  {%- else %}{{ value | tojson }}
  {%- endif %}
{%- endmacro %}
{{- bos_token }}
{%- set rest, first = messages, '' %}
{%- if messages[0].role == 'system' %}
  {%- set first, rest = messages[0].content, messages[1:] %}
{%- endif %}
{%- if first or tools or enable_thinking %}
  {{- '<|turn>system\\n' + ('<|think|>\\n' if enable_thinking else '') + first }}
  {%- for tool in tools or [] %}{{ '<|tool>' + tool | tojson + '<tool|>' }}{% endfor %}
  {{- '<turn|>\\n' }}
{%- endif %}
{%- set ns = namespace(last=-1, before='', is_open=false) %}
{%- for m in rest %}
  {%- if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}
{%- endfor %}
{%- for m in rest %}
  {%- if m.role != 'tool' %}
    {%- set role = 'model' if m.role == 'assistant' else m.role %}
    {%- if not ns.is_open %}{{ '<|turn>' + role + '\\n' }}{% endif %}
    {%- set ns.is_open = false %}
    {%- set is_kept = loop.index0 > ns.last or (preserve_thinking and m.tool_calls) %}
    {%- if m.reasoning_content and is_kept %}
      {{- '<|channel>thought\\n' + m.reasoning_content + '\\n<channel|>' }}
    {%- endif %}
    {%- for call in m.tool_calls or [] %}
      {%- if call.function.arguments is not mapping %}
        {{- raise_exception('arguments must be a JSON object (mapping), not a string.') }}
      {%- endif %}
      {{- '<|tool_call>call:' + call.function.name + shown(call.function.arguments) }}
      {{- '<tool_call|>' }}
    {%- endfor %}
    {%- set scan = namespace(ends=false, results=0, next='') %}
    {%- for later in rest[loop.index:] %}
      {%- if scan.ends %}
      {%- elif later.role != 'tool' %}
        {%- set scan.ends, scan.next = true, later.role %}
      {%- elif m.tool_calls %}
        {{- '<|tool_response>response:' + later.name + '{value:' + shown(later.content) }}
        {{- '}<tool_response|>' }}
        {%- set scan.results = scan.results + 1 %}
      {%- endif %}
    {%- endfor %}
    {{- m.content | trim }}
    {%- if m.tool_calls and not scan.results %}{{ '<|tool_response>' }}
    {%- elif role == 'model' and scan.next == 'assistant' %}{% set ns.is_open = true %}
    {%- elif scan.next or m.content or not scan.results %}{{ '<turn|>\\n' }}
    {%- endif %}
    {%- set ns.before = 'results' if scan.results and not scan.next and not m.content else m.role %}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt and ns.before != 'results' %}
  {{- '<|turn>model\\n' + ('' if enable_thinking else '<|channel>thought\\n<channel|>') }}
{%- endif %}
"""

# Roles alternate, calls and results not counted; ids of nine characters; no text beside calls; the
# tools stand before the last question.
MISTRAL = """
{{- bos_token }}
{%- set rest, first = messages, '' %}
{%- if messages[0].role == 'system' %}
  {%- set first, rest = messages[0].content, messages[1:] %}
{%- endif %}
{{- '[SYSTEM_PROMPT]' + first + '[/SYSTEM_PROMPT]' }}
{%- set ns = namespace(count=0) %}
{%- set questions = rest | selectattr('role', 'equalto', 'user') | list %}
{%- for m in rest if m.role != 'tool' and not m.get('tool_calls') %}
  {%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}
    {{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
  {%- endif %}
{%- endfor %}
{%- for m in rest %}
  {%- set ids = m.tool_calls | default([]) | map(attribute='id') | list %}
  {%- for id in ids + ([m.tool_call_id] if m.role == 'tool' else []) %}
    {%- if id | length != 9 %}{{ raise_exception('Tool call IDs must have length 9!') }}{% endif %}
  {%- endfor %}
  {%- if m.role == 'user' %}
    {%- if tools and m == questions[-1] %}
      {{- '[AVAILABLE_TOOLS]' + tools | tojson + '[/AVAILABLE_TOOLS]' }}
    {%- endif %}
    {{- '[INST]' + m.content + '[/INST]' }}
  {%- elif m.role == 'tool' %}
    {{- '[TOOL_RESULTS]' + m.tool_call_id + '[TOOL_CONTENT]' + m.content + '[/TOOL_RESULTS]' }}
  {%- elif m.tool_calls %}
    {%- for call in m.tool_calls %}
      {{- '[TOOL_CALLS]' + call.function.name + '[CALL_ID]' + call.id + '[ARGS]' }}
      {{- call.function.arguments | tojson }}
    {%- endfor %}
    {{- eos_token }}
  {%- elif m.role == 'assistant' %}{{ m.content + eos_token }}
  {%- else %}{{ raise_exception('Only user, assistant and tool roles are supported!') }}
  {%- endif %}
{%- endfor %}
"""

# Takes everything where it stands; arguments must be mappings.
GLM = """
{{- '[gMASK]<sop>' }}
{%- if tools %}{{ '<|system|>\\n# Tools\\n' + tools | tojson }}{% endif %}
{%- set ns = namespace(last=-1) %}
{%- for m in messages %}
  {%- if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}
{%- endfor %}
{%- for m in messages %}
  {%- if m.role == 'tool' %}
    {%- if loop.first or loop.previtem.role != 'tool' %}{{ '<|observation|>' }}{% endif %}
    {{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
  {%- elif m.role == 'assistant' %}
    {%- set thinking = m.reasoning_content if loop.index0 > ns.last else '' %}
    {{- '<|assistant|>\\n<think>' + (thinking or '') + '</think>' }}
    {%- if m.content %}{{ '\\n' + m.content }}{% endif %}
    {%- for call in m.tool_calls or [] %}
      {{- '\\n<tool_call>' + call.function.name + '\\n' }}
      {%- for key, value in call.function.arguments.items() %}
        {{- '<arg_key>' + key + '</arg_key>\\n<arg_value>' }}
        {{- (value if value is string else value | tojson) + '</arg_value>\\n' }}
      {%- endfor %}
      {{- '</tool_call>' }}
    {%- endfor %}
  {%- else %}{{ '<|' + m.role + '|>\\n' + m.content }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
  {{- '<|assistant|>' + ('\\n<think></think>' if enable_thinking is false else '') }}
{%- endif %}
"""

# One call a turn, no text beside it; with tools, the first turn is taken for the user's.
LLAMA31 = """
{{- bos_token }}
{%- set rest, first = messages, '' %}
{%- if messages[0].role == 'system' %}
  {%- set first, rest = messages[0].content, messages[1:] %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' + first + '<|eot_id|>' }}
{%- if tools %}
  {%- if not rest %}{{ raise_exception('There is no first user message!') }}{% endif %}
  {{- '<|start_header_id|>user<|end_header_id|>\\n\\nGiven these functions, answer in JSON.\\n' }}
  {{- tools | tojson + '\\n' + rest[0].content + '<|eot_id|>' }}
  {%- set rest = rest[1:] %}
{%- endif %}
{%- for m in rest %}
  {%- if m.role == 'tool' %}
    {{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' + m.content | tojson + '<|eot_id|>' }}
  {%- elif m.tool_calls %}
    {%- if m.tool_calls | length != 1 %}
      {{- raise_exception('This model only supports single tool-calls at once!') }}
    {%- endif %}
    {%- set call = m.tool_calls[0].function %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + call.name }}
    {{- '", "parameters": ' + call.arguments | tojson + '}<|eot_id|>' }}
  {%- else %}
    {{- '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content + '<|eot_id|>' }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
  {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

# All systems stand at the beginning; arguments are text; calls only where the content is None.
DEEPSEEK = """
{%- set ns = namespace(first='', is_result=false) %}
{%- for m in messages if m.role == 'system' %}
  {%- set ns.first = ns.first + ('\\n\\n' if ns.first else '') + m.content %}
{%- endfor %}
{{- bos_token + ns.first }}
{%- for m in messages %}
  {%- if ns.is_result and m.role != 'tool' %}
    {{- '<｜tool▁outputs▁end｜>' }}
    {%- set ns.is_result = false %}
  {%- endif %}
  {%- if m.role == 'user' %}{{ '<｜User｜>' + m.content }}
  {%- elif m.role == 'assistant' and m.content is none %}
    {{- '<｜Assistant｜><｜tool▁calls▁begin｜>' }}
    {%- for call in m.tool_calls %}
      {{- '<｜tool▁call▁begin｜>function<｜tool▁sep｜>' + call.function.name + '\\n```json\\n' }}
      {{- call.function.arguments + '\\n```<｜tool▁call▁end｜>' }}
    {%- endfor %}
    {{- '<｜tool▁calls▁end｜><｜end▁of▁sentence｜>' }}
  {%- elif m.role == 'assistant' %}
    {{- '<｜Assistant｜>' + m.content.split('</think>')[-1] + '<｜end▁of▁sentence｜>' }}
  {%- elif m.role == 'tool' %}
    {{- '' if ns.is_result else '<｜tool▁outputs▁begin｜>' }}
    {%- set ns.is_result = true %}
    {{- '<｜tool▁output▁begin｜>' + m.content + '<｜tool▁output▁end｜>' }}
  {%- endif %}
{%- endfor %}
{%- if ns.is_result %}{{ '<｜tool▁outputs▁end｜>' }}{% endif %}
{%- if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %}
"""

TEMPLATES = {
    "chatml": CHATML,
    "deepseek": DEEPSEEK,
    "gemma2": GEMMA2,
    "gemma3": GEMMA3,
    "gemma4": GEMMA4,
    "glm": GLM,
    "gptoss": GPT_OSS,
    "llama31": LLAMA31,
    "mistral": MISTRAL,
    "nemotron": NEMOTRON,
    "qwen3": QWEN3,
    "qwen38": QWEN38,
    "qwen3coder": QWEN3_CODER,
}
