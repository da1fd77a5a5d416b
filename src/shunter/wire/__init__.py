"""Room `wire`: Kafka's protocol as bytes, both ways: kio's messages, our hot-path encoders, framing, fragments.

May touch: bytes. Never: sockets, decisions.
Imports: `model`, `errors`, kio.
"""
