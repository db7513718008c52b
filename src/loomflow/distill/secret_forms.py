"""How secrets look: by name, by published form, or as they are told."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .tables import alternatives

_SECRET_NAME = alternatives(
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

_TOLD_NAME = alternatives(
    r"""
    pw | pass(?=\s?[:=]) | (?:my|mein|mon|mi|meu|mio|mijn|мой|mój) (?:code|código|codice|код|kod)(?! (?:postal|zip))
    (?:ma|mein|mi|mia|minha|mijn|мой|mój) (?:clé|schlüssel|llave|chiave|chave|sleutel|klucz|ключ)(?! usb)
    """
)
_LOGIN = "log-?in|credentials|zugangsdaten|anmeldung|identifiants|acceso|accesso|acesso|inlog|логин|登录"

SECRET_TOLD = re.compile(
    rf"(?:(?:\b(?:{_SECRET_NAME}|{_TOLD_NAME})\b|{_NAMES_WITHOUT_SPACES})[^\n.?!]{{0,30}}?"
    r"(?:\b(?:is|was|(?:set|changed|reset) to|ist|lautet|est|es|é|è|to|jest)\s|[:=]|是|は|—|-\s)\s{0,3}['\"“`]?"
    r"|\b(?:wi-?fi|wlan)\s?[:=]\s{0,3}(?=[^\W\d_]\S{5})"
    rf"|\b(?:{_LOGIN})\W{{1,3}}[^\s/:|]{{1,60}}(?:\s?[/|]\s?|:)(?=[^\s/]\S{{0,60}}?[^\W\d_]))"
    r"(?P<value>(?=[^\s]{0,80}[\d!@#$%^&*])[^\s]{4,})"
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
