"""Room `demo`: the main job on real servers: brokers are emptied while clients write and the controller is killed.

May touch: processes, the terminal. Never: prove a claim by a figure that it did not measure.
"""

from lab.demo.account import Account, MovesSeen, ProvedOrNot, Screen, SequelAccount, ServedAccount
from lab.demo.kraft_yard import run_kraft_demo
from lab.demo.secured_yard import run_secured_demo
from lab.demo.served_yard import run_served_demo
from lab.demo.yard import run_demo

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
