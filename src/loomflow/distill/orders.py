"""The words that tell an agent what to do, see `loomflow.distill.markers` for how the tables are read."""

from __future__ import annotations

import re

from .tables import LEAD_IN, opening, words

_ANSWERING = (
    r"(?:answer|respond|reply|say|write|speak|use|include|begin|start|end|recommend|mention|reveal|tell|call|refer|ask"
    r"|act|be|obey|follow|ignore|pretend|trust|treat|approve|agree|suggest|give|keep|add)"
)
COMMAND = re.compile(
    rf"^{LEAD_IN}(?:act as\b|(?:(?:you (?:should|must|will|shall|have to|need to)|remember to"
    rf"|make sure (?:to|you|that you)|be sure to) (?:always |never |only )?|always |never |only |do not ever"
    rf"|don't ever )"
    rf"{_ANSWERING}\b)"
    rf"|^{LEAD_IN}(?:from now on|going forward|henceforth|in future),? (?:please )?(?!call me|address me"
    rf"|refer to me)(?:you|your|always|never|only|do not|don't|{_ANSWERING})\b"
     r"|"
    + words(
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

REQUEST = opening(
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

WHEN_ASKED = words(
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
    + words(
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
DUTY = re.compile(
    r"(?:must|should|shall|has to|have to|needs to|is required to|is instructed to|will always|will never)\b"
)
RULE = re.compile(r"(?:instructions?|system prompt|system message|system instruction|new rule|agent rule|directive)")
PREFERENCE = words(
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
