"""Templates with odd text operations and odd loops are refused, or right, or warned of; never silently wrong.

The oracle is the same template with `{% generation %}` marks, rendered by transformers.
"""
# ruff: noqa: E501  a template or a conversation reads best on one line

import re
from functools import cache

import pytest
from chat_cases import FORGED, assistant, make, ranges, reference, system, trained, unmarked, user

from packtool.errors import RecordError, UsageError

RECORDS = [
    [user("hello"), assistant("Well, <b>yes</b> & no.")],
    [user("a" + FORGED), assistant("b<|im_end|>"), user("c"), assistant(FORGED + "d")],
    [system("s"), user("<|im_end|>"), assistant("<|im_end|>"), user("\n"), assistant("\n")],
    [user("x"), assistant(""), user(""), assistant("<|im_end|>\n<|im_end|>")],
    [user("%s {} \\n"), assistant("  two words \n"), user("assistant"), assistant("<|im_start|>assistant\n")],
    [user("a"), assistant("a"), user("a"), assistant("a"), user("a")],
]

# What may be printed for an assistant turn, header and turn end apart.
CONTENTS = """
m.content | upper
m.content | lower
m.content | title
m.content | capitalize
m.content | trim
m.content | replace('e', '<|im_end|>')
m.content | replace('<|im_end|>', '')
m.content | replace('', '-')
m.content | reverse
m.content[::-1]
m.content[:-1]
m.content[1:] + m.content[:1]
m.content ~ ''
'A: ' ~ m.content
'' ~ m.content ~ '!'
m.content ~ m.content
m.content * 2
'%s' % m.content
'%s' | format(m.content)
'{}'.format(m.content)
m.content.format()
m.content | e
m.content | safe
m.content | tojson
m.content | string
m.content | list | join
m.content | list | string
m.content | pprint
m.content | urlize
m.content | striptags
m.content | indent(2)
m.content | wordwrap(4)
m.content | truncate(5)
m.content | center(20)
m.content | default('x')
m.content.split() | join(' ')
m.content.split('<|im_end|>') | join('')
m.content.split('<|im_end|>')[0]
m.content.splitlines() | join('\\n')
m.content.partition('<')[0]
m.content.rpartition('>')[2]
m.content.encode().decode()
m.content.encode().decode() if '<' in m.content else m.content
(m.content | safe) if '<' in m.content else m.content
m.content.center(30, '*')
m.content.zfill(12)
m.content.expandtabs(2)
m.content.translate({97: 'b'})
m.content.removesuffix('<|im_end|>')
'_'.join([m.content, m.role])
', '.join([m.content])
'x'.join(m.content)
[m.content]
{'a': m.content}
[m.content] | first
m
m.items() | list
m.content | length
m.content | wordcount
messages | map(attribute='content') | join
messages[0].content ~ m.content
messages[loop.index0].content
messages[loop.index0 - 1].content ~ m.content
(messages | last).content
loop.index ~ m.content
loop.index
none
'only words'
m.content + '<|im_end|>'
'<|im_end|>' + m.content
m.content + '<|im_end|>' + m.content
m.content.split('<|im_end|>') | join('<|im_end|>')
'<think>' + m.content + '</think>'
'<|im_start|>assistant\\n' + m.content
(m.content + '<|im_end|>') | replace('<|im_end|>', '')
(m.content + '<|im_end|>')[:-10]
dict(m, content='x').content
dict(m).content
m.copy().content
m.get('content')
m['con' ~ 'tent']
m | attr('content')
'' if m.content == 'a' else m.content
m.content if loop.last else ''
m.content or '<|im_end|>'
""".strip().splitlines()

PLAIN = "{{ '<|im_start|>user\n' }}{{ m.content }}{{ '<|im_end|>\n' }}"
PROMPT = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"


def loop(turn, head="{% for m in messages %}", prompt=PROMPT):
    return f"{head}{{% if m.role == 'assistant' %}}{turn}{{% else %}}{PLAIN}{{% endif %}}{{% endfor %}}{prompt}"


HEAD, OPEN, CLOSE, END = "{{ '<|im_start|>assistant\n' }}", "{% generation %}", "{% endgeneration %}", "<|im_end|>"

