"""Words that say nothing by themselves, and small talk."""

from __future__ import annotations

import re

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
