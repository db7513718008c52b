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

NOTING = words(
    r"""
    (?:can|could|would|will) you (?:please |just |also )*(?:note|remember|save|store|record|memori[sz]e|keep in mind\
    |write down|jot down|make a note)(?: down)?(?: that\b|(?=\s?:))
    (?:kannst|könntest|können|könnten) (?:du|sie) (?:dir |sich )?(?:bitte )?(?:merken|notieren)
    (?:peux-tu|pouvez-vous|tu peux|pourrais-tu|pourriez-vous) (?:s'il te plaît )?(?:noter|retenir) qu(?:e|(?='))
    (?:puedes|podrías|puede) (?:anotar|recordar|apuntar|guardar) que
    (?:podes|pode|poderia) (?:anotar|lembrar|guardar) que
    (?:puoi|potresti) (?:annotare|ricordar(?:e|ti)|segnare) che | (?:kun|kan) (?:je|u) (?:noteren|onthouden) dat
    (?:możesz|mógłbyś|mogłabyś) (?:zanotować|zapamiętać) | (?:можешь|можете) (?:записать|запомнить)
    """,
    r"(?:能|可以|帮我|请)(?:不能|你|帮我|请)?(?:记住|记下|记一下) | (?:こと|って)を?(?:覚えて|メモして) | 기억해",
)
"""Asks the agent to note what is stated in the same breath."""

COMPLEMENT = re.compile(r"\s*(?:that|dass|que|qu'|che|dat|że|что)\b")
"""Says what is to be noted."""

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
    if (?:you|u) (?:might )?(?:want|need|like|wish|prefer|ask)
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

