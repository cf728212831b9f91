"""The shapes of secrets: what keys, tokens, passwords and e-mail addresses look like in lines of logs.

A shape is particular on purpose: prose about passwords stays as it is, and so does everything that rules read (UUIDs,
PCI addresses, digests, host names). docs/redaction.md says in words what is taken out and what cannot be known.

No run of a pattern can begin inside another of its own, repeats are bounded or possessive: the time is linear in the
text, whatever the text is.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of secret. `hints` are texts, in lower case, of which one must be there before the pattern is tried;
    what the pattern has in its group `keep` stays. A `caseless` pattern is written in lower case and sees such a text.
    """

    kind: str
    hints: tuple[str, ...]
    pattern: str
    caseless: bool


def _exact(kind: str, hints: str, pattern: str) -> Shape:
    return Shape(kind, tuple(hints.split()), pattern, caseless=False)


def _caseless(kind: str, hints: str, pattern: str) -> Shape:
    return Shape(kind, tuple(hints.split()), pattern, caseless=True)


def _after(kind: str, hints: str, before: str, value: str) -> Shape:
    """A value that what stands before it says is secret."""
    return _caseless(kind, hints, f"(?P<keep>{before}){_NOTHING}{value}")


#: A name that says its value is secret: in an assignment (PGPASSWORD=…), an option (--api-key …), JSON, YAML or INI.
_NAMES = (
    r"(?:pass(?:word|wd|[_-]?phrase)"
    r"|secret(?:[_-]?(?:access)?[_-]?key)?"
    r"|(?:api|access|account|sharedaccess|signing|encryption|master|private|license|subscription)[_-]?key|private[_-]?key[_-]?id"
    r"|sharedaccesssignature"
    r"|(?:access|auth|refresh|bearer|session|security|api|sas|deploy|registry|csrf|hub)[_-]?token"
    r"|identitytoken)"
)
_NAME_HINTS = (
    "password passwd passphrase pass_phrase pass-phrase secret apikey _key -key accesskey accountkey privatekey"
    " sharedaccess _token -token authtoken accesstoken sessiontoken identitytoken"
)
_QUOTE = r"\\{0,2}[\"']"
_MAYBE_QUOTE = rf"(?:{_QUOTE})?"
_COLON = rf"{_MAYBE_QUOTE}[ ]?:[ ]?{_MAYBE_QUOTE}"
#: Between two words of a command: blanks, or what is between them where Python or JSON prints a list of arguments.
_NEXT = rf"(?:[ ]{{1,8}}{_MAYBE_QUOTE}|{_QUOTE},[ ]?b?{_QUOTE})"
#: Between an option and its value, and before an option further on.
_THEN = rf"(?:={_MAYBE_QUOTE}|{_NEXT})"
_LATER = r"[^\n]{0,120}?[ \"']"
#: What stands where a secret would and is none: a variable, a placeholder, a word for nothing, an expression of code,
#: the path of a file that holds it.
_NOTHING = (
    r"(?!\*{3}|\.{3}|x{3}|-{3}|\$[{(]|\$\w{1,64}(?![^\s\"'\\&,;])|%[\w(]|…|\{\{|<[\w |]"
    r"|(?:none|null|nil|true|false|yes|no|required|undefined|unset|empty|missing|invalid|hidden|redacted|masked)"
    r"(?![^\s\"'\\&,;:)\]}.])"
    r"|(?:os|self|args|config|cfg|kwargs|env|settings|opts?|options)[.(\[]"
    r"|~/|\.{1,2}/|file:|/(?:etc|run|var|home|root|opt|usr|mnt|srv|tmp|data|scratch|lustre|gpfs|workspace)/)"
)
#: Up to the next blank, quote or separator.
_VALUE = r"[^\s\"'\\&,;]{1,4096}"
_TO_BLANK = r"[^\s\"'\\]{3,4096}"
#: At least one digit, which a word of prose has not.
_DIGIT = r"(?=[^\s\d\"']{0,255}\d)"
_END_OF_LINE = rf"(?={_MAYBE_QUOTE}[ \t]{{0,8}}\r?(?:\n|\Z))"

