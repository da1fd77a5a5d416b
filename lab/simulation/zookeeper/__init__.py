"""Simulated ZooKeeper: its tree, its sessions, its bytes, and znodes that can't be read."""