WHAT_IF = opening(
    r"what if | was(?: wäre)?,? wenn | et si | ¿? ?y si | e se | wat als | co jeśli | что,? если | ماذا لو",
    "要是 | 如果",
)
"""A condition that begins a thought of its own: what stands before it does not hang on it."""

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
    (?<!my )(?<!you )(?<!this )(?<!that )might(?! (?:also |just |already )?(?:help|matter|want|need|interest|know\
    |have (?:told|said|mentioned)|be (?:relevant|useful|important|helpful|good to know|worth)))
    (?:i|we|he|she|they|it) may(?! (?:also |just |already )?(?:have (?:told|said|mentioned)|help|matter\
    |be (?:relevant|useful|important|helpful))) [a-z']+
    my \w+ may (?:be|have|move|go|get|become|need|want|change|start|leave|visit|not|also|even|soon)
    may (?:one day|some ?day) | hopefully(?! (?:you|this|that|it))
    (?:maybe|perhaps|possibly)(?! (?:you|this|that|it|because|since|an?|one|two|three|four|five|ten|\d+)\b)
    (?:vielleicht|möglicherweise|hoffentlich)(?! (?:\d+|ein|zwei|drei|hilft|weisst))
    (?<!sais )(?<!savez )peut-être(?! (?:\d+|un|deux|trois)) | (?:quizás?|tal vez|a lo mejor|puede que)(?! sepas)
    talvez | pode ser que | forse | può darsi | misschien | hopelijk | być może | może kiedyś
    возможно | может быть | быть может | ربما
    würden? | wäre(?:n|st)? | hätte(?:n|st)? | quem me dera | tomara que | zou(?:den)? | бы | hipotéticamente
    ipoteticamente
    """,
    "也许 | 或许 | 说不定 | (?<!不)可能 | かもしれ | 아마 | 지도 (?:몰|모르)",
)
"""Takes back its clause: a wish, a maybe."""

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
    + r"|(?:^|[.,;:!。—–(]|\s-)\s*(?:(?:das|this|that|es|is|ist|was|war|'s|c'est|é|è|to|это|dat|esto|nein|no"
    r"|non) ?){0,3}(?:"
    + alternatives(
        r"""
        nonsense | rubbish | bullshit | not true | a lie | untrue | i made that up | quatsch | unsinn | blödsinn
        nicht wahr | gelogen | n'importe quoi | pas vrai | mentira | no es verdad | bobagem | não é verdade
        sciocchezze | non è vero | onzin | niet waar | bzdura | nieprawda | чушь | ерунда | неправда | 胡说 | 骗你的
        不是真的 | (?:嘘|うそ)(?:です|だよ)? | 거짓말(?:이야|이에요)?
        """
    )
    + r")\s*(?:[.!,;)。]|$)"
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
_AHEAD = r"(?:i|i'm|i've|i'd|i'll|we|we're|we've|my|our|he|he's|she|she's|they|they're|it|it's|there|you|his|her|their)"
NEGATION = re.compile(rf"\b(?:{_NOT})\b|[不没]")
"""Turns a statement round."""

NEGATED = re.compile(rf"(?:\b(?:{_NOT})\s+|(?:^|[.,;:!?¡\n]\s*|\b(?:yo|ya|que|y|pero)\s)no\s+|[不没])$")
"""What stands before words that are denied. Spanish "no" counts at the front only: it is Portuguese for "in the"."""

NEGATED_BEFORE = re.compile(
    rf"\b(?:(?:{_NOT}|\w+n't|dont|doesnt|didnt|isnt|cant|nobody|no one|neither|none|niemand|personne|nadie|ninguém"
    r"|nessuno|nikt|никто|ne|n'\w+)\b(?! ?(?:only|just|merely|far|long|too|wait|stand|help|mind|regret|forget|stop|bad"
    r"|nur|weit|zuletzt|allein|seulement|loin|mal|só|apenas|longe|solo|lontano|soltanto|alleen|ver|tylko|daleko"
    r"|только|далеко)\b)"
    r"|(?:have|has|had|there's|is|are|with|got|eat|drink|speak|own) no\b(?! (?:problem|doubt|idea|longer))"
    r"|(?:(?<=^)|(?<=[.,;:!¡] )|(?<=yo )|(?<=ya )|(?<=y ))no (?:vivo|soy|tengo|como|bebo|estoy|trabajo|quiero|puedo"
    r"|fumo|uso|hablo|voy)\b)"
    r"|[不没](?:再|太|怎么|常|经常|是|想|会|能|有|打算|在|曾){1,2}(?=.?$)|\b(?:안|못)\s"
)
"""Denies the next words of its clause."""

MAX_WORDS_DENIED = 4
"""Most words between a negation and a quote that it denies."""

BEGINS_ANEW = re.compile(
    rf"\b(?:{_AHEAD}|that|who|which|where|when|because|since|so|and|but|until|while|although|if|unless|than|as|then"
    r"|except|besides|only|before|after|for"
    r"|ich|wir|er|sie|es|mein\w*|unser\w*|dass|weil|denn|und|aber|sondern|ausser|bis|nur|seit"
    r"|je|nous|il|elle|mon|ma|mes|notre|que|qui|et|mais|sauf|parce|depuis"
    r"|yo|mi|mis|él|ella|y|pero|porque|sino|salvo|excepto|desde"
    r"|eu|meus?|minhas?|ele|ela|e|mas|pois|senão|exceto|io|mio|mia|che|perché|tranne|bensì"
    r"|ik|mijn|wij|dat|die|en (?=ik|mijn|hou|woon|heb|ben|eet|werk|drink)|maar|want|omdat|behalve"
    r"|я|мой|моя|мы|он|она|что|и|но|а|потому|кроме|только|у"
    r"|ja|mój|moja|że|ale|bo|oprócz|lecz|tylko)\b|\b[jq]u?'|(?:(?<=ne )|(?<=n'))\w+ qu|[我他她它]"
)
"""Where another statement begins, which a word before it does not deny."""

SUBJECT = re.compile(
    rf"\s*(?:{_AHEAD}(?: \w+(?= (?:is|are|was|has|have|lives?|likes?|works?)\b))?|ich|wir|er|sie|es|mein\w* \w+|je|nous"
    r"|il|elle|yo|eu|io|ik|wij|я|мы|ja)\b\s*|\s*j'|我"
)

DENIAL = re.compile(
    r"\b(?:"
    + alternatives(
        rf"""
        (?:not|isn't|wasn't) (?:really |even |at all )?(?:true|the case|right|correct|a fact|so)(?: to say)? that
        (?:it's not|it isn't|it is not|not) (?:like|as though|as if|that)(?=\s{_AHEAD}\b)
        (?:false|untrue|wrong|incorrect|a lie|a myth|a rumou?r|impossible|unlikely|doubtful)(?: to say)? that
        (?:don't|doesn't|didn't|do not|does not|did not|dont|never|nobody|no one|hardly anyone|neither of us)\
        (?: \w+ly| even| ever)? (?:thinks?|thought|believes?|believed|suppose|says?|said|claims?|claimed|mean|meant\
        |suspect|guess|assume|feel like)(?: that\b|(?=\s{_AHEAD}\b))
        (?:not|n't)(?: \w+ly| so| too)? (?:sure|certain|convinced)(?: that\b|(?=\s{_AHEAD}\b))
        (?<!no )(?<!n't )(?<!not )(?<!never )(?:doubt|doubts|doubted|deny|denies|denied|dispute)(?: that\b\
        |(?=\s{_AHEAD}\b))
        (?:stimmt|glaube?|glaubt|denke?|denkt|meine?|sage?|sagte|behaupte\
        |heisst) (?:ich )?(?:doch |ja |aber )?nicht,? dass
        nicht (?:wahr|so|richtig|der fall|sicher),? dass | niemand \w+,? dass | bezweif\w+(?: ich)?,? (?:dass|ob)
        (?:falsch|unwahr|gelogen|lüge|unsinn|quatsch),? dass
        pas (?:vrai|exact|certain|sûre?|le cas) qu(?:e\b|')
        (?:crois|pense|dis|croit|dit) pas qu(?:e\b|') | (?:doute|faux|nie) qu(?:e\b|')
        personne ne (?:pense|croit|dit) qu(?:e\b|')
        no (?:es|era) (?:(?:verdad|cierto|así) )?que | no (?:creo|pienso|digo|cree|dije) que
        (?:dudo|niego|es falso|es mentira|nadie (?:cree|piensa|dice)) que
        não (?:é|era) (?:(?:verdade|certo) )?que | não (?:acho|creio|penso|acredito|disse) que
        (?:duvido|nego|é falso|é mentira|ninguém (?:acha|pensa|diz)) que
        non è (?:(?:vero|detto) )?che | non (?:credo|penso|dico|ho detto) che
        (?:dubito|nego|è falso|nessuno (?:crede|pensa|dice)) che
        niet (?:waar|zo|zeker) dat | (?:denk|geloof|zeg|beweer) (?:ik )?niet dat | betwijfel(?: ik)? (?:dat|of)
        niemand \w+ dat
        nie ?prawda,? że | nie (?:sądzę|myślę|wierzę|uważam|mówię),? że\w* | wątpię,? (?:że|by|żeby)\w*
        nikt nie \w+,? że
        (?:неправда|не правда|неверно|ложь),? что | не (?:думаю|верю|считаю|говорил[аи]?|уверена?),? что
        сомневаюсь,? что | никто не \w+,? что
        (?:ليس|غير) صحيح\w* أن\w* | لا (?:أظن|أعتقد) أن\w* | أشك أن\w*
        """
    )
    + r")|(?:不认为|不觉得|不相信|不信|怀疑|没说过?|没有说过?|并不是说?|并非)(?=我|.?$)"
)
"""Denies or doubts what follows it."""

DENIED_AFTER = re.compile(
    r"[\s,;—–-]*(?:(?:but|and|aber|maar|mais|pero|mas|ma|но|ale) )?(?:(?P<over>(?:"
    r"no longer|no more|not any ?more|any ?more|(?:nun |jetzt )?nicht mehr|niet meer|non più|ya no|não mais|já não"
    r"|już nie|(?:больше|уже) н(?:е|ет)|plus maintenant|pas plus)"
    r"|not(?: really| at all| true| yet)?|never"
    r"|(?:überhaupt |gar |noch |wirklich )?(?:nicht|nie|niemals)(?: gerne?| wirklich)?"
    r"|(?:helemaal |nog )?(?:niet|nooit)(?: graag)?|pas(?: du tout)?|jamais)"
    r"(?=\s*(?:[.!,;)。]|$|\n|(?:und|aber|weil|en|maar|and|but|et|mais) )))"
    r"|\s+(?:plus|não|nie|нет)(?=\s*(?:[.!;)]|$|\n))|\s+pas\b(?! (?:loin|mal|cher|seul))"
    r"|(?!な(?:ければ|くては|きゃ))(?:(?!ます|です|[てで]も)[ぁ-ん]){0,5}?(?:ません|ない|なかった|なく)(?!か[。?])"
    r"|[ぁ-ん]{0,6}とは?(?:思わ|思いませ|限ら)|[ぁ-ん]{0,6}というのは(?:嘘|うそ|間違)"
    r"|\s?(?:지 )?(?:않|못[하해했합]|아니[에었야]|아닙|없[어습었다])|是(?:假|错)的|不是真的"
)
"""Right after a quote, denies it."""

PAST = re.compile(r"\b(?:used to|was|were|had|lived|worked|\w{2,}ed|war|hatte|wohnte|étais|avais|era|vivía|ero)\b")

HOPE = re.compile(
    r"\b(?:"
    + alternatives(
        rf"""
        (?:hope|hopes|hoped|hoping|pray|praying)(?: that)?(?=\s(?!you|this|that|it helps|it's ok){_AHEAD}\b)
        (?:hope|hopes|hoped|hoping|dream|dreams|dreaming) (?:to|of|for)
        (?:hoffe|hoffen|hofft)(?: ich| wir)?,? (?:dass )?(?=(?:ich|wir|er|mein\w*)\b) | espér(?:ons|ez) qu(?:e\b|')
        espère qu(?:e\b|')(?! ?(?:tu|vous|ça|cela|tout)) | espero que(?! (?:est|te|le|todo|tudo|isso|esto|você)\w*)
        spero (?:che|di)(?! (?:tu|stia|vada)) | hoop (?:dat(?! (?:je|het|u))|te)
        mam nadzieję,? że(?! (?:ty|to|u)\b)
        надеюсь,? (?:что )?(?=(?:я|мы|мой|моя)\b) | (?:أتمنى|آمل) أن
        """
    )
    + r")|希望(?=我|能|可以|会|以后)"
)
"""Hopes for what follows it."""

HOPED_AFTER = re.compile(r"[ぁ-ん]{0,4}(?:といいな|たらいい|かもしれ)|\s?(?:면 좋겠|지도 (?:몰|모르))")
"""Right after a quote, makes a hope or a maybe of it."""

# Somebody else's words

_NO_CLAIMANT = alternatives(
    r"""
    i | we | i've | we've | i'd | i'll | i'm | me | having | have | had | just | already | also | once | never
    ever | always
    often | as | and | or | but | not | to | would | could | should | must | can | will | may | might | do | did
    \w+n't
    let's | please | that | it | this | yesterday | before | earlier | enough | now | so | still | all
    doctor | doctors | doc | dr | dentist | therapist | vet | nurse | gp | lawyer | bank | letter | contract | test
    tests
    result | results | report | label | passport | certificate | website | app | scale | calendar | ticket | invoice
    """
)
_CLAIMANT = (
    rf"(?<![\w'])(?!(?:{_NO_CLAIMANT})\b)[\w'-]{{1,30}} "
    r"(?:(?:always|still|also|just|often|really|all|once|now|even|keep|keeps) )?"
)
CLAIM = re.compile(
    rf"{_CLAIMANT}(?:claim(?:s|ed|ing)?|say(?:s|ing)?|said|told|tells|think(?:s|ing)?|thought|believe[sd]?|insist(?:s|ed)?"
    rf"|swears|swore|allege[sd]?|assume[sd]?|suspect(?:s|ed)?|pretend(?:s|ed))(?: to)?"
    rf"(?: (?:me|us|you|him|her|them|everyone|everybody|people))?(?: that\b|(?=\s{_AHEAD}\b))"
    r"|\b(?:"
    + alternatives(
        r"""
        (?<!ich )(?<!arzt )(?<!ärztin )(?:behauptete?|sagte?|meinte?|glaubte?|denkt)(?: mir)?,? \
        (?=(?:dass|ich|wir|mein\w*)\b(?!,))(?:dass )?
        (?<!je )(?<!médecin )(?<!docteur )(?:prétend|affirme|dit|disent|pense|croit|soutient)(?: à tous)? qu(?:e\b|')
        (?<!médico )(?<!doctora )(?<!doctor )(?:dicen?|afirma|cree|piensa|asegura|dijo|dijeron) que
        (?<!médico )(?<!médica )(?:diz|dizem|acha|acham|pensa) que
        (?<!medico )(?<!dottore )(?:dice|dicono|sostiene|afferma|crede|ha detto) che
        (?<!ik )(?<!dokter )(?<!arts )(?:beweert|zegt|denkt|gelooft) dat
        (?:twierdzi|mówi|uważa|powiedziała?),? że
        (?<!я )(?<!врач )(?:утверждает|говорит|думает|считает|говорят|сказала?),? что
        يقول\w* (?:صديقي )?(?:إن|أن)\w* | يدعي \w* ?أن\w*
        """
    )
    + r")|(?:他们?|她们?|朋友|妈|爸|老婆|老公|同事|老板|大家|有人|人家)(?:总|都|常)?(?:说|声称|认为|觉得|以为)"
)
"""Somebody else says or thinks what follows it."""

DOUBTED_OF_ME = re.compile(
    rf"{_CLAIMANT}(?:claim(?:s|ed)?|think(?:s)?|believe[sd]?|allege[sd]?|assume[sd]?|suspect(?:s|ed)?"
    r"|pretends)(?: that)?"
    r"(?=\s(?:i|i'm|i've|we|my)\b)"
)
"""Somebody else thinks something of the speaker, who may not agree: no fact, even if the quote has it all."""

CLAIMED_AFTER = re.compile(
    r"\s?, (?:or so )?(?:(?:he|she|they|you|my \w+) (?:says?|said|claims?|claimed|thinks?)"
    r"|(?:says|claims|said) (?!i\b))"
    r"|[ぁ-ん]{0,4}(?:と|って)(?:.{0,8})?(?:言っています|言っている|言われ|主張して)|(?<=고)\s(?:말|주장|했|해요|합니다|하더)"
)
"""Right after a quote, says who else says so."""