#: Values that a name, a header or an address says are secret. What stands inside one of them is part of it.
VALUES = (
    _exact(
        "private key",
        "key-----",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        # To its end, or, where that is not there, as far as its lines go on.
        r"(?:[^-]*+(?:-(?!----)[^-]*+)*+-----END [A-Z0-9 ]{0,40}-----"
        r"|(?:(?:\\[rn]|[\s|>\"'+,]){0,200}[A-Za-z0-9+/=]{16,}+(?=\\[rn]|[ \t]{0,8}[\"'\r\n]|[ \t]{0,8}\Z)){0,400})",
    ),
    _after(
        "password", "://", r"://[^\s/:@\"'<>\[\]]{0,256}:", r"(?!\d{1,5}[,;])(?:[^\s/\"'<>]{1,512}|[\w/+=]{40})(?=@)"
    ),
    _after("token", "://", "://", r"(?=[^\s/:@]{0,255}\d)[\w.~-]{20,255}(?=@)"),
    _after(
        "credentials",
        "authorization",
        rf"\b(?:proxy-)?authorization{_MAYBE_QUOTE}[ ]?[:=][ ]?{_MAYBE_QUOTE}(?:basic|token|apikey|key|negotiate)[ ]",
        r"[\w.~+/=-]{8,8192}",
    ),
    _after("token", "bearer", r"\bbearer[ :]{1,3}", rf"{_DIGIT}[\w.~+/-]{{16,8192}}=*"),
    _after("signature", "digest", r"\bdigest[ ][^\n]{0,400}?\bresponse=\"", r"[0-9a-f]{32,128}"),
    _after("credentials", "auth", r"\bauth[ ](?:plain|login)[ ]", r"[a-z0-9+/]{8,4096}=*"),
    _after("cookie", "cookie", rf"\b(?:set-)?cookie{_COLON}", r"(?=[\w.-]{1,128}=)[^\"'\n\r\\]{1,8192}"),
    _after(
        "token",
        "x-api x-auth x-vault x-access x-gitlab x-csrf x-amz x-goog x-aws -token api-key subscription-key",
        r"\b(?:x-(?:api|auth|vault|access|gitlab|csrf|amz-security|goog-api|aws-ec2-metadata)-?(?:key|token)"
        rf"|private-token|job-token|api-key|ocp-apim-subscription-key){_COLON}",
        r"[^\s\"'\\,;]{8,4096}",
    ),
    _after(
        "signature",
        "signature=",
        r"\b(?:x-(?:amz|goog)-)?signature=",
        r"(?:[0-9a-f]{32,512}|[\w+/%-]{40,512}=*)",
    ),
    _after(
        "token",
        "sig= token= auth= key= jwt= secret= password= signature=",
        r"[?&](?:amp;)?(?:(?:[\w-]{0,32}[_-])?(?:token|signature)|sig|auth|key|apikey|jwt|secret|password)=",
        r"[^\s&\"'<>#/\\,;]{8,4096}",
    ),
    _exact(
        "token",
        "_token=",
        r"(?P<keep>\b[A-Z0-9_]{1,64}_TOKEN=)(?=[\w.-]{0,255}\d)[\w.-]{16,255}+[^\s\"'\\&,;]{0,4096}",
    ),
    _after(
        "token",
        "token",
        rf"[\w-]{{0,64}}token{_QUOTE}[ ]?[:=][ ]?{_QUOTE}",
        rf"(?=[\w.-]{{0,255}}\d)[\w.-]{{16,255}}+[^\s\"'\\]{{0,4096}}(?={_QUOTE})",
    ),
    _after("credentials", "auth", rf"{_QUOTE}auth{_QUOTE}[ ]?:[ ]?{_QUOTE}", r"[a-z0-9+/]{8,4096}=*"),
    # A variable of the shell, whose value may have an "&" in it, as none in an address has.
    _exact(
        "secret",
        "password= passwd= secret= _key=",
        r"(?P<keep>(?<![\w?&])[A-Z0-9_]{0,64}(?:PASSWORD|PASSWD|SECRET|(?:API|ACCESS|SECRET|PRIVATE)_KEY)=)"
        rf"{_NOTHING}[^\s\"'\\,;]{{1,4096}}",
    ),
    # The value to its closing quote; then to the next blank or separator.
    _after(
        "secret",
        _NAME_HINTS,
        rf"{_NAMES}{_MAYBE_QUOTE}[ ]?[:=][ ]?(?P<quote>[\"'])",
        r"[^\"'\n\\]{1,4096}(?=(?P=quote))",
    ),
    _after("secret", _NAME_HINTS, rf"{_NAMES}(?:={_MAYBE_QUOTE}|{_QUOTE}[ ]?[:=][ ]?{_QUOTE})", _VALUE),
    _after("secret", _NAME_HINTS, rf"{_NAMES}{_QUOTE}[ ]?:[ ]?", r"[\w.+-]{1,255}"),
    _exact(
        "secret",
        "_pass= _pwd= _auth= _creds= _cred=",
        rf"(?P<keep>\b[A-Z0-9_]{{1,64}}_(?:PASS|PWD|AUTH|CREDS?)={_MAYBE_QUOTE}){_NOTHING}{_VALUE}",
    ),
    # A variable and its value as two words, in a list of pairs or in a pod's description.
    _exact(
        "secret",
        "api_key access_key secret_key _token password _secret",
        r"(?P<keep>\b[A-Z0-9_]{0,64}(?:API_KEY|ACCESS_KEY|SECRET_KEY|_TOKEN|PASSWORD|_SECRET)"
        rf"{_MAYBE_QUOTE}[ ,]{{1,3}}(?:{_MAYBE_QUOTE}value{_MAYBE_QUOTE}[ ]?[:=][ ]?)?{_MAYBE_QUOTE})"
        rf"{_DIGIT}(?=[^\sa-z]{{0,255}}[a-z])[\w+/=.~-]{{16,4096}}",
    ),
    _after("password", "pwd=", r";[ ]?pwd=", _VALUE),
    # INI and YAML: the last word of its line; before "=" also one that looks made up.
    _after(
        "secret",
        _NAME_HINTS,
        rf"{_NAMES}[ \t]{{0,8}}=[ \t]{{1,8}}",
        rf"(?:[^\s\"'(){{}}\[\],;]{{3,4096}}{_END_OF_LINE}|{_DIGIT}[^\s\"'(){{}}\[\],;]{{8,4096}}+(?![(\[]))",
    ),
    _after(
        "secret",
        f"{_NAME_HINTS} token: -data:",
        rf"(?:{_NAMES}|\btoken|\bclient-(?:key|certificate)-data)[ \t]{{0,8}}:[ \t]{{1,8}}{_MAYBE_QUOTE}",
        rf"{_DIGIT}(?=[^\sa-z]{{0,255}}[a-z])[^\s\"'(){{}}\[\],;]{{6,16384}}{_END_OF_LINE}",
    ),
    # Options of commands.
    _after(
        "secret",
        "--",
        rf"--(?:\w{{1,32}}-){{0,2}}{_NAMES}[= ](?P<quote>[\"'])",
        r"[^\"'\n\\]{1,4096}(?=(?P=quote))",
    ),
    _after("secret", "--", rf"--(?:\w{{1,32}}-){{0,2}}{_NAMES}{_THEN}", rf"(?!-){_TO_BLANK}"),
    _after("token", "token", rf"--(?:\w{{1,32}}-){{0,2}}token{_THEN}", rf"(?!-){_DIGIT}[^\s\"'\\]{{8,4096}}"),
    _after("password", "login", r"\blogin[ \t]{1,8}\S{1,255}[ \t]{1,8}password[ \t]{1,8}", r"\S{1,4096}"),
    _after("password", "login", rf"\blogin\b{_LATER}-p{_NEXT}", rf"(?!-){_TO_BLANK}"),
    _after("password", "sshpass", rf"\bsshpass{_NEXT}-p{_NEXT}?", _TO_BLANK),
    _after("password", "mysql mariadb", rf"\b(?:mysql|mariadb)\w{{0,16}}\b{_LATER}-p{_MAYBE_QUOTE}", _TO_BLANK),
    _after("password", "ldap", rf"\bldap\w{{1,16}}\b{_LATER}-w{_NEXT}?", rf"(?!-){_TO_BLANK}"),
    _after("password", "pass:", rf"-(?:pass(?:in|out)?|k){_NEXT}pass:", _TO_BLANK),
    _after(
        "secret",
        "aws_secret_access_key aws_session_token",
        rf"\bset{_NEXT}(?:[\w.-]{{1,64}}\.)?aws_(?:secret_access_key|session_token){_NEXT}",
        _TO_BLANK,
    ),
    _after(
        "password",
        "curl wget",
        rf"\b(?:curl|wget)\b{_LATER}(?:-u|--user){_THEN}[^\s:\"'/]{{1,64}}:",
        r"[^\s\"']{1,4096}",
    ),
    _after("token", "wandb", rf"\bwandb{_NEXT}login{_NEXT}(?:--[\w=:/.-]{{1,64}}{_NEXT}){{0,4}}", r"[0-9a-z_]{32,255}"),
    _after(
        "password",
        "identified password",
        r"\b(?:identified[ ]by|(?:with|encrypted)[ ]password|role[ ]\w{1,64}[ ](?:login[ ])?password)[ ]'",
        r"[^'\n]{1,1024}",
    ),
    _after("webhook", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows)/", r"[\w/-]{16,512}"),
    _after("webhook", "/webhooks/", r"discord(?:app)?\.com/api/webhooks/", r"\d{6,32}/[\w-]{16,512}"),
)

