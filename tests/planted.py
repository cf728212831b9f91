"""Secrets as logs really carry them, for tests that look for them afterwards.

None of these is anybody's. They are put together here, so that no scanner takes this file for a leak.
"""

import base64
import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Planted:
    """A line, what in it must not be found again, and the kind that stands in its place."""

    name: str
    line: str
    secret: str
    kind: str


def _text(seed: str, length: int, alphabet: str = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789") -> str:
    """A text that looks random, the same every time, with a digit and both cases in its first characters."""
    out, number = "", 0
    while len(out) < length:
        digest = hashlib.sha256(f"{seed}/{number}".encode()).digest()
        out += "".join(alphabet[byte % len(alphabet)] for byte in digest)
        number += 1
    head = "".join(next(ch for ch in alphabet if kind(ch)) for kind in _kinds(alphabet))
    return (head + out)[:length]


def _kinds(alphabet: str) -> list[object]:
    return [kind for kind in (str.isdigit, str.islower, str.isupper) if any(map(kind, alphabet))]


def _hex(seed: str, length: int) -> str:
    return _text(seed, length, "0123456789abcdef")


def _upper(seed: str, length: int) -> str:
    return _text(seed, length, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")


def _base64(seed: str, length: int) -> str:
    return base64.b64encode(hashlib.sha512(seed.encode()).digest() * 4).decode()[:length]


def _jwt(seed: str) -> str:
    return ".".join(["eyJ" + _text(seed + "h", 33), "eyJ" + _text(seed + "p", 120), _text(seed + "s", 43)])


def _p(name: str, kind: str, secret: str, line: str) -> Planted:
    """`line` has "{}" where the secret stands."""
    return Planted(name, line.replace("{}", secret), secret, kind)


PEM_BODY = [_base64(f"pem{number}", 64) for number in range(4)]
OPENSSH_BODY = [_base64(f"ssh{number}", 70) for number in range(3)]

PLANTED = [
    # Cloud credentials
    _p("aws-key-id", "AWS key", "AK" + "IA" + _upper("a", 16), "botocore: using AWS_ACCESS_KEY_ID={} from env"),
    _p("aws-secret-env", "secret", _base64("b", 40), "export AWS_SECRET_ACCESS_KEY={}"),
    _p("aws-secret-ini", "secret", _base64("c", 40), "aws_secret_access_key = {}"),
    _p("aws-secret-json", "secret", _base64("d", 40), '{"AccessKeyId": "x", "SecretAccessKey": "{}"}'),
    _p("aws-session-token", "secret", _base64("e", 200), "AWS_SESSION_TOKEN={}"),
    _p("aws-sts-key", "AWS key", "AS" + "IA" + _upper("f", 16), "assumed role with {} for 3600 s"),
    _p("s3-signed-url", "signature", _hex("g", 64), "GET https://b.s3.amazonaws.com/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature={} 403"),
    _p("s3-security-token", "token", _base64("h", 120).replace("/", "%2F").replace("+", "%2B"), "GET /k?X-Amz-Security-Token={}&X-Amz-Expires=60 HTTP/1.1"),
    _p("aws4-header", "signature", _hex("i", 64), "Authorization: AWS4-HMAC-SHA256 Credential=x/20261103/us-east-1/s3/aws4_request, SignedHeaders=host, Signature={}"),
    _p("gcp-service-account", "private key", PEM_BODY[0], '{"type": "service_account", "private_key": "-----BEGIN PRIVATE ' + 'KEY-----\\n{}\\nxyz\\n-----END PRIVATE KEY-----\\n"}'),
    _p("gcp-api-key", "Google key", "AI" + "za" + _text("j", 35), "calling maps with key {} failed"),
    _p("gcp-oauth", "Google token", "ya" + "29." + _text("k", 60), "google.auth: refreshed {} expires in 3599"),
    _p("azure-storage", "secret", _base64("l", 86) + "==", "DefaultEndpointsProtocol=https;AccountName=ckpt;AccountKey={};EndpointSuffix=core.windows.net"),
    _p("azure-sas", "token", _base64("m", 43).replace("/", "%2F").replace("+", "%2B") + "%3D", "azcopy: https://ckpt.blob.core.windows.net/c?sv=2024-08-04&ss=b&sig={} failed"),
    _p("azure-service-bus", "secret", _base64("n", 43) + "=", "Endpoint=sb://q.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={}"),
    _p("azure-client-secret", "Azure secret", _text("o", 3) + "8Q" + "~" + _text("p", 34), "az login with {} denied"),
    _p("oci-pass-phrase", "secret", _text("q", 14), "pass_phrase={}"),
    # Connection strings
    _p("postgres-url", "password", _text("r", 14), "OperationalError: postgresql://trainer:{}@db.example.org:5432/runs refused"),
    _p("mysql-url", "password", "p@ss" + _text("s", 9), "mysql+pymysql://root:{}@10.0.0.7/slurm_acct_db"),
    _p("redis-url", "password", _text("t", 20), "celery: rediss://:{}@cache:6379/0 timed out"),
    _p("mongodb-url", "password", _text("u", 16), "mongodb+srv://ada:{}@cluster0.example.net/?retryWrites=true"),
    _p("amqp-url", "password", _text("v", 12), "kombu: amqp://inquest:{}@mq//: [Errno 111]"),
    _p("key-value-dsn", "secret", _text("w", 12), "psycopg: host=db user=ada password={} dbname=runs"),
    _p("odbc-dsn", "password", _text("x", 12), "Server=tcp:sql;Database=runs;Uid=ada;Pwd={};Encrypt=yes"),
    _p("url-username-token", "token", _hex("y", 32), "sentry: https://{}@o1.ingest.example.org/12"),
    # Tokens with a form of their own
    _p("jwt", "JSON web token", _jwt("z"), "slurmrestd: X-SLURM-USER-TOKEN rejected {}"),
    _p("kubernetes-token", "JSON web token", _jwt("k8s"), "mounted /var/run/secrets/kubernetes.io/serviceaccount/token: {}"),
    _p("wandb-env", "secret", _hex("aa", 40), "WANDB_API_KEY={}"),
    _p("wandb-login", "token", _hex("ab", 40), "+ wandb login --relogin {}"),
    _p("wandb-v1", "Weights & Biases key", "wandb_v" + "1_" + _text("ac", 60), "wandb: using key {} for entity lab"),
    _p("hugging-face", "Hugging Face token", "h" + "f_" + _text("ad", 34), "huggingface_hub: 401 for token {}"),
    _p("openai", "API key", "s" + "k-proj-" + _text("ae", 48), "openai.AuthenticationError: Incorrect API key provided: {}"),
    _p("anthropic", "Anthropic key", "sk-" + "ant-api03-" + _text("af", 80), "anthropic: x {} y"),
    _p("ngc", "NVIDIA key", "nv" + "api-" + _text("ag", 64), "ngc config: {} is expired"),
    _p("github", "GitHub token", "gh" + "p_" + _text("ah", 36), "remote: Invalid credentials {}"),
    _p("github-fine", "GitHub token", "github_" + "pat_" + _text("ai", 82), "pip install git+https://x-access-token:{}@github.com/lab/private.git"),
    _p("gitlab", "GitLab token", "gl" + "pat-" + _text("aj", 20), "fatal: could not read with {}"),
    _p("slack", "Slack token", "xo" + "xb-" + _text("ak", 40), "notify: {} invalid_auth"),
    _p("slack-webhook", "webhook", "T" + _upper("al", 9) + "/B" + _upper("am", 9) + "/" + _text("an", 24), "POST https://hooks.slack.com/services/{} 404"),
    _p("npm", "npm token", "np" + "m_" + _text("ao", 36), "npm ERR! {} E401"),
    _p("pypi", "PyPI token", "pypi-" + "AgEIcHlwaS5vcmc" + _text("ap", 120), "twine: {} rejected"),
    _p("docker-hub", "Docker Hub token", "dckr_" + "pat_" + _text("aq", 27), "pull access denied, used {}"),
    _p("databricks", "Databricks token", "da" + "pi" + _hex("ar", 32), "mlflow: {} expired"),
    _p("vault", "Vault token", "hv" + "s." + _text("as", 90), "vault: permission denied for {}"),
    _p("inquest", "Inquest token", "in" + "q_" + _hex("at", 64), "401 from https://inquest.example.org with {}"),
    # Headers
    _p("basic-header", "credentials", _base64("au", 32), "> Authorization: Basic {}"),
    _p("bearer-header", "token", _text("av", 43), '{"headers": {"Authorization": "Bearer {}"}}'),
    _p("curl-bearer", "token", _text("aw", 43), "curl -sH 'Authorization: Bearer {}' https://api.example.org"),
    _p("cookie", "cookie", "sessionid=" + _text("ax", 32) + "; csrftoken=" + _text("ay", 32), "> Cookie: {}"),
    _p("set-cookie", "cookie", "sessionid=" + _text("az", 32) + "; HttpOnly", "< Set-Cookie: {}"),
    _p("vault-header", "token", _text("ba", 26), "X-Vault-Token: {}"),
    _p("gitlab-header", "token", _text("bb", 26), "curl --header 'PRIVATE-TOKEN: {}' https://gitlab.example.org"),
    _p("query-token", "token", _text("bc", 32), "GET https://jupyter.example.org/lab?token={} 200"),
    # Commands, files of configuration, dumped environments
    _p("option", "secret", _text("bd", 12), "train.py --registry-password {} --steps 10"),
    _p("option-token", "token", _text("be", 32), "kubeadm join 10.0.0.1:6443 --token {}"),
    _p("pgpassword", "secret", "hunter2x", "PGPASSWORD={} psql -h db"),
    _p("sshpass", "password", _text("bf", 10), "+ sshpass -p {} ssh gpu-017"),
    _p("mysql-option", "password", _text("bg", 10), "mysql -uroot -p{} slurm_acct_db"),
    _p("curl-user", "password", _text("bh", 12), "curl -u ada:{} https://registry.example.org/v2/"),
    _p("docker-list", "password", _text("ca", 12), "Command '['docker', 'login', '-u', 'ada', '-p', '{}', 'r.io']' failed"),
    _p("curl-list", "password", _text("cb", 12), "Command '['curl', '-u', 'ada:{}', 'https://h/x']' returned 22"),
    _p("mysql-list", "password", _text("cc", 12), "args=['mysql', '-h', 'db', '-p{}', 'x']"),
    _p("sshpass-list", "password", _text("cd", 12), "['sshpass', '-p', '{}', 'ssh', 'gpu-017']"),
    _p("option-list", "secret", _text("ce", 12), 'exec ["worker","--db-password","{}","--verbose"]'),
    _p("wandb-list", "token", _hex("cf", 40), "['wandb', 'login', '--relogin', '{}']"),
    _p("aws-configure", "secret", _text("cg", 40), "+ aws configure set aws_secret_access_key {}"),
    _p("openssl-pass", "password", _text("ch", 12), "openssl enc -aes-256-cbc -pass pass:{} -in ckpt"),
    _p("ldapsearch", "password", _text("ci", 12), "ldapsearch -x -D cn=admin -w {} -b dc=example"),
    _p("variable-with-and", "secret", "hunter&2x", "+ PGPASSWORD={} psql -h db"),
    _p("docker-login", "password", _text("bi", 12), "docker login registry.example.org -u ada -p {}"),
    _p("docker-auth", "credentials", _base64("bj", 24), '{"auths": {"nvcr.io": {"auth": "{}"}}}'),
    _p("netrc", "password", _text("bk", 40), "machine api.wandb.ai login user password {}"),
    _p("kubeconfig", "secret", _text("bl", 64), "    token: {}"),
    _p("yaml", "secret", "hunter2-" + _text("bm", 6), "  db_password: {}"),
    _p("json-escaped", "secret", "hunter2y", '{\\"password\\": \\"{}\\"}'),
    _p("python-dict", "token", _text("bn", 34), "environ({'HOME': '/root', 'SITE_TOKEN': '{}'})"),
    _p("quoted-with-blanks", "secret", "correct horse battery " + _text("bo", 4), 'db.connect(password="{}")'),
    _p("env-token", "token", _text("bp", 24), "SITE_TOKEN={}"),
    _p("sql", "password", _text("bq", 12), "CREATE USER 'slurm'@'localhost' IDENTIFIED BY '{}'"),
    _p("mysql-pwd", "secret", "hunter2z", "MYSQL_PWD={} mysql -h db"),
    _p("pod-description", "secret", _hex("br", 40), '{"name": "WANDB_API_KEY", "value": "{}"}'),
    _p("list-of-pairs", "secret", _base64("bs", 40), '("AWS_SECRET_ACCESS_KEY", "{}")'),
    _p("s3-address", "password", "wJ/" + _base64("bt", 37), "s3://ada:{}@bucket/key"),
    _p("digest-header", "signature", _hex("bu", 32), 'Authorization: Digest username="ada", nonce="x", response="{}"'),
    _p("smtp", "credentials", _base64("bv", 24), "AUTH PLAIN {}"),
    _p("option-quoted", "secret", "hunter two " + _text("bw", 4), "train.py --db-password '{}'"),
    # Private keys
    _p("pem-block", "private key", PEM_BODY[1], f"-----BEGIN RSA PRIVATE KEY-----\n{{}}\n{PEM_BODY[2]}\n-----END RSA PRIVATE KEY-----"),
    _p("pem-line", "key line", PEM_BODY[3], "2026-11-03T02:11:04Z stdout F {}"),
    _p("openssh-block", "private key", OPENSSH_BODY[0], f"-----BEGIN OPENSSH PRIVATE KEY-----\n{{}}\n{OPENSSH_BODY[1]}"),
    _p("openssh-line", "key line", OPENSSH_BODY[2], "init: {}"),
    # People
    _p("e-mail", "e-mail address", "ada.lovelace" + "@" + "example.org", "sbatch: mail to {} failed"),
    _p("e-mail-author", "e-mail address", "grace" + "@" + "navy.example.com", "Author: Grace Hopper <{}>"),
]  # fmt: skip
