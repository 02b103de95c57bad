"""Templates with odd text operations and odd loops are refused, or right, or warned of; never silently wrong.

The oracle is the same template with `{% generation %}` marks, rendered by transformers.
"""
# ruff: noqa: E501  a template or a conversation reads best on one line

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


def verdict(name, messages):
    source = TEMPLATES[name]
    expected = reference(source, messages)
    if name in CAPTURED:
        expected = expected[0], ranges(make(source).render(messages))
    try:
        chat = make(unmarked(source)).render(messages)
    except UsageError:
        return "template refused"
    except RecordError:
        return "record refused"
    assert chat.text == expected[0]
    if ranges(chat) == expected[1]:
        return "right"
    return f"warned: {chat.warnings}" if chat.warnings else "silently wrong"


@cache
def verdicts(name):
    return [verdict(name, messages) for messages in RECORDS]


@pytest.mark.parametrize("name", TEMPLATES)
def test_hostile_template_is_never_silently_wrong(name):
    assert "silently wrong" not in verdicts(name)


def test_many_of_them_are_right():
    right = sum(verdicts(name).count("right") for name in TEMPLATES)
    assert right > len(TEMPLATES) * len(RECORDS) // 3


def test_what_a_trimmed_generation_prompt_does_not_give_is_trained():
    source = f"{{% set all %}}{loop(f'{HEAD}{{{{ m.content }}}}{END}')}{{% endset %}}{{{{ all | trim }}}}"
    assert make(source).generation_prompt == "<|im_start|>assistant"
    assert trained(make(source).render([user("a"), assistant("b")])) == ["\nb<|im_end|>"]


def test_captured_blocks_are_found_where_they_land():
    chat = make(TEMPLATES["captured and trimmed"]).render([user("a"), assistant("b")])
    assert trained(chat) == ["b<|im_end|>"]
