"""The text is what transformers renders, to the byte, or both refuse."""
# ruff: noqa: E501  a template or a conversation reads best on one line

from datetime import datetime

import pytest
from chat_cases import (
    CONVERSATIONS,
    NAMES,
    SHARED_NAMES,
    SPECIAL,
    assistant,
    make,
    marked,
    plain,
    reference,
    shared,
    system,
    unmarked,
    user,
    with_marks,
)
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from packtool.errors import RecordError, UsageError


def same(template, source, messages, tools, special=SPECIAL, **arguments):
    expected = reference(source, messages, tools, special, **arguments)
    if isinstance(expected, Exception):
        with pytest.raises(RecordError):
            template.render(messages, tools)
        return
    try:
        chat = template.render(messages, tools)
    except RecordError as error:
        # Spans may be refused where text is not; never because the template raised.
        assert "raised" not in error.message  # noqa: PT017
        return
    assert chat.text == expected[0]


@pytest.mark.parametrize("case", CONVERSATIONS)
@pytest.mark.parametrize("name", [*NAMES, "built-in"])
def test_text_equals_transformers(name, case):
    messages, tools = CONVERSATIONS[case]
    same(with_marks(name), marked(name), messages, tools)
    same(make(unmarked(marked(name))) if name == "built-in" else plain(name), unmarked(marked(name)), messages, tools)


@pytest.mark.shared
@pytest.mark.parametrize("case", CONVERSATIONS)
@pytest.mark.parametrize("name", SHARED_NAMES)
def test_text_equals_transformers_on_real_templates(name, case):
    source, added, special = shared(name)
    messages, tools = CONVERSATIONS[case]
    same(make(source, name, added, special), source, messages, tools, special)


def test_text_equals_apply_chat_template_of_a_tokenizer():
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel({"[unk]": 0}, unk_token="[unk]")), bos_token="<s>", eos_token="</s>"
    )
    for name in NAMES:
        for case, (messages, tools) in CONVERSATIONS.items():
            try:
                text = tokenizer.apply_chat_template(
                    messages, tools, chat_template=unmarked(marked(name)), tokenize=False
                )
            except Exception:
                continue
            try:
                chat = plain(name).render(messages, tools)
            except RecordError as error:
                assert "raised" not in error.message, (name, case)  # noqa: PT017
                continue
            assert chat.text == text, (name, case)


ODDITIES = [
    "{{ messages | tojson(indent=2, sort_keys=true) }}",
    "{{ {'b': '<&>', 'a': messages[0].content} | tojson(ensure_ascii=true, separators=(',', ':')) }}",
    "{{ dict(a=1, b=messages[0].content) }}{{ dict.fromkeys(['x'], messages[0].content) }}",
    "{% set ns = namespace(self='x', n=0) %}{% for m in messages %}{% set ns.n = ns.n + loop.index %}{% endfor %}{{ ns.n ~ ns.self }}",
    "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.content }}{% break %}{% endfor %}",
    "{% for m in messages recursive %}{{ m.content }}{% else %}none{% endfor %}",
    "{{ messages }}{{ messages[0] }}{{ messages[0].items() | list }}",
    "{{ messages[0].content | safe + '<&>' }}{{ '<b>' | safe ~ messages[0].content }}{{ messages[0].content | e }}",
    "{{ '%s and %s' % (messages[0].content, messages[1].role) }}{{ '%s|%5s|' | format(messages[0].content, 'x') }}",
    "{{ '{} {x!r:>9}'.format(messages[0].content, x=messages[1].role) }}{{ messages[0].content.format(1, x=2) }}",
    "{{ '{a}'.format_map({'a': messages[0].content}) }}",
    "{{ messages[0].content.split() }}{{ messages[0].content.rsplit(' ', 1) }}{{ messages[0].content.splitlines(true) }}",
    "{{ messages[0].content.partition('l') }}{{ messages[0].content.rpartition('l')[2] }}{{ messages[0].content.splitlines()[0] }}",
    "{{ messages[0].content.center(30, '*') }}{{ messages[0].content.zfill(30) }}{{ messages[0].content.expandtabs(3) }}",
    "{{ messages[0].content[::-1] }}{{ messages[0].content[2] }}{{ messages[0].content[-1] }}{{ messages[0].content[1:-1] }}",
    "{{ messages[0].content * 3 }}{{ 2 * messages[0].content }}{{ messages[0].content | reverse }}{{ messages[0].content | list }}",
    "{{ messages | map(attribute='content') | join(', ') }}{{ messages | join('-', attribute='role') }}{{ '<>' | join('|') }}",
    "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }}{{ messages | groupby('role') | length }}",
    "{{ '_'.join(['a', messages[0].content]) }}{{ messages[0].content.join(['a', 'b']) }}{{ [1, messages[0].content] | join }}",
    "{{ messages[0].content | upper | lower | title | capitalize }}{{ messages[0].content.swapcase() }}{{ messages[0].content.casefold() }}",
    "{{ messages[0].content | replace('l', messages[1].role) | replace('', '.') | truncate(9) }}{{ messages[0].content | wordcount }}",
    "{{ messages[0].content | indent(2, true) | wordwrap(5) | trim }}{{ messages[0].content | center(20) | urlencode }}",
    "{{ messages[0].content.replace('lo', 'LO', 1).removeprefix('he').removesuffix('d') }}{{ messages[0].content.encode() }}",
    "{{ messages[0].content.startswith('he') }}{{ 'l' in messages[0].content }}{{ messages[0].content == 'hello world' }}",
    "{{ {'user': 'U', 'assistant': 'A'}[messages[0].role] }}{{ ['x', 'y'][0] }}{{ ('p', 'q') | join }}{{ {'k': ['v']} }}",
    "{{ messages[0].nothing }}{{ messages[0].nothing is defined }}{{ nothing | default('d') }}{{ messages[0].get('role', 'x') }}",
    "{% macro f(x, y='z') %}[{{ x }}{{ y }}{{ varargs }}{{ caller() if caller }}]{% endmacro %}{{ f(1) }}{% call f(messages[0].content, 'q', 3) %}c{% endcall %}",
    "{% set x %}a{{ messages[0].content }}b{% endset %}{{ x | length }}{{ x }}{% filter upper %}{{ x }}{% endfilter %}",
    "{% with a = messages[0].content %}{{ a }}{% endwith %}{% set a, b = messages[0].content, 'k' %}{{ b ~ a }}",
    "  {% if true %}\n  x\n  {% endif %}\n{# c #}\n{{ 1.5 }}{{ 3 // 2 }}{{ none }}{{ true }}{{ [1, 'a', none] }}",
    "{% for a, b in [('x', messages[0]), ('y', messages[1])] %}{{ a ~ b.content }}{{ loop.cycle('o', 'e') }}{% endfor %}",
    "{% for k, v in messages[0] | dictsort %}{{ k }}={{ v }};{% endfor %}{% for k in messages[0] %}{{ k }}{% endfor %}",
    "{% for c in messages[0].content %}{{ c }}.{% endfor %}{% for w in messages[0].content | batch(3) %}{{ w | join }}/{% endfor %}",
    "{% block b %}{{ messages[0].content }}{% endblock %}{{ self.b() }}",
    "{% set j = joiner('; ') %}{% for m in messages %}{{ j() }}{{ m.role }}{% endfor %}{{ cycler('a', 'b').next() }}",
    "{{ bos_token + eos_token ~ pad_token }}{{ sep_token is defined }}{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}",
]  # fmt: skip


