"""Which certificates Kafka's own code accepts, as tables: two tests use them, one of which asks Java."""

from made_certificates import ANY, CLIENT, SERVER, authority, issued, other_key

ROOT = authority("root")
OTHER = authority("other")
MIDDLE = issued("middle", ROOT, ca=True)
OLD_MIDDLE = issued("old middle", ROOT, ca=True, days=(-9, -1))
OLD_ROOT = authority("old root", days=(-9, -1))
LONER = issued("loner", None, days=(-9, -1))
IMPOSTOR = other_key(ROOT)

ACCEPTED = {
    "directly of the root": ((issued("x", ROOT),), (ROOT,)),
    "with the root in the chain": ((issued("x", ROOT), ROOT), (ROOT,)),
    "by an intermediate": ((issued("x", MIDDLE), MIDDLE), (ROOT,)),
    "by an intermediate that is trusted itself": ((issued("x", MIDDLE),), (MIDDLE,)),
    "one of several": ((issued("x", ROOT),), (OTHER, ROOT)),
    "for every use": ((issued("x", ROOT, usage=ANY),), (ROOT,)),
    "for servers alone": ((issued("x", ROOT, usage=SERVER),), (ROOT,)),
    "of a root that has expired: Java does not look at its dates": ((issued("x", OLD_ROOT),), (OLD_ROOT,)),
    "expired, and trusted itself: Java asks for nothing more": ((LONER,), (LONER,)),
    "no trust store": ((issued("x", ROOT),), None),
}
"""By name: a chain, and the trust store of its peers; None: not known."""

REFUSED = {
    "expired": ((issued("x", ROOT, days=(-9, -1)),), (ROOT,), "its certificate (CN=x) expired at "),
    "expired, no trust store": ((issued("x", ROOT, days=(-9, -1)),), None, "its certificate (CN=x) expired at"),
    "not yet valid": ((issued("x", ROOT, days=(1, 9)),), (ROOT,), "(CN=x) is not valid before "),
    "an old intermediate": (
        (issued("x", OLD_MIDDLE), OLD_MIDDLE),
        (ROOT,),
        "a certificate of its chain (CN=old middle) expired at",
    ),
    "another authority": ((issued("x", OTHER),), (ROOT,), "(CN=x) leads to CN=other, and the trust store"),
    "another authority in the chain": ((issued("x", OTHER), OTHER), (ROOT,), "leads to CN=other"),
    "an intermediate is missing": ((issued("x", MIDDLE),), (ROOT,), "leads to CN=middle"),
    "the name of the root alone": ((issued("x", IMPOSTOR),), (ROOT,), "leads to CN=root"),
    "for clients alone": ((issued("x", ROOT, usage=CLIENT),), (ROOT,), "extended key usage is clientAuth alone"),
}
"""The same, and a part of the sentence."""

FOR = [
    (["DNS:kafka1.example.com"], "kafka1.example.com"),
    (["DNS:kafka1.example.com"], "KAFKA1.Example.com"),
    (["DNS:*.example.com"], "kafka1.example.com"),
    (["DNS:kafka*.example.com"], "kafka1.example.com"),
    (["DNS:elsewhere", "DNS:kafka1"], "kafka1"),
    (["IP:10.0.0.5"], "10.0.0.5"),
    (["IP:::1"], "0:0:0:0:0:0:0:1"),
    ([], "x"),
    (["IP:10.0.0.5"], "x"),
]
"""Subject alternative names of a certificate of the common name x, and a host that it is for."""

NOT_FOR = [
    (["DNS:elsewhere.example"], "127.0.0.1", "is for elsewhere.example, and not for 127.0.0.1"),
    (["DNS:*.example.com"], "a.b.example.com", "is for *.example.com, and not for a.b.example.com"),
    (["DNS:*.example.com"], "example.com", "and not for example.com"),
    (["DNS:*"], "kafka1", "and not for kafka1"),
    (["DNS:10.0.0.5"], "10.0.0.5", "and not for 10.0.0.5"),
    (["IP:10.0.0.6"], "10.0.0.5", "is for 10.0.0.6"),
    (["DNS:y"], "x", "is for y, and not for x"),
    ([], "127.0.0.1", "is for no host by a subject alternative name, and not for 127.0.0.1"),
]
"""The same with a host that it is not for, and a part of the sentence."""