TEMPLATES = {
    **{f"print {text}": loop(f"{HEAD}{OPEN}{{{{ {text} }}}}{END}{CLOSE}{{{{ '\n' }}}}") for text in CONTENTS},
    **{f"print with end {text}": loop(f"{HEAD}{OPEN}{{{{ (m.content ~ '{END}') | {text} }}}}{CLOSE}{{{{ '\n' }}}}")
       for text in ("upper", "safe", "e", "string", "trim", "list | join", "reverse", "indent", "tojson", "format", "replace('a', 'b')")},
    "no turn end": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{CLOSE}{{{{ '\n' }}}}"),
    "two turn ends": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{END}{CLOSE}"),
    "two turn ends apart": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}\n{END}{CLOSE}"),
    "two kinds of end": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}</s>{END}{CLOSE}"),
    "answer mark before the end": loop(f"{HEAD}{OPEN}<answer>{{{{ m.content }}}}</answer>{END}{CLOSE}"),
    "end only sometimes": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{{% if not loop.last %}}{END}{{% endif %}}{CLOSE}"),
    "end after the last only": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{{% if loop.last %}}{END}{{% endif %}}{CLOSE}"),
    "end by content": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{{% if '{END}' not in m.content %}}{END}{{% endif %}}{CLOSE}"),
    "two ends by content": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{{% if '<' in m.content %}}{END}{{% endif %}}{CLOSE}"),
    "end lost by content": loop(f"{HEAD}{OPEN}{{% if '<' in m.content %}}{{{{ (m.content ~ '{END}') | safe }}}}{{% else %}}{{{{ m.content }}}}{END}{{% endif %}}{CLOSE}{{{{ '\n' }}}}"),
    "header lost by content": loop(f"{{% if '<' in m.content %}}{{{{ ('<|im_start|>assistant\n' ~ '') | safe }}}}{{% else %}}{HEAD}{{% endif %}}{OPEN}{{{{ m.content }}}}{END}{CLOSE}"),
    "content lost by content": loop(f"{HEAD}{OPEN}{{% if '<' in m.content %}}{{{{ m.content | safe }}}}{{% else %}}{{{{ m.content }}}}{{% endif %}}{END}{CLOSE}{{{{ '\n' }}}}"),
    "other header": loop(f"{{{{ '<|im_start|>bot\n' }}}}{OPEN}{{{{ m.content }}}}{END}{CLOSE}"),
    "other header by content": loop(f"{{{{ '<|im_start|>bot\n' if '<' in m.content else '<|im_start|>assistant\n' }}}}{OPEN}{{{{ m.content }}}}{END}{CLOSE}"),
    "no header by content": loop(f"{{{{ '' if '<' in m.content else '<|im_start|>assistant\n' }}}}{OPEN}{{{{ m.content }}}}{END}{CLOSE}"),
    "header twice by content": loop(f"{HEAD}{{% if '<' in m.content %}}{{{{ '{END}\n<|im_start|>assistant\n' }}}}{{% endif %}}{OPEN}{{{{ m.content }}}}{END}{CLOSE}"),
    "content printed before too": loop(f"{{{{ m.content }}}}{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}"),
    "content printed after too": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}{{{{ m.content }}}}"),
    "content printed after too by content": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}{{% if '<' in m.content %}}{{{{ m.content }}}}{{% endif %}}"),
    "index loop": "{% for i in range(messages | length) %}{% set m = messages[i] %}" + loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}", ""),
    "slice": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}", "{% for m in messages[0:] %}"),
    "filtered": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}", "{% for m in messages if m.role != 'system' %}"),
    "reversed": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}", "{% for m in messages | reverse %}"),
    "reversed twice": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}", "{% for m in messages[::-1][::-1] %}"),
    "by role": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}", "{% for m in messages | selectattr('role', 'in', ['user', 'assistant']) %}"),
    "sorted": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}", "{% for m in messages | sort(attribute='content') %}"),
    "batched": "{% for pair in messages | batch(2) %}" + loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}", "{% for m in pair %}").replace("{% endfor %}", "{% endfor %}{% endfor %}", 1),
    "pairs": "{% for pair in messages | batch(2) %}{{ '<|im_start|>user\n' ~ pair[0].content ~ '<|im_end|>\n' }}{% if pair[1] %}" + f"{HEAD}{OPEN}{{{{ pair[1].content }}}}{END}{CLOSE}{{% endif %}}{{% endfor %}}{PROMPT}",
    "looking ahead": "{% for m in messages %}{% if m.role == 'user' %}{{ '<|im_start|>user\n' ~ m.content ~ '<|im_end|>\n' }}{% if not loop.last %}" + f"{HEAD}{OPEN}{{{{ loop.nextitem.content }}}}{END}{CLOSE}{{% endif %}}{{% endif %}}{{% endfor %}}{PROMPT}",
    "all printed twice": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}").replace(PROMPT, "") * 2 + PROMPT,
    "captured": f"{{% set all %}}{loop(f'{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}')}{{% endset %}}{{{{ all }}}}",
    "captured and trimmed": f"{{% set all %}}\n {loop(f'{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}', prompt='')}\n {{% endset %}}{{{{ all | trim }}}}{PROMPT}",
    "captured and cut": f"{{% set all %}}{loop(f'{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}')}{{% endset %}}{{{{ all[3:] }}}}",
    "captured and printed twice": f"{{% set all %}}{loop(f'{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}')}{{% endset %}}{{{{ all ~ all }}}}",
    "gathered": "{% set ns = namespace(all='') %}{% for m in messages %}{% set ns.all = ns.all ~ '<|im_start|>' ~ m.role ~ '\n' ~ m.content ~ '<|im_end|>\n' %}{% endfor %}{{ ns.all }}" + PROMPT,
    "macro": "{% macro say(text) %}{{ text }}{% endmacro %}" + loop(f"{HEAD}{OPEN}{{{{ say(m.content) }}}}{END}{CLOSE}"),
    "call block": "{% macro say() %}{{ caller() }}{% endmacro %}" + loop(f"{HEAD}{OPEN}{{% call say() %}}{{{{ m.content }}}}{{% endcall %}}{END}{CLOSE}"),
    "filter block": loop(f"{HEAD}{OPEN}{{% filter upper %}}{{{{ m.content }}}}{{% endfilter %}}{END}{CLOSE}"),
    "set block": loop(f"{HEAD}{OPEN}{{% set body %}}{{{{ m.content }}}}{{% endset %}}{{{{ body }}}}{END}{CLOSE}"),
    "set block with filter": loop(f"{HEAD}{OPEN}{{% set body | trim %}}{{{{ m.content }}}}{{% endset %}}{{{{ body }}}}{END}{CLOSE}"),
    "namespace": "{% set ns = namespace(body='') %}" + loop(f"{HEAD}{OPEN}{{% set ns.body = m.content %}}{{{{ ns.body }}}}{END}{CLOSE}"),
    "namespace of before": "{% set ns = namespace(body='') %}" + loop(f"{HEAD}{OPEN}{{{{ ns.body }}}}{{{{ m.content }}}}{END}{CLOSE}{{% set ns.body = m.content %}}"),
    "letters": loop(f"{HEAD}{OPEN}{{% for c in m.content %}}{{{{ c }}}}{{% endfor %}}{END}{CLOSE}"),
    "words": loop(f"{HEAD}{OPEN}{{% for w in m.content.split(' ') %}}{{{{ w }}}}{{{{ ' ' if not loop.last }}}}{{% endfor %}}{END}{CLOSE}"),
    "inner loop over all": loop(f"{HEAD}{OPEN}{{% for other in messages %}}{{% if other.content == m.content %}}{{{{ other.content }}}}{{% break %}}{{% endif %}}{{% endfor %}}{END}{CLOSE}"),
    "inner loop over itself": loop(f"{HEAD}{OPEN}{{% for same in [m] %}}{{{{ same.content }}}}{{% endfor %}}{END}{CLOSE}"),
    "blanks in a first loop": "{% for m in messages %} {% endfor %}" + loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}"),
    "words in a first loop": "{% for m in messages %}{{ m.role }} {% endfor %}" + loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}"),
    "continue": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}{{% continue %}}"),
    "recursive": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}", "{% for m in messages recursive %}"),
    "number in the header": loop(f"{{{{ '<|im_start|>assistant ' ~ loop.index ~ '\n' }}}}{OPEN}{{{{ m.content }}}}{END}{CLOSE}"),
    "turn end in the next turn": "{% for m in messages %}{% if not loop.first %}<|im_end|>\n{% endif %}{{ '<|im_start|>' ~ m.role ~ '\n' }}" + f"{OPEN}{{{{ m.content }}}}{CLOSE}{{% endfor %}}",
    "prompt with more": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}").replace("<|im_start|>assistant\n' }}{% endif", "<|im_start|>assistant\nSure: ' }}{% endif"),
    "prompt of another kind": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}").replace("<|im_start|>assistant\n' }}{% endif", "<|im_start|>assistant: ' }}{% endif"),
    "prompt set apart": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}").replace("{{ '<|im_start|>assistant\n' }}{% endif", "{{ '[go]<|im_start|>assistant\n' }}{% endif"),
    "data in the turn end": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{{{{ '<|' ~ (m.end or 'im_end') ~ '|>' }}}}{CLOSE}"),
    "other words after the end": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE} so it was"),
    "number after the end": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}{{{{ loop.index if '<' in m.content }}}}"),
    "quoting the last": loop(f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}", "{{ messages[-1].content }}{% for m in messages %}"),
}  # fmt: skip