@pytest.mark.parametrize("oddity", ODDITIES)
def test_odd_operations_render_as_in_transformers(oddity):
    frame = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}{% endfor %}"
    source = oddity + frame
    messages = [user("hello world"), assistant("x{}<&>")]
    chat = make(source).render(messages)
    text, _ = reference(source, messages)
    assert chat.text == text
    assert type(chat.text) is str


def test_arguments_override_special_tokens_and_reach_the_template():
    source = "{{ bos_token }}{{ who.name }}" + marked("chatml")
    chat = make(source, arguments={"bos_token": "<<", "who": {"name": "me"}}).render([user("a"), assistant("b")])
    assert chat.text.startswith("<<me<|im_start|>")


def test_strftime_now_is_there():
    source = "{{ strftime_now('%Y') }}" + marked("chatml")
    chat = make(source).render([system("s"), user("a"), assistant("b")])
    assert chat.text[:2] == "20"
    assert chat.template[0][0] == 0


def test_strftime_now_tells_the_date_that_is_given():
    source = "{{ strftime_now('%d %b %Y, %H:%M:%S|') }}" + marked("chatml")
    template = make(source, now=datetime(2024, 7, 5, 13, 4, 59))
    assert template.render([user("a"), assistant("b")]).text.startswith("05 Jul 2024, 13:04:59|<|im_start|>")
    assert template.uses_date
    assert make("{{ strftime_now is defined }}" + marked("chatml")).uses_date
    assert not make(marked("chatml")).uses_date


def test_a_date_written_as_data_says_is_data():
    source = "{{ strftime_now(messages[0].content) }}" + marked("chatml")
    assert make(source).render([user("<|im_end|>"), assistant("b")]).template[0][0] == 10
    source = "{{ strftime_now('<' ~ '%%>') }}" + marked("chatml")
    assert make(source).render([user("<|im_end|>"), assistant("b")]).template[0][0] == 0


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("{{ messages | random }}", "random"),
        ("{% filter random %}ab{% endfilter %}", "random"),
        ("{{ lipsum() }}", "lipsum"),
    ],
)
def test_what_would_make_every_run_differ_is_refused(text, name):
    with pytest.raises(UsageError) as caught:
        make(marked("chatml") + "\n" + text, "their.jinja")
    line = marked("chatml").count("\n") + 2
    assert caught.value.message == (
        f"chat template `their.jinja` does not compile: line {line}: uses `{name}`, which would make every run differ"
    )


def test_random_is_not_found_by_its_name_either():
    with pytest.raises(RecordError, match="No filter named 'random'"):
        make("{{ [messages] | map('random') | list }}" + marked("chatml")).render([user("a"), assistant("b")])
    assert make("{% set random = 1 %}" + marked("chatml")).has_marks


def test_other_objects_show_as_their_type_as_in_transformers():
    class Thing:
        pass

    messages = [user("a"), assistant("b", extra=Thing(), pair=("x", 1), flag=True, rate=0.5)]
    source = marked("chatml") + "{{ messages[1].extra ~ messages[1].pair ~ messages[1].flag ~ messages[1].rate }}"
    assert make(source).render(messages).text == reference(source, messages)[0]


def test_messages_and_tools_are_not_changed():
    for messages, tools in CONVERSATIONS.values():
        before = repr((messages, tools))
        try:
            with_marks("thinking").render(messages, tools)
        except RecordError:
            continue
        assert repr((messages, tools)) == before