#: Texts that are secret by their own form, wherever they stand.
TOKENS = (
    _exact("AWS key", "akia asia", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    _exact("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"\bgh[pousr]_[A-Za-z0-9]{30,}+"),
    _exact("GitHub token", "github_pat_", r"\bgithub_pat_\w{22,}+"),
    _exact(
        "GitLab token",
        "glpat- gldt- glrt- glcbt- glptt- glft- glsoat- glagent-",
        r"(?<![\w-])gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent)-[\w.-]{20,}+",
    ),
    _exact("Hugging Face token", "hf_ api_org_", r"\b(?:hf|api_org)_[A-Za-z0-9]{30,}+"),
    _exact("Weights & Biases key", "wandb_v", r"\bwandb_v\d_\w{30,}+"),
    _exact("Slack token", "xox xapp-", r"(?<![\w-])(?:xox[a-z]|xapp)(?:\.xox[a-z])?-[A-Za-z0-9-]{10,}+"),
    _exact("Google key", "aiza", r"(?<![\w-])AIza[\w-]{35,}+"),
    _exact(
        "Google token",
        "ya29. gocspx- 1//0",
        r"(?<![\w.-])(?:ya29\.[\w-]{20,}+|GOCSPX-[\w-]{20,}+|1//0[\w-]{30,}+)",
    ),
    _exact("NVIDIA key", "nvapi-", r"(?<![\w-])nvapi-[\w-]{20,}+"),
    _exact("Anthropic key", "sk-ant-", r"(?<![\w-])sk-ant-[\w-]{20,}+"),
    _exact("API key", "sk-", r"(?<![\w-])sk-(?=[\w-]{0,255}\d)[\w-]{20,}+"),
    _exact("API key", "sk_ rk_ whsec_", r"\b(?:[sr]k_(?:live|test)_|whsec_)[A-Za-z0-9]{16,}+"),
    _exact(
        "API key",
        "gsk_ r8_ xai- pplx- fw_ tgp_v1_ rpa_ lsv2_ kgat_ napi_",
        r"(?<![\w-])(?:gsk_|r8_|xai-|pplx-|fw_|tgp_v1_|rpa_|lsv2_[a-z]{2}_|KGAT_|napi_)(?=[\w-]{0,255}\d)[\w-]{22,}+",
    ),
    _exact("npm token", "npm_", r"\bnpm_[A-Za-z0-9]{36,}+"),
    _exact("PyPI token", "pypi-age", r"(?<![\w-])pypi-AgE[\w-]{30,}+"),
    _exact("Docker Hub token", "dckr_", r"\bdckr_(?:pat|oat)_[\w-]{20,}+"),
    _exact("Databricks token", "dapi", r"\bdapi[0-9a-f]{32}(?:-\d{1,3})?+"),
    _exact("Azure secret", "q~", r"(?<![\w~.-])\w{3}\dQ~[\w~.-]{31,34}(?![\w~.-])"),
    _exact("Vault token", "hvs. hvb. hvr.", r"(?<![\w.])hv[sbr]\.[\w-]{24,}+"),
    _exact("Terraform token", "atlasv1.", r"(?<![\w.])\w{14}\.atlasv1\.[\w-]{40,}+"),
    _exact("Grafana token", "glc_ glsa_", r"\b(?:glc_[\w+/]{32,}+=*|glsa_\w{32,}+)"),
    _exact("DigitalOcean token", "dop_v1_ doo_v1_", r"\bdo[op]_v1_[0-9a-f]{64}"),
    _exact("SendGrid key", "sg.", r"(?<![\w.])SG\.[\w-]{16,32}\.[\w-]{32,}+"),
    _exact("Tailscale key", "tskey-", r"(?<![\w-])tskey-[\w-]{20,}+"),
    _exact("Sentry token", "sntrys_ sntryu_", r"\bsntry[su]_[\w+/=-]{32,}+"),
    _exact("New Relic key", "nrak-", r"(?<![\w-])NRAK-[A-Z0-9]{20,}+"),
    _exact("Telegram token", ":aa", r"(?<![\w:])\d{8,10}:AA[\w-]{33}(?![\w-])"),
    _exact("Alibaba key", "ltai", r"\bLTAI[A-Za-z0-9]{12,24}\b"),
    _exact("age key", "age-secret-key-1", r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}"),
    _exact("Inquest token", "inq_", r"\binq_[0-9a-f]{40,}+"),
    _exact("JSON web token", "eyj", r"(?<![\w.-])eyJ[\w-]{8,}+\.eyJ[\w-]{8,}+(?:\.[\w-]*+)?"),
    # JSON in base64 without dots: a Docker configuration, a Neptune token, a bootstrap file.
    _exact("token", "eyj", r"(?<![\w.+/-])eyJ[\w+/-]{60,}+=*(?!\.)"),
)

#: An address of a person. "user@host" of a machine has the same form, and rules read some of it: accounts of services,
#: the requester that a batch system names, power supplies, "user@host:path" and ssh's own "user@host: Permission
#: denied", units of systemd, and names under domains that nobody gets mail at are left.
EMAIL = _caseless(
    "e-mail address",
    "@",
    r"(?<![\w.+%/@-])(?<!request of )(?<!ups )"
    r"(?!(?:root|git|slurm|slurmctld|munge|pdsh|mpiexec\w{0,16}|modprobe|getty|daemon|nobody|pbs|condor|slot\d\w{0,16}"
    r"|no-?reply)@)"
    r"(?=[\w.+%-]{0,64}[a-z]|\d{3,16}@)[a-z0-9][\w.+%-]*+@(?:[a-z0-9-]{1,63}\.){1,8}"
    r"(?!(?:local|localhost|localdomain|internal|lan|cluster|svc|private|hpc|service|socket|timer|target|mount|slice|scope"
    r"|path|device|swap)(?![\w-]))[a-z]{2,24}(?![\w@-])(?!\.\w)(?!:(?:[^\s]|[ ]permission (?:denied|to)\b))",
)

_KEY_LINES = (64, 70, 76)
_BASE64 = re.compile(r"[A-Za-z0-9+/]+")


def key_lines(text: str) -> list[tuple[int, int]]:
    """Where lines end in a full line of a PEM file: a key that was logged line by line has no BEGIN beside it.

    64, 70 or 76 characters of base64 with upper case, lower case, a digit and what no hexadecimal number has. Each
    line is looked at by itself: what was there before must not decide, since lines come in any order and any batches.
    """
    found = []
    start = 0
    for line in text.split("\n"):
        word = line.rstrip("\r\t \"',")
        begin = max(word.rfind(" "), word.rfind("\t"), word.rfind('"'), word.rfind("'")) + 1
        if len(word) - begin in _KEY_LINES and _is_key_line(word[begin:]):
            found.append((start + begin, start + len(word)))
        start += len(line) + 1
    return found


def _is_key_line(word: str) -> bool:
    kinds = (str.isupper, str.islower, str.isdigit)
    return (
        _BASE64.fullmatch(word) is not None
        and all(any(map(kind, word)) for kind in kinds)
        and re.search(r"[g-zG-Z+/]", word) is not None
        and not word.startswith("/")
        and "//" not in word
    )