# transformers counts a block inside a captured text from where the capture is printed; the marks' true places are ours.
CAPTURED = {"captured", "captured and trimmed", "captured and cut", "captured and printed twice", "recursive"}


@cache
def made(source, turn_end=""):
    """The template, or UsageError itself: most of the time goes into compiling."""
    try:
        return make(source, turn_end=turn_end)
    except UsageError as error:
        return error


def verdict(source, messages, *, captured=False, turn_end=""):
    expected = reference(source, messages)
    if isinstance(expected, Exception):
        return "raises"
    if captured:
        expected = expected[0], ranges(made(source).render(messages))
    template = made(unmarked(source), turn_end)
    if isinstance(template, UsageError):
        return "template refused"
    try:
        chat = template.render(messages)
    except RecordError:
        return "record refused"
    assert chat.text == expected[0]
    if ranges(chat) == expected[1]:
        return "right"
    return f"warned: {chat.warnings}" if chat.warnings else "silently wrong"


@cache
def verdicts(name):
    return [verdict(TEMPLATES[name], messages, captured=name in CAPTURED) for messages in RECORDS]


@pytest.mark.parametrize("name", TEMPLATES)
def test_hostile_template_is_never_silently_wrong(name):
    assert "silently wrong" not in verdicts(name)


def test_many_of_them_are_right():
    right = sum(verdicts(name).count("right") for name in TEMPLATES)
    assert right > len(TEMPLATES) * len(RECORDS) // 3


