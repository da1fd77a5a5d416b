"""SIGTERM ends a controller soon, even if ZooKeeper does not answer."""

from lab.testbed.controller import ShunterController
from lab.testbed.waiting import wait_until
from lab.testbed.zookeeper import ZooKeeperServer


def test_sigterm_gives_the_controllership_back(corner, tmp_path):
    controller = ShunterController(tmp_path / "controller", corner[0])
    controller.start()
    controller.process.stop(20)
    assert controller.process.exit_status == 0
    assert not controller.is_leading()


def test_sigterm_without_zookeeper(tmp_path):
    with ZooKeeperServer(tmp_path / "zookeeper") as server:
        controller = ShunterController(tmp_path / "controller", server.connect_string)
        controller.start()
        server.kill()
        controller.process.stop(20)
        wait_until(lambda: not controller.alive, what="the controller ended", timeout_s=5)
        assert controller.process.exit_status == 0
