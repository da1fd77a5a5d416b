"""A controller whose certificate expires while it leads: brokers would no longer connect to it."""

import datetime as dt
import urllib.error
import urllib.request

from lab.testbed.controller import ShunterController
from lab.testbed.ports import free_ports
from lab.testbed.waiting import wait_until
from made_certificates import NOW, authority, issued

ROOT = authority("root")
LIVES_S = 20
DAY_S = 86_400


def ready(port):
    """Ask whether the process can do its work: (yes, what it says)."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5) as answer:
            return True, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return False, refusal.read().decode()


def test_the_seat_is_given_back_until_the_certificate_is_renewed(corner, tmp_path):
    (tmp_path / "trust.pem").write_text(ROOT.public)
    (tmp_path / "server.properties").write_text(
        "listener.security.protocol.map=INTERNAL:SSL\ninter.broker.listener.name=INTERNAL\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={tmp_path / 'key.pem'}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={tmp_path / 'trust.pem'}\n"
    )
    port, metrics = free_ports(2)
    since_s = (dt.datetime.now(dt.UTC) - NOW).total_seconds()
    (tmp_path / "key.pem").write_text(issued("x", ROOT, days=(-1, (since_s + LIVES_S) / DAY_S)).pem())
    controller = ShunterController(
        tmp_path / "controller",
        corner[0],
        port=port,
        listeners=(f"INTERNAL://127.0.0.1:{port}",),
        options=("--server-properties", str(tmp_path / "server.properties"), "--set", f"metrics-port={metrics}"),
    )
    with controller:
        assert "expires within two hours" in controller.log_tail(200)
        wait_until(lambda: ready(metrics)[0], what="it leads", timeout_s=10)
        wait_until(lambda: not ready(metrics)[0], what="its certificate expires", timeout_s=LIVES_S + 30)
        assert "expired at" in ready(metrics)[1]
        wait_until(lambda: "resigned: controller" in controller.log_tail(200), what="it resigns", timeout_s=10)
        (tmp_path / "key.pem").write_text(issued("x", ROOT).pem())
        wait_until(
            lambda: controller.log_tail(200).count("elected: controller epoch") == 2,
            what="it leads with the renewed certificate",
            timeout_s=60,
        )
        wait_until(lambda: ready(metrics)[0], what="it is ready again", timeout_s=10)
