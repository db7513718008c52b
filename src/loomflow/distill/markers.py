"""The words by which the guards tell a statement from a question, an "if", a game, an instruction or a secret.

Every table is matched against prepared text (see `loomflow.distill.guards`): lower case, compatibility form, straight
apostrophes, and one question mark for all scripts. One line is about one language or one idea; alternatives stand
between bars. A language that is not listed has no such signal, and its texts pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator


def _alternatives(table: str) -> str:
    """The parts of a table as one pattern; a line that ends in a backslash goes on in the next one."""
    table = re.sub(r"\\\n\s*", "", table)
    return "|".join(part.strip() for line in table.splitlines() for part in line.split(" | ") if part.strip())


def _words(table: str, parts: str = "") -> re.Pattern[str]:
    """A pattern of whole words, and of parts of words for scripts without spaces."""
    whole = rf"\b(?:{_alternatives(table)})\b"
    return re.compile(f"{whole}|{_alternatives(parts)}" if parts else whole)


def _opening(table: str, parts: str = "") -> re.Pattern[str]:
    """A pattern of words that a clause begins with, after words such as "so" and "please"."""
    end = rf"|{_alternatives(parts)}" if parts else ""
    return re.compile(rf"{_LEAD_IN}(?:(?:{_alternatives(table)})\b{end})")


_LEAD_IN = (
    r"[\W_]*(?:(?:so|and|but|or|hey|hi|hello|ok|okay|well|now|then|just|please|also|oh|und|aber|also|bitte|et"
    r"|mais|alors"
    r"|y|pero|entonces|por favor|e|mas|então|ma|allora|en|maar|а|и|но|ну|пожалуйста|ale|请)\b[\s,:]*){0,4}"
)
_SOMEBODY = r"(?:i|you|we|he|she|they|it|my|your|his|her|our|their|this|that|there|these|those|anyone|anybody)"
_PRONOUN = r"(?:i|you|we|he|she|they|it)"
_ASKING_VERB = (
    r"(?:is|are|am|was|were|do|does|did|can|could|should|would|will|shall|has|have|had|might|must|'s|'re|'d|'ll)"
)

# Questions

QUESTION_OPENING = _opening(
    rf"""
    (?:are|is|does|did|can|could|will|would|shall|should|may|has) {_SOMEBODY}
    (?:am|was|were|do|might|must|have|had) {_PRONOUN}
    (?:isn't|aren't|wasn't|weren't|don't|doesn't|didn't|can't|couldn't|won't|wouldn't|shouldn't|haven't) {_SOMEBODY}
    what\s?(?:'s|is)\b(?! .* (?:is|was|are) ) | what\s?(?!'s|is\b){_ASKING_VERB}
    (?:where|when|who|whom|whose|why|how|which)\s?{_ASKING_VERB}
    (?:what|which|whose) \w+ {_ASKING_VERB}
    how (?:many|much|long|often|old|far|about) | what about
    any (?:idea|tip|suggestion|recommendation|advice|chance)s?
    (?:wo|was|wer|wann|warum|wie|wohin|woher|welche[rsn]?|wen|wem) (?:ist|sind|bin|hab|habe|hat|kann|soll|wohn|heiss)\w*
    (?:kannst|könntest|weisst|kennst|hast|bist|willst|wirst|magst|würdest|kann|soll|darf|hab|habe|bin|wohne\
    |heisse) (?:du|ich|mir)
    (?:können|könnten|wissen|kennen|haben|sind|wollen|würden) (?:sie|wir) | wie (?:viel|viele|lange|alt|oft)
    gibt es
    est-ce que? | est-ce qu' | qu'est-ce | (?:où|quand|comment|combien|pourquoi|quel|quelle|quels|quelles)
    (?:\w+-(?:je|tu|vous|on|il|elle|ils|elles|nous)|\w+-t-(?:il|elle|on))
    ¿ ?\w+ | qué | dónde | cuándo | cómo | cuánt[oa]s? | quién | cuál(?:es)? | por qué
    (?:puedes|podrías|sabes|conoces|puede)
    (?:podes|pode|poderia|podias|sabes|conheces|conhece) (?:me|tu|você|recomendar|um|uma|o|a|se)
    você (?:pode|sabe) | será que
    (?:puoi|potresti|sai|conosci|può|potrebbe) (?:\w+mi|dirmi|un|una|il|la|se|dove)
    (?:kun|kan|weet|ken|heb|ben|zou|wil) (?:je|jij|u|ik) | (?:можешь|можете|не подскажешь) \w+
    (?:знаешь|знаете)(?: ли)?
    (?:możesz|znasz|wiesz|mógłbyś|mogłabyś) | czy | هل
    """,
    "你(?:能|可以|知道|会)(?:不能|帮|告诉|推荐|吗) | 能不能 | 可不可以 | 能(?:否|帮) | 可以(?:帮|推荐|告诉)",
)
"""What a clause begins with that asks; from there to the question mark, all of it is asked."""

INTERJECTION = re.compile(
    r"[\W_]*(?:by the way|btw|speaking of which|(?:a )?quick question|i'm (?:just )?(?:curious|wondering)"
    r"|one (?:more )?question"
    r"|excuse me|(?:hey|hi|hello|ok|okay|dear) \w+|übrigens|mal eine frage|au fait|por cierto|a propósito|aliás"
    r"|a proposito"
    r"|trouwens|кстати|a propos|对了|顺便(?:问一下|说一下)?|ところで|그런데)[\W_]*"
)
"""A clause that states nothing."""

RELATIVE = re.compile(
    rf"(?:who|whom|whose|which|where|when)\b(?! (?:\w+ )?(?:is|are|was|were|do|does|did|can|could|should|would|will|have"
    rf"|has) {_SOMEBODY}\b)"
    r"|(?:qui|que|quien|quem|che|où|onde|dove|waar|где|когда)\b"
)
"""What a clause begins with that belongs to the clause before it, although it could ask."""

MARKED_OPENING = _opening(
    r"""
    (?:what|where|who|whom|whose|why|how|which|do|does|is|are|am|was|were|have|had|has|can|could|will|would|should)
    (?:wo|was|wer|wann|warum|wieso|wohin|woher|welche[rsnm]?|wen|wem|wie)
    (?:où|quand|comment|combien|pourquoi|quels?|quelles?|qui|que|qu')
    (?:puedes|podrías|sabes|conoces|puede|pueden|hay) | onde | quando | como | por que | quem | qual | quais
    quant[oa]s? | (?:podes|pode|há|tem)
    dove | quando | come | perché | chi | quale | quanti | (?:puoi|sai|conosci|c'è) | waar | wanneer | waarom
    hoe | wie | wat | welke
    где | когда | кто | что | почему | зачем | сколько | как | как(?:ой|ая|ое|ие) | куда | откуда | чем | знаешь
    знаете | подскажи
    gdzie | kiedy | kto | co | dlaczego | ile | jaki? | jakie | jaka | أين | متى | لماذا | كيف | كم | ما | ماذا | من
    """,
    r"你(?:能|可以|知道|会|有) | 谁 | 哪 | 什么 | 怎么 | 有没有 | 有什么 | 何 | どこ | いつ(?!も) | 誰 | なぜ "
    r"| どう(?!も|か) | いくら | おすすめ"
    r" | 어디 | 언제 | 누구 | 무엇 | 뭐 | 왜 | 어떻게 | 몇 | 추천",
)
"""What a clause begins with that asks, if there is a question mark."""

SECOND_QUESTION = re.compile(
    r"\s(?=(?:(?:can|could|would|will) you|do you|any (?:idea|tip|suggestion|recommendation)s?|what(?:'s| is"
    r"| are| should)"
    r"|(?:how|where|what|which) (?:can|do|should|could|would)|kannst du|können sie|weisst du|puedes|podrías|peux-tu"
    r"|pouvez-vous|você pode|podes|puoi|kun je)\b)|(?=¿)"
)
"""Where a question begins within a text that has no comma before it."""

TAG = re.compile(r"[\W_]*(?:" + _alternatives(r"""
    right | correct | yes | no | ok | okay | eh | huh | yeah | innit | true | is that right | is that correct
    (?:is|are|am|was|were|do|does|did|have|has|had|can|could|will|would|should)(?:n't| not) (?:i|it|he|she|they\
    |we|you|that)
    (?:isn|aren|wasn|don|doesn|didn|haven|hasn|can|couldn|won|wouldn|ain)'t (?:i|it|he|she|they|we|you|that)
    (?:do|did|am|have) i | do you know | you know | you know what | guess what
    oder | nicht wahr | stimmt's | ne | gell | richtig | n'est-ce pas | non | hein | pas vrai | d'accord
    verdad | no es (?:así|cierto) | cierto | vale | sí | né | não é | não | certo | tá | vero | giusto | è vero
    toch | hè
    не так ли | правда | верно | да | prawda | nie | tak | أليس كذلك | صحيح
    对吧 | 对吗 | 是吧 | 是吗 | 不是吗 | 对不对 | 是不是 | 好吗 | ですよね | だよね | そうでしょう | 맞죠
    그렇죠 | 그쵸
    """) + r")[\W_]*")  # fmt: skip
"""A clause that asks only for a nod: what stands before it is stated."""

TAG_ENDING = re.compile(r"(?:\s(?:right|correct|huh|eh|innit|oder|verdad|né|vero|toch|hein)|ね)[\s?!]*$")

INDIRECT_QUESTION = _words(
    r"""
    wonder(?:ing|ed)? (?:if|whether|where|what|who|when|how|why)
    (?:know|sure|certain|clear|ask(?:ed|ing)?|tell me|check|see|find out|verify|remember|forgot|say) (?:if|whether)
    (?:tell me|remind me|do you know|you know|guess|asked me|forgot|don't know) (?:where|what|who|when|how|why|which)
    whether
    ob (?:ich|wir|er|sie|es|mein\w*|du|das|die|der) | me demande (?:si|où|quand)
    (?:sais|savoir|savez|sait)(?:-tu|-vous)? si
    (?:me pregunto|sabes|sabe|no sé|saber) (?:si|dónde|cuándo)
    (?:pergunto|pergunto-me|sabes|sabe|não sei|saber) se
    (?:mi chiedo|mi domando|sai|non so|sapere) se | (?:vraag(?: ik)? me af|weet je|weet niet|weten) of
    ли | czy | ما إذا | هل
    """,
    r"是否 | 我想知道 | 能告诉我 | かどうか | (?:는지|은지|인지|을지).{0,6}(?:모르|궁금|알려|아세요|아시)",
)
"""In one clause with what is not stated but asked."""

QUESTION_ENDING = re.compile(
    r"(?:吗|嗎|(?:什么|哪|谁|怎|几|多少|还是).{0,20}[呢啊]|(?:です|ます|ました|でした|ません|でしょう|だろう"
    r"|の)か[なね]?"
    r"|かしら|(?:い|る|た|だ|う)かな|[가-힣]니까|까요|인가요|는가요|은가요|[하있없되했었났]나요)[\s。.!]*$"
)
"""How sentences end that ask without a question mark."""

ALTERNATIVE = _opening("or | oder | ou | o(?! que) | of | или | czy | albo | أم", "还是 | それとも | 아니면")

# What is not so, or not meant

POLITE_CONDITION = _words(
    r"""
    if (?:that|it|this) (?:helps|matters|is relevant|makes a difference|is of use)
    if (?:you|u) (?:want|need|like|wish|prefer|ask)
    if you(?:'re| are) (?:wondering|interested|curious|asking) | if you (?:must|don't mind)
    if i (?:remember|recall)
    if i'm not (?:mistaken|wrong) | if (?:possible|so|needed|necessary|only) | even if | as if i care | if anything
    (?:wonder|wondering|know|sure|ask|tell me|check|see|find out|verify) if
    falls (?:das|es|du|sie) (?:hilft|wichtig|wissen|willst) | si (?:ça|cela) (?:aide|t'aide|vous aide) | si possible
    si (?:tu|vous) (?:veux|voulez|peux|pouvez) | s'il (?:te|vous) plaît
    si (?:eso |esto )?(?:te|le|os|les) (?:ayuda|sirve|importa|interesa) | si (?:quieres|puedes|es posible)
    si no me equivoco | por si acaso
    se (?:isso )?(?:ajudar|ajuda|puder|quiser|precisar|quiseres|precisares|possível)
    se (?:ti|vi) (?:aiuta|serve) | se possibile
    если (?:это )?(?:поможет|важно|можно|что)
    """,
    r"如果(?:需要|可以|方便)的?话? | もしもし | もしか | もし(?:よ|良)",
)
"""An "if" that takes nothing back; it is left out before `CONDITION` is looked for."""

CONDITION = _words(
    r"""
    if | what if | as if | as though | provided that | unless | had i | were i to
    falls | als ob | wenn .{0,120}(?:wäre|hätte|würde|könnte)\w* | angenommen
    si (?:je|tu|on|nous|vous|elle|elles|mon|ma|mes|le|la|les|un|une|jamais) | si j'\w+ | s'ils? | comme si
    si (?:yo|tuviera|fuera|pudiera|viviera|hubiera|tengo|puedo|vivo|me|mi|hay) | como si | ojalá
    como se | se (?:eu|ele|ela|nós|você|a gente|fosse|tivesse|pudesse|io|fossi|avessi|potessi|vivessi) | come se
    als (?:ik|we|wij|mijn) .{0,120}zou\w* | alsof | indien | stel dat
    gdyby\w* | jeśli | jeżeli | jakby | если | как будто | لو | إذا | ليت
    """,
    r"如果 | 假如 | 假设 | 要是 | 倘若 | 万一 | もし(?!も) | 仮に | としたら | たらいいのに | 만약 | 만일 "
    r"| (?:었|았|였|한|라)다면",
)
"""Takes back the clause and those that hang on it."""

CONDITION_OPENING = _opening(r"si (?!,|chiam|trov|tratt|sono\b|è\b)\w+ | se (?!chama|llama|trata|diz|me|te|le)\w+")

MEANT = _words(
    r"""
    (?:would|'d) (?:(?:also|really|rather|much|definitely|always) )?(?:like|love|prefer|rather|hate|appreciate\
    |want|need|enjoy)
    would (?:say|describe|consider|call) | would you (?:like|please|mind)?
    (?:würde|hätte|wäre)\w* (?:\w+ )?(?:gern|gerne|lieber|am liebsten) | gern(?:e)? .{0,40}(?:hätte|würde)
    zou (?:\w+ )?(?:graag|liever|willen) | (?:хотел|хотела|хотелось|предпоч\w+) бы | бы (?:хотел|хотела)
    """
)
"""A "would" that states a wish; it is left out before `UNREAL` is looked for."""

UNREAL = _words(
    r"""
    would(?:n't)?
    i'd (?!(?:been|had|gone|done|better|never|already|just|always|ever|only|long|since|made|met|found)\b\
    |\w+(?:ed|wn|lt|ught|en)\b)\w+
    wish(?:ed)? (?:that )?(?:i|we|he|she|they|it|my|there|you) (?!to)
    in (?:an?|another) (?:alternate |alternative |parallel |fictional |imaginary )(?:universe|world|reality|life)
    in another life | hypothetically | theoretically | in theory | in (?:my|a) (?:story|novel|book|game|dream)
    dream(?:ed|t) (?:that )?i
    würden? | wäre(?:n|st)? | hätte(?:n|st)? | quem me dera | tomara que | zou(?:den)? | бы | hipotéticamente
    ipoteticamente
    """
)
"""Takes back its clause."""

MAKE_BELIEVE = _opening(
    r"""
    (?:let's|let us|can you|could you|i want you to|try to|we) (?:imagine|pretend|suppose|assume|say|role-?\s?play)
    act (?:like|as if|as though)
    for (?:this|the) (?:conversation|chat|exercise|scenario|sake of (?:the )?argument)
    imagine | suppose | supposing | assume | assuming | pretend(?:ing)? | let's play | role-?\s?play(?!\w)
    say (?:i|my|we)
    (?:write|tell|make up|compose)(?: me| us)? .{0,40}\b(?:story|poem|novel|song|scene|script|dialogue|tale)
    stell dir vor | stellen sie sich vor | angenommen | nehmen wir an | tu so,? als | tun wir so,? als
    sagen wir | rollenspiel
    imagine[zs]? | imaginons | supposons | suppose[zs]? | fais(?:ons)? (?:comme si|semblant) | disons que
    jeu de rôle
    imagina(?:te|os)? | imagínate | imaginemos | supón | supongamos | finge | haz como si | digamos que
    juego de rol
    imaginem | suponha | suponhamos | finja | faz de conta | faça de conta | digamos que
    immagina | immaginiamo | supponi | supponiamo | fingi | facciamo finta | fai finta | mettiamo che
    diciamo che | ammettiamo
    stel(?: je)?(?: voor)?(?: dat)? | doe alsof | wyobraź sobie | załóżmy | udawaj(?:my)? | przypuśćmy
    представь(?:те)? | допустим | предположим | притворись | вообрази | давай представим | تخيل | افترض | تظاهر
    """,
    r"想象 | 假装 | 假设 | 扮演 | 角色扮演 | 我们来玩 | 想像して | 仮定 | ロールプレイ | ふりをして | 상상해 "
    r"| 가정해 | 역할극",
)
"""Opens a game of thought: its sentence is not so."""

SCENE = re.compile(
    r"(?:^|[.!?\n,;:]\s{0,3}|\b(?:us|let's|please|and|you|now|just|to) )(?:imagine|pretend|suppose|assume|let's say)"
    r"(?: that)? (?:i|i'm|we|we're|my|our|this is)\b|"
    + _words(
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
)
"""Opens a scene with the speaker in it: what follows is part of it too."""

PERSONA = _words(
    r"pretend(?: that)? you | pretend to be | role-?\s?play as | imagine(?: that)? you | finge que eres "
    r"| fais semblant d'être",
    "假装你|你扮演",
)
"""Gives the agent a part: what it then says of itself is not so."""

SCENE_END = _words(
    r"""
    (?:but )?(?:seriously|in reality|in real life|for real|jokes aside|back to reality|out of character\
    |end of (?:the )?(?:story|scene|game))
    im ernst | spass beiseite | en serio | fuera de broma | sérieusement | sério | seriamente | sul serio
    на самом деле | serieus
    """,
    r"说真的|言归正传|冗談はさておき|진지하게",
)

NOT_SERIOUS = re.compile(
    r"(?<!\S)(?:/s|/j|j/k)(?!\S)|"
    + _words(
        r"""
        (?:just |only |i'm |am )*(?:kidding|joking) | jk | not really(?=\s*(?:[.!,;)]|$)) | i lied
        that's a joke | that was a joke | sarcasm
        (?:nur |war nur )?(?:ein )?(?:scherz|spass)(?! beiseite) | je (?:plaisante|rigole|blague)
        es (?:una )?broma | bromeo
        (?:é )?brincadeira | (?:tô|estou a?) ?brinca(?:ndo|r) | scherzo | sto scherzando | grapje
        żart(?:uję|owałem|owałam)
        шучу | шутка | пошутил[аи]? | أمزح
        """,
        r"开玩笑|开个玩笑|逗你|冗談(?:です|だよ)|なんちゃって|농담",
    ).pattern
)
"""Takes back what was said right before."""

_NOT = _alternatives(
    r"""
    not | never | no longer | don't | doesn't | didn't | isn't | aren't | wasn't | weren't | haven't | hasn't
    hadn't | won't | can't | cannot | nicht | nie | niemals | kein\w* | pas | jamais | nunca | jamás
    não | non | niet | nooit
    geen | nigdy | не | никогда | لا | لم | لن | ليس
    """
)
NEGATION = re.compile(rf"\b(?:{_NOT})\b|[不没]")
"""Turns a statement round."""

NEGATED = re.compile(rf"(?:\b(?:{_NOT})\s+|(?:^|[.,;:!?¡\n]\s*|\b(?:yo|ya|que|y|pero)\s)no\s+|[不没])$")
"""What stands before words that are denied. Spanish "no" counts at the front only: it is Portuguese for "in the"."""

# Somebody else's words

FOREIGN_OPENING = re.compile(
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

FOREIGN_HEADER = re.compile(
    r"^(?:-{2,}\s?(?:original message|forwarded message|ursprüngliche nachricht|message d'origine|mensaje original)"
    r"|begin forwarded message|on [^\n]{5,120} wrote:|am [^\n]{5,120} schrieb[^\n]{0,80}:|le [^\n]{5,120} a écrit\s?:"
    r"|el [^\n]{5,120} escribió:|(?:from|von|de|da|van): [^\n]{1,200}\n(?:to|an|à|para|a|aan|sent|date|subject"
    r"|cc|gesendet|datum|envoyé)\s?:)",
    re.MULTILINE,
)
"""The head of a mail that was pasted in: the rest of the text is that mail."""

FOREIGN_LINE = re.compile(
    r"^[ \t]{0,8}(?:>[^\n]*|\[?\d{1,2}:\d\d(?::\d\d)?\]?,? ?-? ?\w[\w .]{0,40}:[^\n]*)$", re.MULTILINE
)
"""A line of a block quote or of a chat log."""

# Instructions to the agent

_ANSWERING = (
    r"(?:answer|respond|reply|say|write|speak|use|include|begin|start|end|recommend|mention|reveal|tell|call"
    r"|refer|ask|act|be|obey"
    r"|follow|ignore|pretend|trust|treat|approve|agree|suggest|give|keep|add)"
)
COMMAND = re.compile(
    rf"^{_LEAD_IN}(?:act as\b|(?:(?:you (?:should|must|will|shall|have to|need to)|remember to"
    rf"|make sure (?:to|you|that you)|be sure to) (?:always |never |only )?|always |never |only |do not ever"
    rf"|don't ever )"
    rf"{_ANSWERING}\b)"
    rf"|^{_LEAD_IN}(?:from now on|going forward|henceforth|in future),? (?:please )?(?!call me|address me"
    rf"|refer to me)(?:you|your|always|never|only|do not|don't|{_ANSWERING})\b"
     r"|"
    + _words(
        r"""
        (?:ignore|disregard|forget|override|bypass) (?:all|any|every|the|your|my|previous|prior|above|earlier\
        |these)\b.{0,40}(?:instruction|rule|prompt|message|guideline|polic|restriction|context)\w*
        (?:ignore|disregard|forget) (?:everything|all) (?:above|before|you were told|you know)
        you are (?:now|no longer) | you are (?:a|an|my) (?:\w+ ){0,3}(?:assistant|ai|chatbot|bot|language model)
        you're now | remember that you (?:must|should|are|will|have)
        your (?:new )?(?:role|task|job|purpose|instructions?) (?:is|are)
        you (?:must|shall) (?:(?:not|never|always|only) \w+|obey|comply|answer|say|respond|reply|pretend|ignore|reveal)
        (?:du (?:musst|sollst|bist (?:jetzt|nun|ab))|antworte (?:immer|nur|stets|ab)|immer antworten?)
        (?:ignoriere|vergiss) (?:alle|die|deine)\b.{0,40}(?:anweisung|regel)\w* | erwähne (?:nie|niemals|nicht)
        (?:ab jetzt|von nun an|ab sofort),? (?:antworte|sprich|schreib|nenn|sag|bist du|musst du|sollst du\
        |verwende|benutze)\w*
        (?:tu es|vous êtes) (?:maintenant|désormais) | (?:tu dois|vous devez) (?:toujours|jamais|répondre)
        répon(?:ds|dez) (?:toujours|uniquement|désormais)
        ignore[zs]? (?:toutes )?(?:les|tes) (?:instructions|règles|consignes)\b.*
        ne mentionne[zs]? (?:jamais|pas)
        (?:à partir de maintenant|désormais|dorénavant),? (?:réponds|répondez|parle|parlez|utilise|utilisez\
        |écris|tu|vous)
        (?:responde|contesta|habla|usa) siempre | siempre (?:responde|contesta|di|usa)
        ignora (?:todas )?(?:las|tus)\b.{0,30}(?:instrucciones|reglas) | ahora eres
        debes (?:siempre|responder|decir) | nunca (?:menciones|digas|reveles)
        (?:a partir de ahora|de ahora en adelante|desde ahora),? (?:responde|contesta|habla|usa|eres|debes|di|escribe)
        (?:responda|responde|fale|use) sempre | sempre (?:responda|responde|use|fale)
        ignore (?:todas )?as\b.{0,30}(?:instruções|regras) | agora (?:você é|és)
        (?:você deve|deves) (?:sempre|responder) | nunca (?:mencione|diga|revele)
        (?:a partir de agora|de agora em diante),? (?:responda|responde|fale|fala|use|usa|você|escreva)
        rispondi sempre | sempre rispondere | ignora (?:tutte )?(?:le|tue)\b.{0,30}(?:istruzioni|regole)
        (?:ora|adesso) sei | devi (?:sempre|rispondere|dire) | non (?:menzionare|dire) mai
        (?:d'ora in poi|da ora in poi|d'ora in avanti),? (?:rispondi|parla|usa|sei|devi|scrivi)
        antwoord (?:altijd|alleen|voortaan) | negeer (?:alle|de|je)\b.{0,30}(?:instructies|regels) | je bent nu
        je moet (?:altijd|antwoorden) | (?:noem|vermeld) nooit
        (?:vanaf nu|voortaan),? (?:antwoord|spreek|gebruik|ben je|moet je|schrijf)
        (?:всегда|только) (?:отвечай|говори|пиши)(?:те)? | отвечай(?:те)? (?:всегда|только)
        игнорируй(?:те)? .{0,30}(?:инструкци|указани)\w* | (?:теперь ты|ты теперь) | ты (?:должен|должна)
        никогда не (?:упоминай|говори)(?:те)?
        (?:отныне|с этого момента|с сегодняшнего дня|теперь),? (?:отвечай|говори|пиши|ты|используй)(?:те)?
        (?:zawsze|tylko) odpowiadaj | odpowiadaj (?:zawsze|tylko) | zignoruj .{0,30}(?:instrukcje|polecenia)
        jesteś teraz | musisz (?:zawsze|odpowiadać) | nigdy nie (?:wspominaj|mów)
        od teraz,? (?:odpowiadaj|mów|pisz|jesteś|używaj)
        من الآن فصاعدا | تجاهل .{0,30}التعليمات | أنت الآن | يجب عليك | أجب دائما | لا تذكر
        """,
        r"""
        (?:从现在(?:开始|起)|以后|今后)(?:请|你|都|要|,){0,4}(?:用|回答|回复|说|必须|不要|别)
        (?:忽略|无视|忘记).{0,12}(?:指令|说明|提示|指示|规则) | 你现在是 | 你必须
        你(?:应该|要)(?:总是|始终|一直|永远|用)
        (?:总是|始终|一直|永远|请?务必)(?:请)?(?:用|回答|回复|说) | (?:绝对|永远)?(?:不要|别)(?:提|说|告诉|透露)
        (?:これから|今後)は?、?.{0,20}(?:答え|返事|回答|話し|使っ|書い)て | 指示を(?:すべて)?無視
        あなたは今(?:から)? | (?:必ず|常に|いつも).{0,16}(?:答え|回答|返信)て
        決して.{0,20}(?:言わないで|話さないで)
        (?:지금부터|앞으로(?:는)?).{0,16}(?:대답|답변|말|사용)해 | (?:지시|명령).{0,10}무시
        (?:당신은|너는|넌) (?:이제|지금) | (?:항상|언제나).{0,14}(?:대답|답변|답)해
        절대.{0,16}(?:말하지|언급하지) ?마
        """,
    ).pattern
)  # fmt: skip
"""Tells the agent what to do or be: never a fact, whoever says it."""

INTRODUCTION = re.compile(
    r"[\W_]*(?:please,? )?(?:from now on|going forward|henceforth|in future|ab jetzt|von nun an|ab sofort"
    r"|à partir de maintenant"
    r"|désormais|dorénavant|a partir de ahora|de ahora en adelante|desde ahora|a partir de agora|de agora em diante"
    r"|d'ora in (?:poi|avanti)|da ora in poi|vanaf nu|voortaan|от?ныне|с этого момента|od teraz|从现在(?:开始"
    r"|起))[\W_]*"
)
"""Belongs to the clause after it, whatever sign is between them."""

REQUEST = _opening(
    rf"""
    (?:call|address|name|refer to) me
    (?:answer|respond|reply|speak|write|talk)(?: to me)? (?:in|with|only|like|as|briefly|shortly)
    (?:keep|make) (?:your|the|it|all) .{{0,30}}(?:short|brief|simple|concise|formal|detailed)
    (?:do not|don't|stop|avoid) {_ANSWERING}\w*
    use (?:metric|imperial|emoji|bullet|markdown|simple|plain|formal|\w+ units)\w*
    nenn\w* mich | antworte\w* | sprich | duz\w* mich | appelle[zs]?-moi | répon(?:ds|dez) | parle[zs]?
    llámame | responde | contesta | háblame
    me chame | chama-me | responda | fale | chiamami | rispondi | parlami | noem me | antwoord
    зови(?:те)? меня | называй(?:те)? меня | отвечай(?:те)?
    mów mi | odpowiadaj | نادني | أجب
    """,
    r"叫我|称呼我|用.{1,6}(?:回答|回复)|.{1,12}と呼んで|.{0,12}で答えて|.{1,12}(?:라고|이라고) 불러"
    r"|.{0,10}로 (?:대답|답변)해",
)
"""Asks the agent for a way to answer: a fact only as a preference or name of the user."""

WHEN_ASKED = _words(
    r"""
    (?:when|whenever|if|once) (?:you are |you're |anyone |someone |somebody |the user |users \
    |i )?asks?(?:ed)?\b.{0,200}\b(?:say|answer|reply|respond|tell|claim|recommend|mention)
    (?:wenn|falls) (?:du |jemand |man )?.{0,20}(?:gefragt|fragt)\b.{0,200}\b(?:sag|antworte)
    (?:si|quand) on (?:te|vous) demande\b.{0,200}\b(?:dis|réponds|dites|répondez)
    (?:cuando|si) (?:te|alguien) .{0,12}pregunt\w+\b.{0,200}\b(?:di|responde)
    (?:quando|se) (?:te|alguém) .{0,12}pergunt\w+\b.{0,200}\b(?:diga|responda)
    (?:когда|если) (?:тебя|кто-то) .{0,12}спро\w+\b.{0,200}\b(?:скажи|отвечай)
    """,
    r"(?:当|如果)?有?(?:人|用户)?(?:被)?问(?:到|起|你).{0,80}(?:就|请)?(?:说|回答)",
)

ROLE_TOKEN = re.compile(
    r"<\|[a-z_]{2,40}\|>|\[/?inst\]|<</?sys>>|</?(?:system|assistant)>|<(?:start|end)_of_turn>"
    r"|(?:^|\n)[\s#*\[]{0,6}(?:system|assistant|developer)(?: prompt| message| note)?\]?\s?:"
    r"|#{2,} ?(?:instruction|system|response|human|assistant)s?:"
)
"""Marks of a prompt's own structure."""

PLANTED = re.compile(
    ROLE_TOKEN.pattern
    + r"|"
    + _words(
        r"""
        (?:ignore|disregard|forget|override) (?:all|any|the|your|previous|prior|above\
        |earlier)\b.{0,40}(?:instruction|rule|prompt|guideline|context)\w*
        (?:note|message|instructions?|attention|important|notice)[,:]? (?:to|for) (?:the |any |all )?(?:ai|llm\
        |assistant|model|agent|chatbot|language model)s?
        (?:note|attention|important|notice)[,:]? (?:ai|llm|assistant|chatbot)s?
        (?:dear|hey|hello|hi|attention),? (?:ai|llm|assistant|model|agent|chatbot)
        as an (?:ai|llm|assistant|agent),? you
        if you(?:'re| are) an? (?:ai|llm|language model|assistant|agent)
        (?:ai|llm|language model|chatbot|assistant)s?(?: agents?| assistants?| models?)? (?:must|should|shall\
        |have to|are required to|reading this)
        (?:save|store|add|write|record|commit|put) .{0,80}(?:to|in|into) (?:your |the |its |long-term )*memory
        update your memory | remember (?:that )?the user | remember this fact
        (?:tell|inform|convince) the user | system prompt | your new instructions
        ignoriere (?:alle|die|deine)\b.{0,40}anweisung\w* | ignore[zs]? (?:toutes )?les\b.{0,20}instructions
        ignora (?:todas )?las\b.{0,30}instrucciones | ignore (?:todas )?as\b.{0,30}instruções
        игнорируй(?:те)? .{0,30}(?:инструкци|указани)\w*
        """,
        r"(?:忽略|无视).{0,12}(?:指令|说明|提示|指示) | 指示を(?:すべて)?無視 | 지시.{0,10}무시",
    ).pattern
)
"""A text from a tool that speaks to the agent: nothing in it is believed."""

AGENT_NAMES = frozenset(
    f"{article}{name}"
    for article in ("", "the ")
    for name in "you assistant agent ai model bot chatbot system llm".split()
)
USER_NAMES = frozenset(("user", "the user", "i", "me", "myself"))
DUTY = re.compile(
    r"(?:must|should|shall|has to|have to|needs to|is required to|is instructed to|will always|will never)\b"
)
RULE = re.compile(r"(?:instructions?|system prompt|system message|system instruction|new rule|agent rule|directive)")
PREFERENCE = _words(
    r"""
    prefers? | preferred | preference | likes? | wants? | wishes | favou?rite | dislikes? | name | nickname
    called | goes by
    known as | pronouns? | language | addressed | address as | form of address | tone | style | wishes to be called
    bevorzugt | heisst | préfère | s'appelle | prefiere | se llama | prefere | chama-se | preferisce | si chiama
    heet
    """,
    r"喜欢|偏好|叫|名字|好み|呼び名|선호|이름",
)
"""Predicates of preference and name."""

# Secrets

_SECRET_NAME = _alternatives(
    r"""
    passwords? | passwd | pwd | pass ?codes? | pass ?phrases? | pin | pins? codes? | pin numbers? | api ?keys?
    access keys? | secret keys?
    (?:client|app|shared|account|login|api|oauth|webhook) secrets? | secrets? | private keys?
    (?:access|api|auth|bearer|refresh|session|login|security|bot|github|gitlab|slack|personal access) tokens?
    (?:seed|recovery|backup|mnemonic) (?:phrases?|words|codes?|keys?) | (?:cvv|cvc|cvv2|security codes?)
    (?:credit |debit |bank )?card numbers?
    ssn | social security(?: numbers?)? | security (?:answers?|question answers?) | (?:login|user) credentials
    (?:2fa|otp|verification|one time|door|alarm|gate|safe|unlock|lock) codes?
    (?:wi ?fi|wlan) (?:key|code) | passwor[dt] | passwörter | kennwort | geheimzahl | mots? de passe
    code (?:secret|pin|confidentiel) | contraseñas? | clave(?: secreta)? | senhas? | palavra-?\s?passe
    codice (?:segreto|pin) | parola d'ordine
    wachtwoord(?:en)? | pin ?code | hasł[oa] | парол[ьяи] | пин(?:-?\s?код)? | كلمة (?:المرور|السر)
    """
)
_NAMES_WITHOUT_SPACES = "密码|密碼|口令|验证码|パスワード|暗証番号|비밀번호|암호"

SECRET_PREDICATE = re.compile(
    rf"(?!(?:forgot|forgets|lost|resets?|changed|changes|needs|hates|dislikes|collects|likes|uses|loves|has no)\b)"
    rf"(?:.* )?(?:(?:{_SECRET_NAME})(?: (?:is|for|of|to|at|number|code|value|hash)\b.*)?"
    rf"|.*(?:{_NAMES_WITHOUT_SPACES}).*)$"
)
"""A predicate (or subject) that names a secret."""

SECRET_TOLD = re.compile(
    rf"(?:\b(?:{_SECRET_NAME})\b|{_NAMES_WITHOUT_SPACES})[^\n.?!]{{0,30}}?"
    r"(?:\b(?:is|was|(?:set|changed|reset) to|ist|lautet|est|es|é|è|to|jest)\s|[:=]|是|は|—|-\s)\s?['\"“`]?"
    r"(?=[^\s]{0,80}[\d!@#$%^&*])[^\s]{4,}"
)
"""A secret that is told in prose: its value has a digit or a sign."""

KEYS = re.compile(
    r"\bA(?:KIA|SIA)[0-9A-Z]{16}\b"  # Amazon
    r"|\bgh[pousr]_[A-Za-z0-9]{36}|\bgithub_pat_\w{22}|\bglpat-[\w-]{20}"  # GitHub, GitLab
    r"|\bsk-[\w-]{20}|\b[srp]k_(?:live|test)_[0-9A-Za-z]{16}|\bwhsec_[0-9A-Za-z]{20}"  # OpenAI, Anthropic; Stripe
    r"|\bxox[abeoprs]-[0-9A-Za-z-]{10}|\bAIza[\w-]{35}|\bhf_[A-Za-z0-9]{30}|\bnpm_[A-Za-z0-9]{36}|\bpypi-AgE[\w-]{20}"
    r"|\bSG\.[\w-]{16,32}\.[\w-]{30}|\b\d{8,10}:[A-Za-z][\w-]{34}\b"  # SendGrid; Telegram
    r"|\beyJ[\w-]{10,2000}\.eyJ[\w-]{10}"  # RFC 7519
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY|\bAGE-SECRET-KEY-1\w{10}"
    r"|://[^\s:/@]{1,64}:[^\s:/@]{1,64}@"  # a URL with a password, RFC 3986, 3.2.1
    r"|\b(?!000|666|9\d\d)\d{3}-(?!00)\d\d-(?!0000)\d{4}\b"  # social security number of the United States
)
"""The published forms of keys and tokens; matched with their case."""

_CARD = re.compile(r"(?<![\w+-])(?:\d{4}([ -]?)\d{4}\1\d{4}\1\d{4}|\d{4}([ -]?)\d{6}\2\d{5})(?![\w-])")
_ISSUERS = re.compile(r"4|5[1-5]|2[2-7]|3[47]|6(?:011|5)|35|62")


def names_card(text: str) -> bool:
    """Whether a text has the number of a payment card: issuer, grouping and check digit (ISO/IEC 7812-1, Luhn)."""
    return any(_ISSUERS.match(digits) and _luhn(digits) for digits in _card_like(text))


def _card_like(text: str) -> Iterator[str]:
    for found in _CARD.finditer(text):
        yield "".join(character for character in found[0] if character.isdecimal())


def _luhn(digits: str) -> bool:
    doubled = [sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2]]
    return (sum(doubled) + sum(int(digit) for digit in digits[::-2])) % 10 == 0


# What says nothing

VAGUE = frozenset(
    part.strip()
    for part in """
    it, that, this, these, those, them, they, he, she, him, her, something, someone, somebody, anything, anyone,
    everything, nothing, stuff, thing, things, there, here, one, unknown, n/a, na, none, null, nil, undefined,
    nan, tbd,
    unspecified, not specified, not mentioned, not stated, not known, not provided, not given, not available, no
    information,
    placeholder, string, value, object, subject, example, xxx, etc, various, other, others, same, the same, so,
    such, somewhere,
    sometime, somehow, whatever, es, das, dies, etwas, jemand, unbekannt, nichts, dort, da, ça, cela, quelque chose,
    quelqu'un, inconnu, rien, eso, esto, algo, alguien, desconocido, nada, allí, isso, isto, alguém,
    desconhecido, ali,
    qualcosa, qualcuno, sconosciuto, niente, lì, quello, questo, iets, iemand, onbekend, niets, daar, dat, dit,
    это, то,
    что-то, кто-то, неизвестно, ничего, там, coś, ktoś, to, nieznany, nic, tam, 它, 这, 那, 这个, 那个, 某人,
    某事, 未知, 不知道, 无,
    没有, 那里, 这里, それ, これ, あれ, 何か, 誰か, 不明, なし, そこ, ここ, 그것, 이것, 저것, 무언가, 누군가, 알
    수 없음, 없음, 거기, 여기,
    هذا, ذلك, شيء, مجهول, هناك
    """.replace("\n", " ").split(",")
)  # fmt: skip
"""Subjects and objects that say nothing by themselves, in normal form."""

PLACEHOLDER = re.compile(r"[\[<{(].{0,60}[\]>})]|(?:unknown|unspecified|unnamed|undisclosed) \w+")

TINY = frozenset(
    """
    ich du er sie wir ihr mein meine dein ja nein je j tu il elle on nous vous moi mon ma mes oui non yo tú él
    ella mi mis sí si
    eu meu minha sim não io lui lei mio mia no ik jij hij zij mijn nee я ты он она мы вы мой моя да нет ja ty on
    ona mój moja tak
    nie أنا أنت نعم لا 나 저 너 내 제 네 예 아니요 was were
    """.split()
) | frozenset("我你他她它您们是的了不有在私俺僕は")  # fmt: skip
"""Words that a quote needs more than."""

SMALL_TALK = frozenset(
    """
    thx ty much lot lots many appreciate appreciated cheers great cool nice perfect awesome fine good super wow
    lol haha hahaha hmm hm sure yep yup nope yea morning night
    evening afternoon continue go ahead next done welcome got understood right true exactly indeed
    danke dankeschön vielen dank bitte gut genau klar tschüss hallo guten tag morgen abend schön toll prima
    alles stimmt passt
    merci beaucoup bonjour salut super bien parfait voilà revoir au bonsoir
    gracias muchas hola vale bueno buenos buenas días tardes noches perfecto genial claro adiós
    obrigado obrigada muito olá oi bom dia boa noite tarde tchau tá certo perfeito legal valeu
    grazie mille ciao bene perfetto buongiorno buonasera prego
    dank bedankt je wel hallo goed prima hoi dag
    dziękuję dzięki cześć dobrze dzień dobry
    спасибо привет хорошо здравствуйте пока ладно отлично понятно ок
    شكرا مرحبا حسنا نعم لا 네 예 응 아니요
    """.split()
)  # fmt: skip
SMALL_TALK_PARTS = re.compile(
    "谢谢你?|多谢|感谢|好的|好吧|好|嗯+|是的|你好|您好|再见|不客气|知道了|明白了?|ありがとう(?:ございます"
    "|ございました)?|はい|うん|いいえ"
    "|こんにちは|こんばんは|おはよう(?:ございます)?|了解(?:です|しました)?|すごい|감사합니다|고마워요?"
    "|고맙습니다|안녕하세요|안녕|알겠습니다|좋아요"
)
"""What is said for politeness, and leaves nothing to learn."""