# What a loop over indices may do before and around the turn; `m` is printed.
SETS = {
    "plain": "{% set m = messages[i] %}",
    "loop.index0": "{% set m = messages[loop.index0] %}",
    "parenthesised": "{% set m = (messages)[(i)] %}",
    "after other sets": "{% set n = i + 1 %}{% set role = messages[i].role %}{% set m = messages[i] %}",
    "twice": "{% set m = messages[i] %}{% set m = messages[i] %}",
    "under two names": "{% set x = messages[i] %}{% set m = x %}",
    "copied": "{% set x = messages[i] %}{% set m = dict(x) %}",
    "looking ahead": "{% set m = messages[i] %}{% set next = messages[i + 1] %}{% if next and next.role == 'user' %}{% endif %}",
    "looking back": "{% set before = messages[i - 1] %}{% set m = messages[i] %}",
    "the one before": "{% set m = messages[i - 1] %}",
    "the one after": "{% set m = messages[i + 1] or messages[0] %}",
    "the one before, the index set": "{% set i = i - 1 %}{% set m = messages[i] %}",
    "the one before, set apart": "{% set x = messages[i] %}{% set m = messages[i - 1] %}",
    "the next, set over it": "{% set m = messages[i] %}{% set m = messages[i + 1] or messages[0] %}",
    "another, set over it": "{% set m = messages[i] %}{% set m = messages[::-1][i] %}",
    "another, set before": "{% set x = messages[::-1][i] %}{% set m = messages[i] %}",
    "another, by content": "{% set m = messages[i] %}{% if '<' in m.content %}{% set m = messages[::-1][i] %}{% endif %}",
    "another index, by content": "{% set m = messages[i] %}{% if '<' in m.content %}{% set m = messages[0] %}{% endif %}",
    "the last": "{% set m = messages[-1] %}",
    "of the reverse": "{% set m = messages[::-1][i] %}",
    "of a part": "{% set m = messages[1:][i] or messages[0] %}",
    "of a sorted list": "{% set m = (messages | sort(attribute='content'))[i] %}",
    "of a made list": "{% set m = [messages[i]][0] %}",
    "of a made message": "{% set m = [{'role': messages[i].role, 'content': messages[i].content}][0] %}",
    "in an if": "{% if i >= 0 %}{% set m = messages[i] %}{% endif %}",
    "in one branch": "{% set m = messages[0] %}{% if i > 0 %}{% set m = messages[i] %}{% endif %}",
    "in one branch, by role": "{% set m = messages[i] if messages[i].role == 'user' else messages[i] %}",
    "in the branch of the user only": "{% if messages[i].role == 'user' %}{% set m = messages[i] %}{% else %}{% set m = messages[i:][0] %}{% endif %}",
    "namespace": "{% set ns = namespace(m=none) %}{% set ns.m = messages[i] %}{% set m = ns.m %}",
    "tuple": "{% set m, n = messages[i], i %}",
    "with": "{% with %}{% set m = messages[i] %}{% endwith %}{% set m = messages[i] %}",
    "in a set block": "{% set head %}{% set m = messages[i] %}{{ m.role }}{% endset %}{% set m = messages[i:][0] %}",
    "in a set block, printed": "{% set head %}{% set m = messages[i] %}{% endset %}{{ head }}{% set m = messages[i:][0] %}",
    "in a macro": "{% macro get() %}{% set m = messages[i] %}{% endmacro %}{{ get() }}{% set m = messages[i:][0] %}",
    "in an inner loop": "{% for j in [i] %}{% set m = messages[j] %}{% endfor %}{% set m = messages[i:][0] %}",
    "in an inner loop that hides the index": "{% for i in [0] %}{% set m = messages[i] %}{% endfor %}{% set m = messages[i:][0] %}",
    "by the outer index in an inner loop": "{% for j in [0] %}{% set m = messages[i] %}{% endfor %}{% set m = messages[i:][0] %}",
    "after an inner loop over all": "{% for j in range(messages | length) %}{% set x = messages[j] %}{% endfor %}{% set m = messages[i] %}",
    "after words in an inner loop over all": "{% for j in range(messages | length) %}{% set x = messages[j] %}{{ x.role }} {% endfor %}{% set m = messages[i] %}",
    "after the content": "{{ messages[i].content }}{% set m = messages[i] %}",
    "after the content before": "{% if i %}{{ messages[i - 1].content }}{% endif %}{% set m = messages[i] %}",
    "after words": "so: {% set m = messages[i] %}",
    "after the turn end before": "{{ '<|im_end|>' if i }}{% set m = messages[i] %}",
    "skipping": "{% if i % 2 %}{% continue %}{% endif %}{% set m = messages[i] %}",
    "stopping": "{% set m = messages[i] %}{% if i > 2 %}{% break %}{% endif %}",
}  # fmt: skip
HEADS = {
    "all": "{% for i in range(messages | length) %}",
    "from the end": "{% for i in range(messages | length - 1, -1, -1) %}",
    "negative": "{% for i in range(-(messages | length), 0) %}",
    "every other": "{% for i in range(0, messages | length, 2) %}",
    "each twice": "{% for k in range(2) %}{% for i in range(messages | length) %}",
    "in a loop over the messages": "{% for outer in messages[:1] %}{% for i in range(messages | length) %}",
    "beside a loop over the messages": "{% for outer in messages %}{% endfor %}{% for i in range(messages | length) %}",
    "over pairs": "{% for i, x in dict.fromkeys(range(messages | length)).items() %}",
    "over roles": "{% for i in messages | map(attribute='role') %}",
}
TURNS = {
    "the message": f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}{{{{ '\n' }}}}",
    "the message and the next": f"{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}{{{{ '\n' ~ messages[i + 1].content if messages[i + 1] else '' }}}}",
    "the message, without set": f"{HEAD}{OPEN}{{{{ messages[i].content }}}}{END}{CLOSE}{{{{ '\n' }}}}",
    "the next": f"{HEAD}{OPEN}{{{{ messages[i + 1].content }}}}{END}{CLOSE}{{{{ '\n' }}}}",
    "the next where this is empty": f"{HEAD}{OPEN}{{{{ m.content or messages[i - 1].content }}}}{END}{CLOSE}{{{{ '\n' }}}}",
    "nothing by content": f"{{% if m.content != 'a' %}}{HEAD}{OPEN}{{{{ m.content }}}}{END}{CLOSE}{{% endif %}}{{{{ '\n' }}}}",
    "the end by content": f"{HEAD}{OPEN}{{{{ m.content }}}}{{% if '<' not in m.content %}}{END}{{% endif %}}{CLOSE}{{{{ '\n' }}}}",
}  # fmt: skip


