"""Defaults of brokers that differ are told while the controller leads: each difference once, and its end."""

import logging
from dataclasses import replace

from shunter.app.controller.broker_defaults import BrokerDefaults
from shunter.model.settings import ControllerSettings

OURS = ControllerSettings(broker_id=100)


def test_each_difference_is_told_once_and_its_end_too(caplog):
    caplog.set_level(logging.INFO, logger="shunter.controller")
    defaults = BrokerDefaults()
    alike = {1: {"num.partitions": "1", "min.insync.replicas": "1"}, 2: {"num.partitions": "1"}}
    other = {1: {"num.partitions": "1", "min.insync.replicas": "1"}, 2: {"num.partitions": "6"}}
    for told in ({}, alike, other, other, alike, alike):
        defaults.compare(told, OURS)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert caplog.messages[0] == "num.partitions: brokers differ: 1 on 1; 6 on 2; set it alike on all brokers"
    assert caplog.messages[1] == "num.partitions: no difference any more"
    assert not defaults.different


def test_other_settings_of_ours_are_another_difference(caplog):
    defaults = BrokerDefaults()
    told = {1: {"min.insync.replicas": "2"}}
    defaults.compare(told, OURS)
    defaults.compare(told, replace(OURS, default_min_isr=3))
    defaults.compare(told, replace(OURS, default_min_isr=2))
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [message.partition("; ")[2] for message in warned] == ["set default_min_isr=2"] * 2
    assert not defaults.different
