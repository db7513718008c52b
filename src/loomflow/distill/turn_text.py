"""A turn as the guards look at it: its words, and which parts are not the speaker's own or not meant."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, zip_longest

import regex

from loomflow.items import Origin

from . import orders
from .statements import Said
from .tables import alternatives, words

_MAX_DEPTH = 16
_MIN_QUOTED_WORDS = 3
_SIGNS = {
    0x37E: "?",
    0x61F: "?",
    0x60C: ",",
    0x61B: ";",
    0x55E: "?",
    0x1367: "?",
    0x2019: "'",
    0x2BC: "'",
    0x2010: "-",
    0x2011: "-",
    0x2028: "\n",
}
INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_GREEK_QUESTION = re.compile(r"(?<=[\u0370-\u03ff]);")
_SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
WORD = regex.compile(rf"[{_SPACELESS}]\p{{M}}*|[[\p{{L}}\p{{N}}\p{{M}}]--[{_SPACELESS}]]+", regex.VERSION1)
_MARKS = re.compile("[\"'`‘“”„«»‹›「」『』]|\n[ \t]*\n|```|~~~")
_CLOSED_BY = {"“": "”", "„": "“”", "‘": "'", "«": "»", "»": "«", "‹": "›", "›": "‹", "「": "」", "『": "』"}
_FENCE = re.compile(r"^[ \t]{0,8}(```|~~~)", re.MULTILINE)
_STORY = alternatives(
    r"""
    (?:write|tell|continue|finish|make up|compose|draft)\b[^.?!:\n]{0,40}\b(?:story|poem|novel|song|scene|script\
    |dialogue|tale)
    (?:schreib|erzähl|dichte|setz)\w*\b[^.?!:\n]{0,40}(?:geschichte|gedicht|märchen|roman|szene|dialog)
    (?:écri[st]|écrivez|raconte[zs]?|continue[zs]?)\b[^.?!:\n]{0,40}\b(?:histoire|poème|conte|roman|scène|dialogue)
    (?:escrib|cuent|contin)\w+\b[^.?!:\n]{0,40}\b(?:historia|cuento|poema|novela|escena)
    (?:escrev|cont)\w+\b[^.?!:\n]{0,40}\b(?:história|conto|poema|romance|cena)
    (?:scriv|raccont|continu)\w+\b[^.?!:\n]{0,40}\b(?:storia|racconto|poesia|romanzo|scena)
    (?:schrijf|vertel)\b[^.?!:\n]{0,40}\b(?:verhaal|gedicht|sprookje)
    (?:napisz|opowiedz)\b[^.?!:\n]{0,40}\b(?:opowiadanie|historię|wiersz|bajkę)
    (?:напиши|расскажи|продолжи)(?:те)?\b[^.?!:\n]{0,40}\b(?:рассказ|историю|стих\w*|сказку)
    [写讲][^。?!:\n]{0,12}(?:故事|小说|诗) | 続きを書いて | (?:物語|小説|詩)を書いて | (?:이야기|소설|시)를? (?:써|쓰)
    """
)
_STORY_BELOW = (
    rf"(?:{_STORY})(?![^.?!:\n]{{0,40}}\b(?:about me|über mich|sur moi|sobre mí|sobre mim|su di me|over mij|обо мне)\b)"
    r"[^.?!:\n]{0,60}:"
)

_SCENE = re.compile(
    r"(?:^|[.!?\n,;:]\s{0,3}|\b(?:us|let's|please|and|you|now|just|to) )(?:imagine|pretend|suppose|assume|let's say)"
    r"(?: that)? (?:i|i'm|we|we're|my|our|this is)\b|"
    + words(
        r"""
    let's (?:role-?\s?play|pretend|play|imagine) | (?:start|do|begin|this is) (?:a |this |our )?role-?\s?play
    in (?:this|the|our) (?:story|scenario|role-?\s?play|fiction|simulation)
    rollenspiel | stell dir vor,? (?:ich|dass ich|wir|mein) | in dieser geschichte | jeu de rôle
    dans cette histoire
    juego de rol | en esta historia | nesta história | in questa storia | in dit verhaal | ролев\w+ игр\w+
    в этой истории
    (?:finge|imagina|supón|supongamos|imagine|suponha|finja|immagina|fingi|imagine|supposons) que? (?:soy|vivo\
    |mi|yo|sou|eu|io|sono|je|j'|mon)
    """,
        r"role-?\s?play:|角色扮演|假装我|扮演.{0,6}我|在这个故事|この物語|ロールプレイ|역할극|이 이야기에서",
    ).pattern
    + "|"
    + _STORY_BELOW
)
"""Opens a scene with the speaker in it: what follows is part of it too."""

_PERSONA = words(
    r"pretend(?: that)? you | pretend to be | role-?\s?play as | imagine(?: that)? you | finge que eres "
    r"| fais semblant d'être",
    "假装你|你扮演",
)
"""Gives the agent a part: what it then says of itself is not so."""

_SCENE_END = words(
    r"""
    (?:but )?(?:seriously|in reality|in real life|for real|jokes aside|back to reality|out of character\
    |end of (?:the )?(?:story|scene|game))
    im ernst | spass beiseite | en serio | fuera de broma | sérieusement | sério | seriamente | sul serio
    на самом деле | serieus
    """,
    r"说真的|言归正传|冗談はさておき|진지하게",
)

_FOREIGN_OPENING = re.compile(
    r"\b(?:(?<!\bi )(?:wrote|writes|said|says|texted|posted|replied|told me)|schrieb|schreibt|sagte|a écrit|écrit|a dit"
    r"|escribió|dijo|escreveu|disse|ha scritto|ha detto|schreef|zei|написала?|пишет|сказала?|napisała?"
    r"|(?:translate|summari[sz]e|proofread|rephrase|paraphrase)\b[^.?!:\n]{0,80}"
    r"|(?:correct|edit|improve|rewrite|analy[sz]e|fix|check) (?:this|the|my|following)\b[^.?!:\n]{0,80}"
    r"|(?:übersetze?|korrigiere?|traduis|traduisez|corrige|traduce|traduz|traduza|traduci|vertaal|переведи"
    r"|przetłumacz)\b[^.?!:\n]{0,80}"
    r"|here(?:'s| is) (?:the|an?|his|her|their) (?:e-?mail|message|text|letter|article|log|review|chat"
    r"|post)\b[^.?!:\n]{0,40})\s?:"
    r"|(?:写道|说道|翻译[^。\n]{0,20}|訳して[^。\n]{0,20})\s?:"
)
"""What follows to the end of the line, or of the text if the line ends here, was written by somebody else."""

_FOREIGN_HEADER = re.compile(
    r"^(?:-{2,}\s?(?:original message|forwarded message|ursprüngliche nachricht|message d'origine|mensaje original)"
    r"|begin forwarded message|on [^\n]{5,120} wrote:|am [^\n]{5,120} schrieb[^\n]{0,80}:|le [^\n]{5,120} a écrit\s?:"
    r"|el [^\n]{5,120} escribió:|(?:from|von|de|da|van): [^\n]{1,200}\n(?:to|an|à|para|a|aan|sent|date|subject"
    r"|cc|gesendet|datum|envoyé)\s?:)",
    re.MULTILINE,
)
"""The head of a mail that was pasted in: the rest of the text is that mail."""

_PLAIN_LABEL = alternatives(
    r"""
    me | myself | user | human | note | notes | nb | ps | p\.s | fyi | btw | tldr | update | edit | correction
    correct | fact
    facts | info | information | context | background | bio | profile | about | intro | introduction | summary | answer
    a | q | reply | also | so | well | now | today | ok | okay | yes | no | yeah | hi | hey | hello | thanks
    sorry | please
    remember | reminder | remark | important | attention | warning | truth | confession | question | problem | issue
    (?:mon|tues|wednes|thurs|fri|satur|sun)days? | mornings? | evenings? | weekends? | breakfast
    lunch | dinner | vegan
    situation | reason | result | goal | goals | plan | plans | wish | task | job | work | career | home | house
    location
    city | country | address | family | kids | children | wife | husband | partner | pets? | dogs? | cats? | hobby
    hobbies
    sports? | food | diet | health | allergy | allergies | medical | money | budget | travel | name | age
    birthday | language
    languages | education | school | preference | preferences | likes | dislikes | example | listen | look | see | first
    oops | wrong | mistake | typo | actually | second | third | finally | anyway | speaking | news | secret | tip
    hint | clarification | \w+ly | here | there
    falsch | korrektur | irrtum | erreur | rectification | error | errata | corrección | correção | correzione
    correctie
    ошиб\w+ | исправл\w+ | поправка | уточн\w+ | korekta | pomyłka | 订正 | 訂正 | 정정 | تصحيح
    notiz | hinweis | wichtig | info | übrigens | nochmal | frage | problem | ja | nein | hallo | ich | achtung
    kontext | kurz
    moi | remarque | rappel | important | question | oui | non | bonjour | salut | contexte | merci
    yo | nota | recuerda | importante | pregunta | sí | hola | contexto | eu | lembrete | pergunta | sim | não
    olá | oi
    io | promemoria | domanda | ciao | contesto | grazie | ik | let op | belangrijk | vraag | hoi | context
    ja | uwaga | pytanie | tak | nie | cześć | я | важно | вопрос | да | нет | привет | кстати | примечание
    напоминание
    我 | 注意 | 备注 | 提醒 | 更正 | 补充 | 另外 | 问题 | 你好 | 私 | 注 | 補足 | 質問 | 저 | 나 | 참고
    질문 | أنا | ملاحظة | سؤال
    """
)
_MYSELF = (
    r"(?:(?:i|i'm|i've|i'll|i'd|im|we|we're|we've|my|our|ich|wir|mein\w*|je|nous|mon|ma|mes|yo|mi|soy|vivo|tengo|eu|meu|minha"
    r"|sou|moro|tenho|io|mio|mia|sono|abito|ho|ik|mijn|wij|я|мы|мой|моя|у меня|ja|mój|moja|mieszkam|mam|أنا|أعيش"
    r"|저는|나는|제가|내가)\b|j'|我|私|僕|俺)"
)
_FOREIGN_LINE = re.compile(
    r"^[ \t]{0,8}(?:>[^\n]*|\[?(?:\d{1,4}[./-]\d{1,2}[./-]\d{1,4},? )?\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]m)?\]?,? ?-? ?"
    r"\w[\w .]{0,40}:[^\n]*|<[\w-]{1,40}> [^<\n]*"
    rf"|(?!(?:{_PLAIN_LABEL})\s?:)[^\W\d_][\w'-]{{0,30}}\s?:[ \t]*"
    rf"(?:(?:yes|no|hi|hey|hello|well|oh|ok|yeah|haha|lol|so|and|but|sorry|thanks)[,.! ]+){{0,2}}{_MYSELF}[^\n]*)$",
    re.MULTILINE,
)
"""A line of a block quote or of a chat log: "12:30 Bob: ...", or "Bob: I ..." with a name that is no heading."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Side:
    """One speaker's text, prepared: its words in one string, and which parts are not the speaker's own or not meant."""

    origin: Origin
    text: str
    words: str
    starts: list[int]
    spans: list[Span]
    foreign: list[Span]
    unreal: list[Span]
    is_planted: bool = False


def prepared(text: str) -> str:
    """A text in the form that is compared: lower case, compatibility forms, one sign for one purpose."""
    if text.isascii():
        return text.lower().replace("\r\n", "\n")
    plain = INVISIBLE.sub("", text.replace("\r\n", "\n").translate(_SIGNS))
    return _GREEK_QUESTION.sub("?", unicodedata.normalize("NFKC", plain).casefold())


def sides_of(said: Said) -> list[Side]:
    """The sides of a turn: first the user, then the agent, then what tools returned."""
    user, agent = _side("user", said.user), _side("agent", said.agent)
    end = len(user.text)
    is_playing = _PERSONA.search(user.text) or any(span[1] == end for span in user.unreal)
    if is_playing:
        agent = replace(agent, unreal=[(0, len(agent.text))])
    return [user, agent, *(_side("tool", text) for text in said.tools)]


def _side(origin: Origin, said: str) -> Side:
    text = prepared(said)
    found = [(word[0], word.span()) for word in WORD.finditer(text)]
    words = [word for word, _ in found]
    return Side(
        origin,
        text,
        f" {' '.join(words)} ",
        list(accumulate((len(word) + 1 for word in words[:-1]), initial=1)),
        [span for _, span in found],
        [] if origin == "tool" else _joined([*_pasted(text), *_quotations(text)]),
        [] if origin == "tool" else _scenes(text),
        origin == "tool" and bool(orders.PLANTED.search(text)),
    )


def _joined(spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _scenes(text: str) -> list[Span]:
    scenes: list[Span] = []
    for opening in _SCENE.finditer(text):
        if not scenes or opening.start() >= scenes[-1][1]:
            ending = _SCENE_END.search(text, opening.end())
            scenes.append((opening.start(), ending.start() if ending else len(text)))
    return scenes


def _pasted(text: str) -> Iterator[Span]:
    """Code, block quotes, logs and mails."""
    fences = [fence.start() for fence in _FENCE.finditer(text)]
    yield from zip_longest(fences[::2], fences[1::2], fillvalue=len(text))
    yield from (line.span() for line in _FOREIGN_LINE.finditer(text))
    if header := _FOREIGN_HEADER.search(text):
        yield header.start(), len(text)
    end = 0
    for opening in _FOREIGN_OPENING.finditer(text):
        if opening.end() >= end:
            line_end = text.find("\n", opening.end())
            is_whole_rest = line_end < 0 or not text[opening.end() : line_end].strip()
            end = len(text) if is_whole_rest else line_end
            yield opening.end(), end


def _quotations(text: str) -> Iterator[Span]:
    """What stands between quotation marks of any kind and has several words; deeper ones within."""
    open_marks: list[tuple[str, int]] = []
    for found in _MARKS.finditer(text):
        mark, place = found[0], found.start()
        before, after = text[place - 1 : place], text[place + 1 : place + 2]
        if len(mark) > 1:
            open_marks.clear()
            continue
        depth = next((n for n, (opened, _) in enumerate(open_marks) if mark in _CLOSED_BY.get(opened, opened)), None)
        if depth is not None and not (mark == "'" and after.isalnum()):
            start = open_marks[depth][1] + 1
            if len(WORD.findall(text, start, min(place, start + 100))) >= _MIN_QUOTED_WORDS:
                yield start, place
            del open_marks[depth:]
        elif _may_open(mark, before, after) and len(open_marks) < _MAX_DEPTH:
            open_marks.append((mark, place))


def _may_open(mark: str, before: str, after: str) -> bool:
    if mark == "'":
        return not before.isalnum() and after.isalpha()
    return mark in _CLOSED_BY or (mark in '"`' and not before.isdigit())
