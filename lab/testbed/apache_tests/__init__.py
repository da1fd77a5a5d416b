"""Apache's own integration tests, run once with Apache's controller and once with Shunter's.

`python -m lab.testbed.apache_tests [CLASS…]` (`./test --apache [CLASS…]`) fetches Apache's published test classes,
compiles the small Java agent in `agent`, runs each class in a process of its own, and compares the results. The agent
starts `shunter controller` before the first broker of a test; see `agent/ShunterAgent.java`.
"""
