"""The demos on real servers: brokers 1 and 2 are emptied, while clients write and the controller is killed."""

from shunter.app.demo.account import Account, MovesSeen, ProvedOrNot, Screen, SequelAccount, ServedAccount
from shunter.app.demo.kraft_yard import run_kraft_demo
from shunter.app.demo.secured_yard import run_secured_demo
from shunter.app.demo.served_yard import run_served_demo
from shunter.app.demo.yard import run_demo

__all__ = [
    "Account",
    "MovesSeen",
    "ProvedOrNot",
    "Screen",
    "SequelAccount",
    "ServedAccount",
    "run_demo",
    "run_kraft_demo",
    "run_secured_demo",
    "run_served_demo",
]
