"""Sub-room `drivers.election`: who may lead, the election, and the loop of the process that leads."""