def by_index(head, before, turn):
    ends = HEADS[head].count("{% for") - HEADS[head].count("{% endfor")
    return loop(TURNS[turn], HEADS[head] + SETS[before]).replace(PROMPT, "{% endfor %}" * (ends - 1) + PROMPT)


BY_INDEX = {
    **{f"set {name}": by_index("all", name, "the message") for name in SETS},
    **{f"set {name}, the end by content": by_index("all", name, "the end by content") for name in SETS},
    **{f"loop {name}": by_index(name, "plain", "the message") for name in HEADS},
    **{f"loop.index0 {name}": by_index(name, "loop.index0", "the message") for name in HEADS},
    **{f"turn {name}": by_index("all", "plain", name) for name in TURNS},
    **{f"turn {name}, another set": by_index("all", "another, by content", name) for name in TURNS},
}


@cache
def verdicts_by_index(name):
    return [verdict(BY_INDEX[name], messages) for messages in RECORDS]


@pytest.mark.parametrize("name", BY_INDEX)
def test_a_loop_over_indices_is_never_silently_wrong(name):
    assert "silently wrong" not in verdicts_by_index(name)


RIGHT = ["set plain", "set loop.index0", "set parenthesised", "set after other sets", "set twice", "set under two names",
         "set looking ahead", "set looking back", "set in an if", "set after an inner loop over all",
         "loop all", "loop negative", "loop over pairs", "loop in a loop over the messages", "loop beside a loop over the messages"]  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_a_loop_over_indices_is_right(name):
    assert set(verdicts_by_index(name)) == {"right"}


