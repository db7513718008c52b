"""The words by which the guards tell a statement from a question, an "if", a game, an instruction or a secret.

Every table is matched against prepared text (see `loomflow.distill.guards`): lower case, compatibility form, straight
apostrophes, and one question mark for all scripts. One line is about one language or one idea; alternatives stand
between bars. A language that is not listed has no such signal, and its texts pass.
"""

from __future__ import annotations

import re

from .tables import alternatives, opening, words

_SOMEBODY = r"(?:i|you|we|he|she|they|it|my|your|his|her|our|their|this|that|there|these|those|anyone|anybody)"
_PRONOUN = r"(?:i|you|we|he|she|they|it)"
_ASKING_VERB = (
    r"(?:is|are|am|was|were|do|does|did|can|could|should|would|will|shall|has|have|had|might|must|'s|'re|'d|'ll)"
)

# Questions

QUESTION_OPENING = opening(
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
    rf"(?:who|whom|whose|which|where|when)\b(?! (?:\w+ )?(?:is|are|was|were|do|does|did|can|could|should"
    rf"|would|will|have"
    rf"|has) {_SOMEBODY}\b)"
    r"|(?:qui|que|quien|quem|che|où|onde|dove|waar|где|когда)\b"
)
"""What a clause begins with that belongs to the clause before it, although it could ask."""

MARKED_OPENING = opening(
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

TAG = re.compile(r"[\W_]*(?:" + alternatives(r"""
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

INDIRECT_QUESTION = words(
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

ALTERNATIVE = opening("or | oder | ou | o(?! que) | of | или | czy | albo | أم", "还是 | それとも | 아니면")

# What is not so, or not meant

POLITE_CONDITION = words(
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

CONDITION = words(
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

CONDITION_OPENING = opening(r"si (?!,|chiam|trov|tratt|sono\b|è\b)\w+ | se (?!chama|llama|trata|diz|me|te|le)\w+")

MEANT = words(
    r"""
    (?:would|'d) (?:(?:also|really|rather|much|definitely|always) )?(?:like|love|prefer|rather|hate|appreciate\
    |want|need|enjoy)
    would (?:say|describe|consider|call) | would you (?:like|please|mind)?
    (?:würde|hätte|wäre)\w* (?:\w+ )?(?:gern|gerne|lieber|am liebsten) | gern(?:e)? .{0,40}(?:hätte|würde)
    zou (?:\w+ )?(?:graag|liever|willen) | (?:хотел|хотела|хотелось|предпоч\w+) бы | бы (?:хотел|хотела)
    """
)
"""A "would" that states a wish; it is left out before `UNREAL` is looked for."""

UNREAL = words(
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

MAKE_BELIEVE = opening(
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
)
"""Opens a scene with the speaker in it: what follows is part of it too."""

PERSONA = words(
    r"pretend(?: that)? you | pretend to be | role-?\s?play as | imagine(?: that)? you | finge que eres "
    r"| fais semblant d'être",
    "假装你|你扮演",
)
"""Gives the agent a part: what it then says of itself is not so."""

SCENE_END = words(
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
    + words(
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

_NOT = alternatives(
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
