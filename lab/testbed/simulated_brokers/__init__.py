"""Brokers without data: enough of Kafka's protocol to measure a controller with hundreds of them on one machine.

One process with one event loop simulates all brokers, with real sockets and registrations in a real ZooKeeper. They
fence control requests as a real broker does, keep what the controller told them, and ask for ISR changes as leaders.
They work with any controller.
"""
