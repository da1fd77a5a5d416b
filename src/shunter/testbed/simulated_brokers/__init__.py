"""Brokers that hold no data: enough of Kafka's protocol to measure a controller with hundreds of them on one machine.

One process and one event loop play all brokers, with real sockets and registrations in a real ZooKeeper. They fence
control requests as a real broker does, keep what the controller told them, and ask for ISR changes as leaders. They do
not know which controller they talk to.
"""
