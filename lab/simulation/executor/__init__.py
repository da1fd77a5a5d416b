"""The executor's world: the real core, driver and journal in front of a simulated cluster with another controller."""
