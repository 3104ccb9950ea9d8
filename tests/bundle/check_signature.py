# SPDX-License-Identifier: Apache-2.0
"""Checks signatures with Python and its package `cryptography`: written here and verified there, and the
other way round. usage: check_signature.py SAMPLE_TOOL; 77 without the package."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, utils
except ImportError:
    sys.exit(77)

TOOL = os.path.realpath(sys.argv[1])
TYPE = "application/vnd.in-toto+json"
ECDSA = ec.ECDSA(hashes.SHA256())
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256


def run(*words, expected=0):
    done = subprocess.run([TOOL, *words], capture_output=True, text=True)
    assert done.returncode == expected, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def encoded(payload):
    return b"DSSEv1 %d %s %d %s" % (len(TYPE), TYPE.encode(), len(payload), payload)


def spki(public):
    return public.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def index_digest(path):
    with tarfile.open(path) as archive:
        index = json.load(archive.extractfile("index.json"))
    return index["manifests"][0]["digest"].removeprefix("sha256:")


def check_written():
    run("keygen", "a.pem", "a.pub")
    run("sign", "a.tsb", "a.pem")
    with open("a.tsb.sigstore.json", "rb") as file:
        bundle = json.load(file)
    with open("a.pub", "rb") as file:
        public = serialization.load_pem_public_key(file.read())
    with open("a.pem", "rb") as file:
        private = serialization.load_pem_private_key(file.read(), password=None)
    assert private.public_key().public_numbers() == public.public_numbers()
    assert isinstance(public.curve, ec.SECP256R1)
    assert bundle["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
    hint = base64.b64decode(bundle["verificationMaterial"]["publicKey"]["hint"], validate=True)
    assert hint == hashlib.sha256(spki(public)).digest()
    envelope = bundle["dsseEnvelope"]
    assert envelope["payloadType"] == TYPE and len(envelope["signatures"]) == 1
    payload = base64.b64decode(envelope["payload"], validate=True)
    signature = base64.b64decode(envelope["signatures"][0]["sig"], validate=True)
    public.verify(signature, encoded(payload), ECDSA)
    try:
        public.verify(signature, encoded(payload + b" "), ECDSA)
    except InvalidSignature:
        pass
    else:
        raise AssertionError("other bytes verify too")
    statement = json.loads(payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert [s["digest"]["sha256"] for s in statement["subject"]] == [index_digest("a.tsb")]
    return payload


def write(private, payload, signature=None):
    signature = signature or private.sign(encoded(payload), ECDSA)
    bundle = {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {
            "publicKey": {
                "hint": base64.b64encode(hashlib.sha256(spki(private.public_key())).digest()).decode()
            }
        },
        "dsseEnvelope": {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": TYPE,
            "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": ""}],
        },
    }
    with open("a.tsb.sigstore.json", "w", encoding="utf-8") as file:
        json.dump(bundle, file, indent=2)


def check_read(payload):
    private = ec.generate_private_key(ec.SECP256R1())
    with open("b.pub", "wb") as file:
        file.write(
            private.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
    write(private, payload)
    run("check", "a.tsb", "b.pub")
    statement = json.loads(payload)
    write(private, json.dumps(statement, indent=1).encode())
    run("check", "a.tsb", "b.pub")
    statement["subject"][0]["digest"]["sha256"] = "0" * 64
    write(private, json.dumps(statement).encode())
    assert "signs another bundle" in run("check", "a.tsb", "b.pub", expected=4)
    # Numbers that no signature has.
    r, s = utils.decode_dss_signature(private.sign(encoded(payload), ECDSA))
    for numbers in [(0, 0), (0, s), (r, 0), (ORDER, s), (r, ORDER), (r + ORDER, s), (r, s + ORDER), (s, r)]:
        write(private, payload, utils.encode_dss_signature(*numbers))
        assert "the signature is wrong" in run("check", "a.tsb", "b.pub", expected=4), numbers
    write(private, payload, utils.encode_dss_signature(r, s) + b"\0")
    run("check", "a.tsb", "b.pub", expected=4)
    write(private, payload, utils.encode_dss_signature(r, s))
    run("check", "a.tsb", "b.pub")


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    run("tiny", "a.tsb")
    check_read(check_written())
    os.chdir("/")
