"""Values of `sasl.jaas.config`, and what Kafka's own parser makes of them: two tests use them, one of which asks Java."""

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required "
TAKEN: dict[str, dict[str, str]] = {
    **{f"u={said};": {"u": meant} for said, meant in {
        r'"a\tb"': "a\tb", r'"a\nb"': "a\nb", r'"a\rb"': "a\rb", r'"a\a\b\f\vb"': "a\a\b\f\vb", r'"a\041b"': "a!b",
        r'"a\zb"': "azb", r'"a\u0041b"': "au0041b", r'"a\400b"': "a 0b", r'"a\7b"': "a\x07b", r'"\0601"': "01",
        r'"\18"': "\x018", r'"a\"b\\c"': 'a"b\\c', r"'a\'b'": "a'b", "'a\"b'": 'a"b', "'ab' ": "ab", '"a\'b"': "a'b",
        "ab": "ab", "ab-c_d$e": "ab-c_d$e", '"1234"': "1234", "a.b": "a.b", "_1": "_1", "$x": "$x", '"é€😀"': "é€😀",
        "é€😀": "é€😀", '"a//b"': "a//b", '"a/*b*/c"': "a/*b*/c", '"a;b"': "a;b", '"="': "=", '""': "", '"a#b"': "a#b",
        '"a\tb"': "a\tb", '"a\\\nb"': "a\nb", "ab/* ; */": "ab", "ab // ;\n": "ab", "ab / ;\n": "ab",
    }.items()},
    'u = "ab" ;': {"u": "ab"},
    'u="a" u="b";': {"u": "b"},
    '/* c */ u="ab";': {"u": "ab"},
    '"u"="ab" \'v w\'=x;': {"u": "ab", "v w": "x"},
    'u="ab"v="k";': {"u": "ab", "v": "k"},
    'u_v-w="a b" u.x=y;': {"u_v-w": "a b", "u.x": "y"},
    'é="cd";': {"é": "cd"},
    'u="a\nv=b;': {"u": "a", "v": "b"},
    "u=ab /\n;\n;": {"u": "ab"},
    ";": {},
}  # fmt: skip
"""After `MODULE`: the options."""
REFUSED = (
    "u=1234;", "u=12ab;", "u=a@b;", "u=a#b;", "u=a+b;", "u=-5;", "u=-x;", "u=.5;", "u=.;", 'u="ab" // c;', 'u="ab" / c;',
    'u="ab"', 'u="ab";;', 'u="ab"; Q required x="y";', 'u@x="cd" u="zz";', 'u=a"b";', ',u="ab";', "u;", "u=;", "u", "u=",
    '="x" ;', "u=a\x7fb;", "u=a\x80b;", 'u="a\\', "", 'u="ab" /* c ;', "u==x;", "1=x y;",
)  # fmt: skip
"""After `MODULE`."""
REFUSED_WHOLE = ("", " ", "Module", "Module;", "Module needed u=x;", "Module = u;", ";", "/* x */")
"""The whole value."""