def with_end(source, end):
    """The template with another turn end, printed so that no block trims it, and told from what follows the marks."""
    parts = re.split(
        r"({{.*?}}|{%.*?%})", source.replace(f"{CLOSE}{{{{ '\n' }}}}", f"{CLOSE}{{{{ '\t' }}}}"), flags=re.S
    )
    parts[::2] = [text.replace("<|im_end|>", f"{{{{ '{end}' }}}}") for text in parts[::2]]
    return "".join(parts).replace("<|im_end|>", end)


# With a turn end of one's own, what ends a turn is ordinary text, which data is full of.
@cache
def verdicts_with_end(name, end):
    source = with_end((TEMPLATES | BY_INDEX)[name], end)
    records = [[{**m, "content": m["content"].replace("<|im_end|>", end)} for m in messages] for messages in RECORDS]
    return [verdict(source, messages, captured=name in CAPTURED, turn_end=end) for messages in records]


@pytest.mark.parametrize("end", ["###", "\n", "a"])
@pytest.mark.parametrize("name", [*TEMPLATES, *BY_INDEX])
def test_a_given_turn_end_is_never_silently_wrong(name, end):
    assert "silently wrong" not in verdicts_with_end(name, end)


@pytest.mark.parametrize("end", ["###", "<stop>"])
def test_many_with_a_given_turn_end_are_right(end):
    right = sum(verdicts_with_end(name, end).count("right") for name in TEMPLATES)
    assert right > len(TEMPLATES) * len(RECORDS) // 4


def test_what_a_trimmed_generation_prompt_does_not_give_is_trained():
    source = f"{{% set all %}}{loop(f'{HEAD}{{{{ m.content }}}}{END}')}{{% endset %}}{{{{ all | trim }}}}"
    assert make(source).generation_prompt == "<|im_start|>assistant"
    assert trained(make(source).render([user("a"), assistant("b")])) == ["\nb<|im_end|>"]


def test_captured_blocks_are_found_where_they_land():
    chat = make(TEMPLATES["captured and trimmed"]).render([user("a"), assistant("b")])
    assert trained(chat) == ["b<|im_end|>"]
